#include "route/operands.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace qwisp {
namespace {

[[noreturn]] void too_far() {
    throw std::invalid_argument(
        "diag: the byte offset of this layer, slot and max_rows does not fit 64 bits");
}

uint64_t product(uint64_t a, uint64_t b) {
    uint64_t result;
    if (__builtin_mul_overflow(a, b, &result)) too_far();
    return result;
}

uint64_t sum(uint64_t a, uint64_t b) {
    uint64_t result;
    if (__builtin_add_overflow(a, b, &result)) too_far();
    return result;
}

void check_at_least(const char *argument, int64_t found, int64_t least) {
    if (found >= least) return;
    throw std::invalid_argument(std::string(argument) + ": " + std::to_string(found) +
                                ", but it must be at least " + std::to_string(least));
}

}  // namespace

bool bias_applies(float eps) {
    if (!std::isfinite(eps)) {
        throw std::invalid_argument("bias.eps: " + std::to_string(eps) + ", but it must be finite");
    }
    return eps > 0;
}

DiagCopy diag_copy(const RouteShape &shape, const DiagPlace &place) {
    check_scratch_shape(shape.rows, shape.experts, shape.top_k);
    check_at_least("diag.layers", place.layers, 1);
    check_at_least("diag.layer", place.layer, 0);
    check_at_least("diag.slot", place.slot, 0);
    check_at_least("diag.max_rows", place.max_rows, 1);
    if (place.layer >= place.layers) {
        throw std::invalid_argument("diag.layer: " + std::to_string(place.layer) +
                                    ", but it must be below layers, " + std::to_string(place.layers));
    }
    const auto experts = uint64_t(shape.experts), top_k = uint64_t(shape.top_k);
    const uint64_t layer_index =
        sum(product(uint64_t(place.slot), uint64_t(place.layers)), uint64_t(place.layer));
    const uint64_t place_bytes = product(product(uint64_t(place.max_rows), top_k), sizeof(int32_t));
    const uint64_t logits_bytes = experts * sizeof(uint16_t);

    DiagCopy copy;
    copy.inds_offset = product(layer_index, place_bytes);
    copy.inds_length = sum(copy.inds_offset, place_bytes);
    copy.logits_offset = product(uint64_t(place.layer), logits_bytes);
    copy.logits_length = sum(copy.logits_offset, logits_bytes);
    copy.inds_count = shape.rows <= place.max_rows ? uint32_t(shape.rows * shape.top_k) : 0;
    copy.logits_count = shape.rows == 1 && place.slot == 0 ? uint32_t(experts) : 0;
    return copy;
}

void check_diag_lengths(const DiagCopy &copy, uint64_t inds, uint64_t logits) {
    check_length("diag.inds", inds, copy.inds_length, "int32 up to the end of this layer, slot and max_rows");
    check_length("diag.logits", logits, copy.logits_length, "float16 up to the end of this layer");
}

}  // namespace qwisp
