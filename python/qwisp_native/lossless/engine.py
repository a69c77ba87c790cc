"""The language model by numpy, all but routing: one row after the other, so that M rows are M single rows.

Every product of a row is the same call with the same shapes whatever the step's width, on operands that lie
in the same places, and attention is over exactly the row's own prefix: a row's bits cannot depend on its
neighbours. Only routing sees all rows of a step at once, which is what the gate is about.

Qwen3-MoE: norm, attention with norms of queries and keys and rotary positions (halves), residual; norm,
rounded to float16, routing, experts, residual. All else is float32.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .model import F32, Model
from .routing import Routing


def aligned(*shape: int) -> F32:
    """Zeros that begin at a multiple of 64 bytes."""
    size = int(np.prod(shape))
    raw = np.zeros(size + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + size].reshape(shape)


class Engine:
    """A model, a router and a cache of keys and values.

    Args:
        model: weights.
        routing: chooses experts.
        capacity: the most positions.

    """

    def __init__(self, model: Model, routing: Routing, capacity: int) -> None:
        c = self.config = model.config
        self.model = model
        self.routing = routing
        self.capacity = capacity
        self.length = 0
        # keys lie transposed: a product over all of a row's prefix then runs along memory
        self._keys = [aligned(c.kv_heads, c.head_dim, capacity) for _ in range(c.layers)]
        self._values = [aligned(c.kv_heads, capacity, c.head_dim) for _ in range(c.layers)]
        half = np.arange(c.head_dim // 2) * 2 / c.head_dim
        angles = np.arange(capacity)[:, None] / c.rope_theta**half
        self._cos = np.tile(np.cos(angles), 2).astype(np.float32)
        self._sin = np.concatenate([-np.sin(angles), np.sin(angles)], axis=1).astype(np.float32)
        queries = c.heads * c.head_dim
        self._row = aligned(c.hidden)
        self._heads = aligned(queries)
        self._qkv = aligned(queries + 2 * c.kv_heads * c.head_dim)
        self._out = aligned(c.hidden)
        self._gate_up = aligned(c.top_k, 2 * c.inner, c.hidden)
        self._down = aligned(c.top_k, c.inner, c.hidden)
        self._acts = aligned(c.top_k * c.inner)
        self._inner = aligned(c.top_k * 2 * c.inner)
        self._vocabulary = aligned(c.vocabulary)

    def step(self, tokens: bytes, *, last_only: bool = False) -> F32:
        """Put tokens behind those in the cache.

        Args:
            tokens: 1 to 25 of them.
            last_only: logits of the last token only.

        Returns:
            float32 [M, V], or [1, V]: logits of what follows each of them.

        Raises:
            ValueError: more positions than there is room for, or what Routing.begin refuses.

        """
        rows = len(tokens)
        if self.length + rows > self.capacity:
            raise ValueError(f"tokens: {rows} behind {self.length}, but the cache holds {self.capacity}")
        self.routing.begin(self.length, rows)
        hidden = self.model.embedding[np.frombuffer(tokens, np.uint8)]
        x = np.empty((rows, self.config.hidden), np.float16)
        for number in range(self.config.layers):
            for row in range(rows):
                self._attend(number, hidden[row], x[row], self.length + row)
            routed = self.routing.route(number, x)
            contents = self.routing.contents
            experts = routed.choice if contents is None else contents[routed.choice]
            for row in range(rows):
                at = self.length + row
                self._experts(
                    number, hidden[row], x[row], experts=experts[row], scores=routed.scores[row], position=at
                )
        self.routing.end()
        wanted = range(rows - 1 if last_only else 0, rows)
        logits = np.stack([self._head(hidden[row], self.length + row) for row in wanted])
        self.length += rows
        return logits

    def rollback(self, length: int) -> None:
        """Forget all positions from `length` on.

        Raises:
            ValueError: there are not so many.

        """
        if not 0 <= length <= self.length:
            raise ValueError(f"length: {length}, but it must be 0 to {self.length}")
        self.length = length

    def _norm(self, row: F32, weight: F32) -> F32:
        np.copyto(self._row, row)
        mean = np.dot(self._row, self._row) / np.float32(row.size)
        self._row *= 1 / np.sqrt(mean + np.float32(self.config.norm_eps))
        self._row *= weight
        return self._row

    def _attend(self, number: int, hidden: F32, x: NDArray[np.float16], position: int) -> None:
        """Attention into `hidden`, and what is routed into `x`."""
        c, layer = self.config, self.model.layers[number]
        np.dot(layer.qkv, self._norm(hidden, layer.input_norm), out=self._qkv)
        turned = (c.heads + c.kv_heads) * c.head_dim
        heads = self._qkv[:turned].reshape(-1, c.head_dim)
        mean = np.einsum("hd,hd->h", heads, heads) / np.float32(c.head_dim)
        heads *= (1 / np.sqrt(mean + np.float32(c.norm_eps)))[:, None]
        heads *= layer.qk_norm
        half = c.head_dim // 2
        swapped = np.concatenate([heads[:, half:], heads[:, :half]], axis=1)
        heads = heads * self._cos[position] + swapped * self._sin[position]

        keys, values = self._keys[number], self._values[number]
        keys[:, :, position] = heads[c.heads :]
        values[:, position] = self._qkv[turned:].reshape(c.kv_heads, c.head_dim)
        queries = heads[: c.heads].reshape(c.kv_heads, -1, c.head_dim) * np.float32(c.head_dim**-0.5)
        weights = np.matmul(queries, keys[:, :, : position + 1])
        weights -= weights.max(axis=2, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=2, keepdims=True)
        self._heads[:] = np.matmul(weights, values[:, : position + 1]).ravel()
        hidden += np.dot(layer.output, self._heads, out=self._out)
        x[:] = self._norm(hidden, layer.post_norm)

    def _experts(
        self,
        number: int,
        hidden: F32,
        x: NDArray[np.float16],
        *,
        experts: NDArray[np.int32],
        scores: NDArray[np.float16],
        position: int,
    ) -> None:
        """The experts into `hidden`, added in order of choice: another order is another sum."""
        c, layer = self.config, self.model.layers[number]
        np.copyto(self._row, x)
        # "clip" writes into `out` directly; routing has seen to it that there is nothing to clip
        np.take(layer.gate_up, experts, axis=0, out=self._gate_up, mode="clip")
        np.take(layer.down, experts, axis=0, out=self._down, mode="clip")
        np.dot(self._gate_up.reshape(-1, c.hidden), self._row, out=self._inner)
        gate_up = self._inner.reshape(c.top_k, 2, c.inner)
        gate = gate_up[:, 0]
        acts = gate / (1 + np.exp(-gate)) * gate_up[:, 1] * scores.astype(np.float32)[:, None]
        np.copyto(self._acts, acts.ravel())
        hidden += np.dot(self._acts, self._down.reshape(-1, c.hidden), out=self._out)

    def _head(self, hidden: F32, position: int) -> F32:
        norm = self._norm(hidden, self.model.norm)
        return np.dot(self.model.embedding, norm, out=self._vocabulary).copy()
