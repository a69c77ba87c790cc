// The results of every timed command buffer, held against each other bit for bit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "timing/workload.h"

namespace qwisp::timing {

// Overwrites the results in a slot, so that none that are found there later can be of an earlier run.
void poison(const Workload &workload, int64_t slot);

// Commands on the same rows and gates must leave the same results, whichever arm they are of.
class Outputs {
  public:
    Outputs(const Workload &workload, std::vector<std::string> arms)
        : workload_(workload), arms_(std::move(arms)), compared_(arms_.size()) {}

    void check(int64_t slot, int64_t x_set, int64_t block, size_t arm, int64_t round);

    // The first difference, in words; empty: none.
    const std::string &difference() const { return difference_; }
    // How often results of this arm were held against those of another.
    const std::vector<uint64_t> &compared() const { return compared_; }

  private:
    struct Reference {
        size_t arm;
        std::vector<std::byte> bytes;  // inds and scores, layer after layer
    };

    std::string describe(const std::vector<std::byte> &found, const Reference &reference, size_t arm,
                         int64_t round) const;

    const Workload &workload_;
    const std::vector<std::string> arms_;
    std::map<std::pair<int64_t, int64_t>, Reference> references_;
    std::vector<uint64_t> compared_;
    std::string difference_;
};

}  // namespace qwisp::timing
