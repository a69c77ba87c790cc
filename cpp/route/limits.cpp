#include "route/limits.h"

#include <stdexcept>
#include <string>

#include "route_types.h"

namespace qwisp {
namespace {

// The kernels index with 32 bits, and callers count with int32.
constexpr int64_t kMaxCount = (int64_t{1} << 31) - 1;

[[noreturn]] void refuse(std::string_view argument, int64_t found, const std::string &limit) {
    throw std::invalid_argument(std::string(argument) + ": " + std::to_string(found) + ", but " + limit);
}

void check_positive(std::string_view argument, int64_t found) {
    if (found < 1) refuse(argument, found, "it must be at least 1");
    if (found > kMaxCount) refuse(argument, found, "it must be at most " + std::to_string(kMaxCount));
}

void check_multiple(std::string_view argument, int64_t found, int64_t factor) {
    check_positive(argument, found);
    if (found % factor != 0) refuse(argument, found, "it must be a multiple of " + std::to_string(factor));
}

// Both factors are at most 2^31, so the product fits.
void check_product(std::string_view argument, int64_t a, int64_t b) {
    if (a * b > kMaxCount) refuse(argument, a * b, "it must be at most " + std::to_string(kMaxCount));
}

void check_experts(int64_t experts) {
    check_positive("experts (E)", experts);
    if (experts > kMaxExperts)
        refuse("experts (E)", experts, "it must be at most " + std::to_string(kMaxExperts));
    check_multiple("experts (E)", experts, kExpertMultiple);
}

}  // namespace

void check_gate_shape(int64_t hidden, int64_t experts) {
    check_multiple("hidden (H)", hidden, kHiddenMultiple);
    check_experts(experts);
    check_product("experts * hidden", experts, hidden);
}

void check_scratch_shape(int64_t rows, int64_t experts, int64_t top_k) {
    check_experts(experts);
    if (top_k < 1 || top_k > experts) {
        refuse("top_k (K)", top_k, "it must be from 1 to the number of experts, " + std::to_string(experts));
    }
    if (rows < 0) refuse("rows (M)", rows, "it must not be negative");
    if (rows > kMaxCount) refuse("rows (M)", rows, "it must be at most " + std::to_string(kMaxCount));
    check_product("rows * experts", rows, experts);
}

void check_route_shape(const RouteShape &shape) {
    check_gate_shape(shape.hidden, shape.experts);
    check_scratch_shape(shape.rows, shape.experts, shape.top_k);
    check_product("rows * hidden", shape.rows, shape.hidden);
}

void check_length(std::string_view argument, uint64_t found, uint64_t needed, std::string_view meaning) {
    if (found >= needed) return;
    throw std::invalid_argument(std::string(argument) + ": " + std::to_string(found) + " bytes, but " +
                                std::to_string(needed) + " are needed (" + std::string(meaning) + ")");
}

void check_exact_length(std::string_view argument, uint64_t found, uint64_t needed,
                        std::string_view meaning) {
    if (found == needed) return;
    throw std::invalid_argument(std::string(argument) + ": " + std::to_string(found) +
                                " bytes, but it must be " + std::to_string(needed) + " (" +
                                std::string(meaning) + ")");
}

}  // namespace qwisp
