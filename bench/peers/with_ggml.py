"""llama.cpp's ggml through the package ggml-python: the route of its build_moe_ffn, one graph a layer.

Its Q8_0 has a scale for each 32 columns and none of our biases, so the weights are quantised again, and it
rounds the rows to 8 bits too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import ggml
import numpy as np
from numpy.typing import NDArray

from qwisp_native.quantize import QuantizedGate

from . import TOP_K, Peer, dequantized

if not hasattr(ggml, "ggml_argsort_top_k"):  # another package goes by the same name
    raise ImportError("the module ggml that is installed is not a recent ggml-python")

_GRAPH_NODES = 32


def _context(data: int, tensors: int, graphs: int = 0) -> Any:
    overhead = tensors * (ggml.ggml_tensor_overhead() + 64)
    overhead += graphs * (ggml.ggml_graph_overhead_custom(_GRAPH_NODES, False) + 64)
    context = ggml.ggml_init(ggml.ggml_init_params(mem_size=data + overhead, mem_buffer=None, no_alloc=False))
    if not context:
        raise MemoryError("ggml_init")
    return context


def _view(tensor: Any, kind: Any, columns: int) -> NDArray[Any]:
    """The memory of a tensor [rows, columns], without a copy."""
    size = ggml.ggml_nelements(tensor) * np.dtype(kind).itemsize
    memory = (ctypes.c_uint8 * size).from_address(ggml.ggml_get_data(tensor))
    return np.frombuffer(memory, kind).reshape(-1, columns)


class Ggml(Peer):
    """Weights as Q8_0, or as the f32 that llama.cpp keeps gates in."""

    def __init__(self, name: str, kind: int) -> None:
        self.name = f"ggml {name}"
        self._kind = kind
        if kind == ggml.GGML_TYPE_Q8_0:
            self.margin, self.tolerance = 0.08, 0.02
        self._graphs_context: Any = None

    def prepare(self, sets: Sequence[QuantizedGate], threads: int) -> None:
        self._threads = threads
        ggml.ggml_cpu_init()
        self._pool = ggml.ggml_threadpool_new(ctypes.byref(ggml.ggml_threadpool_params_default(threads)))
        experts, hidden = dequantized(sets[0]).shape
        nbytes = experts * ggml.ggml_row_size(self._kind, hidden)
        context = _context(len(sets) * nbytes, len(sets))
        self._weights = []
        for each in sets:
            dense = np.ascontiguousarray(dequantized(each))
            weight = ggml.ggml_new_tensor_2d(context, self._kind, hidden, experts)
            source = dense.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            data = ggml.ggml_get_data(weight)
            ggml.ggml_quantize_chunk(self._kind, source, data, 0, experts, hidden, None)
            self._weights.append(weight)

    def input(self, x: NDArray[np.float16]) -> Any:
        """Float rows; and the graphs for so many of them, which a user would keep too."""
        if self._graphs_context:
            ggml.ggml_free(self._graphs_context)
        rows, hidden = x.shape
        experts, sets = self._weights[0].contents.ne[1], len(self._weights)
        floats = rows * (hidden + sets * (4 * experts + 8 * TOP_K))
        self._graphs_context = context = _context(4 * floats, 1 + 16 * sets, sets)
        self._x = ggml.ggml_new_tensor_2d(context, ggml.GGML_TYPE_F32, hidden, rows)
        self._rows_at = ggml.ggml_get_data(self._x)
        self._graphs = [self._graph(context, each, rows, experts) for each in self._weights]
        return x.astype(np.float32)

    def _graph(self, context: Any, weight: Any, rows: int, experts: int) -> Any:
        gates = ggml.ggml_soft_max(context, ggml.ggml_mul_mat(context, weight, self._x))
        inds = ggml.ggml_argsort_top_k(context, gates, TOP_K)
        scores = ggml.ggml_get_rows(context, ggml.ggml_reshape_3d(context, gates, 1, experts, rows), inds)
        scores = ggml.ggml_reshape_2d(context, scores, TOP_K, rows)
        scores = ggml.ggml_div(context, scores, ggml.ggml_sum_rows(context, scores))
        graph = ggml.ggml_new_graph_custom(context, _GRAPH_NODES, False)
        ggml.ggml_build_forward_expand(graph, scores)
        plan = ggml.ggml_graph_plan(graph, self._threads, self._pool)
        work = (ctypes.c_uint8 * max(1, plan.work_size))()
        plan.work_data = ctypes.cast(work, ctypes.POINTER(ctypes.c_uint8))
        # `inds` is a view of the whole order, whose rows it cuts short
        order = _view(inds.contents.view_src, np.int32, experts)
        return graph, plan, work, order[:, :TOP_K], _view(scores, np.float32, TOP_K)

    def run(self, x: Any, index: int) -> Any:
        graph, plan, _, inds, scores = self._graphs[index]
        ctypes.memmove(self._rows_at, x.ctypes.data, x.nbytes)
        if ggml.ggml_graph_compute(graph, ctypes.byref(plan)):
            raise RuntimeError("ggml_graph_compute failed")
        return inds, scores

    def rest(self) -> None:
        ggml.ggml_threadpool_pause(self._pool)  # its threads would go on spinning


PEERS: list[Peer] = [Ggml("Q8_0", ggml.GGML_TYPE_Q8_0), Ggml("f32", ggml.GGML_TYPE_F32)]
