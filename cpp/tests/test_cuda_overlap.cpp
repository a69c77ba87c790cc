// Which kernels may start before the one before them has ended: read off the key of a graph.
#include <random>

#include "cuda_fixture.h"

using namespace qwisp::test;

namespace {

// Kernels with one early argument, which they read, and another that they write.
struct Chain {
    struct Step {
        uint64_t early, written;  // addresses of 16 bytes
    };

    // For each step whether it may overlap the one before.
    std::vector<bool> overlaps(const std::vector<Step> &steps, Launching launching = Launching::dependent) {
        std::vector<std::unique_ptr<CudaMemory>> memories;
        std::vector<std::array<Binding, 2>> bindings(steps.size());
        std::vector<Command> commands;
        const auto bind = [&](uint64_t address) {  // each time a Memory of its own
            memories.push_back(std::make_unique<CudaMemory>(gpu, address, 16));
            return Binding{memories.back().get(), nullptr, 0, 16};
        };
        for (size_t i = 0; i < steps.size(); ++i) {
            bindings[i] = {bind(steps[i].early), bind(steps[i].written)};
            commands.push_back(Dispatch{&kernel, bindings[i], {1, 1, 1}, {32, 1, 1}, {32, 1, 1}});
        }
        const Flat flat = flatten(commands, launching);
        constexpr size_t kWords =
            1 + 3 + 3 + 2;  // of a dispatch: kernel and overlap, groups, threads, arguments
        REQUIRE(flat.key.size() == 1 + kWords * steps.size());
        std::vector<bool> all;
        for (size_t i = 0; i < steps.size(); ++i) all.push_back(flat.key[1 + kWords * i] & 1);
        return all;
    }

    std::shared_ptr<cuda::Gpu> gpu = std::make_shared<cuda::Gpu>(0);
    CudaCode code;
    CudaKernel kernel{{"k", {in("early", 0), out("written", 1)}, {}}, code, true, {true, false}};
};

}  // namespace

TEST_CASE("what is read early must not have been written since all was waited for") {
    Chain chain;
    using Bools = std::vector<bool>;
    CHECK(chain.overlaps({{0x100, 0x200}, {0x100, 0x300}, {0x100, 0x400}}) == Bools{false, true, true});
    // The second reads early what the first wrote; the third what the first wrote, two launches ago.
    CHECK(chain.overlaps({{0x100, 0x200}, {0x200, 0x300}}) == Bools{false, false});
    CHECK(chain.overlaps({{0x100, 0x200}, {0x100, 0x300}, {0x200, 0x400}}) == Bools{false, true, false});
    // The third waited for all, so the fourth may read that too.
    CHECK(chain.overlaps({{0x100, 0x200}, {0x100, 0x300}, {0x200, 0x400}, {0x200, 0x500}}) ==
          Bools{false, true, false, true});
    // Parts and neighbours.
    CHECK(chain.overlaps({{0x100, 0x200}, {0x20f, 0x300}}) == Bools{false, false});
    CHECK(chain.overlaps({{0x100, 0x200}, {0x1f1, 0x300}}) == Bools{false, false});
    CHECK(chain.overlaps({{0x100, 0x200}, {0x210, 0x300}}) == Bools{false, true});
    CHECK(chain.overlaps({{0x100, 0x200}, {0x1f0, 0x300}}) == Bools{false, true});
    CHECK(chain.overlaps({{0x100, 0x200}, {0x100, 0x300}}, Launching::graph) == Bools{false, false});
}

TEST_CASE("many writes in any order: as a plain search finds it") {
    Chain chain;
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        std::vector<Chain::Step> steps;
        const uint64_t spread = 200 + 20 * round;
        for (int i = 0; i < 60; ++i) steps.push_back({random() % spread, random() % spread});
        std::vector<bool> expected;
        std::vector<uint64_t> written;
        for (const auto &[early, out] : steps) {
            const auto touches = [early = early](uint64_t at) { return at < early + 16 && early < at + 16; };
            expected.push_back(!expected.empty() && std::none_of(written.begin(), written.end(), touches));
            if (!expected.back()) written.clear();
            written.push_back(out);
        }
        REQUIRE(chain.overlaps(steps) == expected);
    }
}
