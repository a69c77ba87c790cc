// What follows a route: telemetry and the remap of expert ids to resident slots. 256 threads a threadgroup.
#if !defined(QWISP_CONTRACT_COMPILER)
#pragma METAL fp contract(off)  // safe math alone does not stop contraction (docs/apple.md)
#endif
#pragma METAL fp math_mode(safe)
#include "compat.h"
#include "route_types.h"

// CONTRACT section 5. The host binds the outputs at the byte offsets of the layer, slot and row.
QWISP_KERNEL(diag_copy_route)(QWISP_BUFFER(const int, inds, kDiagInds),
                              QWISP_BUFFER(const half, logits, kDiagLogits),
                              QWISP_BUFFER(int, inds_out, kDiagIndsOut),
                              QWISP_BUFFER(half, logits_out, kDiagLogitsOut),
                              QWISP_ARGS(DiagArgs, args, kDiagArgs) QWISP_THREAD_ARGS) {
    const uint i = group.x * kCopyThreads + thread_index;
    if (i < args.inds_count) inds_out[i] = inds[i];
    if (i < args.logits_count) logits_out[i] = logits[i];
}

// CONTRACT section 6. An id outside the table, a negative one included, passes through untouched.
QWISP_KERNEL(slot_remap_rows)(QWISP_BUFFER(int, inds, kRemapInds), QWISP_BUFFER(const int, table, kRemapTable),
                              QWISP_ARGS(RemapArgs, args, kRemapArgs) QWISP_THREAD_ARGS) {
    const uint i = group.x * kCopyThreads + thread_index;
    if (i >= args.count) return;
    const int id = inds[i];
    if (id >= 0 && uint(id) < args.table_length) inds[i] = table[id];
}
