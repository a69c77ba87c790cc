// Runs a kernel of litmus_kernels.metal under many seeds, or under every choice of a bounded number of
// departures.
#pragma once
#include <map>
#include <utility>

#include "simt_fixture.h"

namespace qwisp::test {

inline const std::string &litmus_text() {
    static const std::string text = load_text(QWISP_TEST_LITMUS_IMAGE, QWISP_TEST_LITMUS_TEXT);
    return text;
}

inline constexpr uint32_t kUntouched = 0xdead;

struct Litmus : Simt {
    ConstantValues constants{{0u, false}, {1u, false}, {2u, false}, {3u, 0u}};
    uint64_t groups = 2, threads = 1;

    struct Outcome {
        std::vector<uint32_t> words, out;
        std::string error;
    };
    using Pair = std::pair<uint32_t, uint32_t>;
    struct Outcomes {
        std::map<Pair, int> pairs;  // of out, or of words
        int errors = 0, runs = 0;
        std::string error;  // the first
    };

    explicit Litmus(simt::RunawayLimits limits = {}) : Simt(limits, litmus_text()) {}

    Outcome once(const char *kernel) {
        Array<uint32_t> words(driver, 8), data(driver, 8), out(driver, 1024);
        std::fill(out.data(), out.data() + out.count, kUntouched);
        Outcome outcome;
        outcome.error =
            run(kernel, {words.binding(), data.binding(), out.binding()}, {groups, 1, 1}, threads, constants);
        outcome.words = words.values();
        outcome.out = out.values();
        return outcome;
    }
    Outcomes seeds(const char *kernel, uint64_t count, bool of_words = false) {
        Outcomes outcomes;
        for (uint64_t seed = 0; seed < count; seed++) {
            driver.set_shuffle_seed(seed);
            add(outcomes, once(kernel), of_words);
        }
        driver.set_shuffle_seed({});
        return outcomes;
    }
    Outcomes explored(const char *kernel, uint32_t bound, bool of_words = false) {
        Outcomes outcomes;
        simt::ExploredChoices choices(bound);
        driver.set_choices(&choices);
        do add(outcomes, once(kernel), of_words);
        while (choices.next());
        driver.set_choices(nullptr);
        return outcomes;
    }

  private:
    static void add(Outcomes &outcomes, const Outcome &outcome, bool of_words) {
        const std::vector<uint32_t> &values = of_words ? outcome.words : outcome.out;
        outcomes.runs++;
        if (outcome.error.empty()) {
            outcomes.pairs[{values[0], values[1]}]++;
        } else if (outcomes.errors++ == 0) {
            outcomes.error = outcome.error;
        }
    }
};

}  // namespace qwisp::test
