#include "timing/outputs.h"

#include <algorithm>
#include <cstring>

namespace qwisp::timing {
namespace {

constexpr std::byte kPoison{0xff};  // no expert -1 and no score NaN comes of finite rows

}  // namespace

void poison(const Workload &workload, int64_t slot) { workload.fill_results(slot, kPoison); }

void Outputs::check(int64_t slot, int64_t x_set, int64_t block, size_t arm, int64_t round) {
    std::vector<std::byte> found = workload_.results(slot);
    const auto [place, is_first] = references_.try_emplace({x_set, block}, Reference{arm, {}});
    Reference &reference = place->second;
    if (is_first) {
        if (std::find_if(found.begin(), found.end(), [](std::byte b) { return b != kPoison; }) == found.end())
            difference_ = "arm '" + arms_[arm] + "' wrote no results";
        reference.bytes = std::move(found);
        return;
    }
    if (reference.arm != arm) {
        ++compared_[arm];
        ++compared_[reference.arm];
    }
    if (found != reference.bytes && difference_.empty()) {
        difference_ = describe(found, reference, arm, round);
    }
}

std::string Outputs::describe(const std::vector<std::byte> &found, const Reference &reference, size_t arm,
                              int64_t round) const {
    const RouteShape &shape = workload_.options().shape;
    const auto chosen = size_t(shape.rows * shape.top_k);
    const auto at =
        size_t(std::mismatch(found.begin(), found.end(), reference.bytes.begin()).first - found.begin());
    const size_t layer_bytes = chosen * (sizeof(int32_t) + sizeof(uint16_t)), layer = at / layer_bytes;
    const size_t within = at % layer_bytes, inds_bytes = chosen * sizeof(int32_t);
    const bool is_ind = within < inds_bytes;
    const size_t element = is_ind ? within / sizeof(int32_t) : (within - inds_bytes) / sizeof(uint16_t);
    const auto value = [&](const std::vector<std::byte> &bytes) -> int64_t {
        int32_t ind = 0;
        uint16_t score = 0;
        const std::byte *base = bytes.data() + layer * layer_bytes;
        std::memcpy(&ind, base + (is_ind ? element * sizeof ind : 0), sizeof ind);
        std::memcpy(&score, base + inds_bytes + (is_ind ? 0 : element * sizeof score), sizeof score);
        return is_ind ? int64_t(ind) : int64_t(score);
    };
    const auto top_k = size_t(shape.top_k);
    return "round " + std::to_string(round) + ", layer " + std::to_string(layer) + ": " +
           (is_ind ? "inds[" : "bits of scores[") + std::to_string(element / top_k) + ", " +
           std::to_string(element % top_k) + "] are " + std::to_string(value(found)) + " in arm '" +
           arms_[arm] + "', but " + std::to_string(value(reference.bytes)) + " in arm '" +
           arms_[reference.arm] + "'";
}

}  // namespace qwisp::timing
