"""How near the choices of a run were to others, and what another tie order would have made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tie_order import chosen, ordinals, reversed_bits
from .decode import greedy
from .memo import Memo, MemoEngine
from .model import Model
from .routing import DeviceRouting, Routed
from .trace import Trace

THREADS = 256  # of the trees of docs/contract.md section 3


def scores_of(logits: NDArray[np.float16], choice: NDArray[np.int32]) -> NDArray[np.float16]:
    """Scores of one row's choice (docs/contract.md section 3, steps 1 to 3 and 5).

    Args:
        logits: float16 [E], no NaN.
        choice: int32 [K].

    Returns:
        float16 [K].

    """
    values = np.full(THREADS, -np.inf, np.float32)
    values[: logits.size] = logits
    terms = np.exp((values - values.max()).astype(np.float64)).astype(np.float32)
    total = terms.copy()
    while total.size > 1:
        total = total[: total.size // 2] + total[total.size // 2 :]
    gates = (terms[choice] / total[0]).astype(np.float16)
    summed = np.float16(0)
    for gate in gates:
        summed = np.float16(summed + gate)
    scores: NDArray[np.float16] = gates / summed
    return scores


class LowerIndexRouting:
    """A device's logits, but equal ones by the lower index: what the contract is not. Unbiased, no slots."""

    contents = None

    def __init__(self, base: DeviceRouting) -> None:
        self.base = base
        self.begin, self.end = base.begin, base.end

    def route(self, layer: int, x: NDArray[np.float16]) -> Routed:
        """As Routing.route."""
        routed = self.base.route(layer, x)
        if routed.logits is None:
            raise ValueError("telemetry: False, but another order needs the logits")
        choice = chosen(routed.logits, routed.choice.shape[1], np.arange(routed.logits.shape[1]))
        scores = routed.scores.copy()
        for row in np.flatnonzero((choice != routed.choice).any(axis=1)):
            scores[row] = scores_of(routed.logits[row], choice[row])
        return Routed(choice, scores, routed.logits)


@dataclass
class NearTies:
    """Of one greedy run, bias off. Rows are those of all layers and positions."""

    rows: int = 0
    exact: int = 0
    """The K-th and the next logit are equal."""
    one_ulp: int = 0
    """They are neighbours in float16."""
    among_chosen: int = 0
    """Two of the K chosen are equal, so that the order of choice, and of addition, hangs on the tie order."""
    other_experts: int = 0
    """The lower index would have chosen another set."""
    other_order: int = 0
    """The same set in another order."""
    tokens: int = 0
    tokens_alone: int = 0
    """Tokens that are others if only the step before them takes the lower index."""
    tokens_after: int = 0
    """Tokens that are others where the lower index is taken throughout, decoding on from its own tokens."""
    first_after: int | None = None
    """The first of them."""
    examples: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Ready for json.dumps."""
        return dict(vars(self))


def near_ties(trace: Trace, length: int) -> tuple[NearTies, NDArray[np.bool_]]:
    """The counts that need no other run, and where the lower index would differ at all, bool [L, P].

    Raises:
        ValueError: the trace has no logits, or its choices are not those of the contract's order.

    """
    if trace.logits is None:
        raise ValueError("trace: it has no logits")
    logits, inds = trace.logits[:, :length], trace.inds[:, :length]
    experts, top_k = logits.shape[-1], inds.shape[-1]
    wrong = (chosen(logits, top_k, reversed_bits(experts)) != inds).any(axis=2)
    if wrong.any():
        layer, position = (int(n) for n in np.argwhere(wrong)[0])
        raise ValueError(f"trace: layer {layer}, position {position}: not the contract's order of choice")
    lower = chosen(logits, top_k, np.arange(experts))
    other = (lower != inds).any(axis=2)
    other_set = (np.sort(lower, axis=2) != np.sort(inds, axis=2)).any(axis=2)
    nearest = -np.sort(-ordinals(logits), axis=2)[..., : top_k + 1]
    gaps = nearest[..., :-1] - nearest[..., 1:]
    return NearTies(
        rows=other.size,
        exact=int((gaps[..., -1] == 0).sum()),
        one_ulp=int((gaps[..., -1] == 1).sum()),
        among_chosen=int((gaps[..., :-1] == 0).any(axis=2).sum()),
        other_experts=int(other_set.sum()),
        other_order=int((other & ~other_set).sum()),
    ), other


def counterfactual(
    model: Model, routing: DeviceRouting, prompt: bytes, tokens: bytes, *, memo: Memo, examples: int = 2
) -> NearTies:
    """What the lower index would have made of a greedy run.

    Args:
        model: weights.
        routing: with telemetry, bias off, no bolt, and the trace of the run.
        prompt: what it read.
        tokens: what it wrote.
        memo: of that run, or an empty one.
        examples: changed tokens to describe.

    """
    capacity = len(prompt) + len(tokens)
    length = capacity - 1
    found, other = near_ties(routing.trace, length)
    found.tokens = len(tokens)
    text = prompt + tokens
    lower = MemoEngine(model, LowerIndexRouting(routing), capacity, memo)
    free = greedy(lower, prompt, len(tokens)).tokens
    differ = [i for i, (a, b) in enumerate(zip(tokens, free, strict=True)) if a != b]
    found.tokens_after, found.first_after = len(differ), differ[0] if differ else None

    lower = MemoEngine(model, routing, capacity, memo)
    for position in range(length):
        lower.step(text[position : position + 1], last_only=True)
        if position + 1 < len(prompt) or not other[:, position].any():
            continue
        lower.rollback(position)
        lower.routing = LowerIndexRouting(routing)
        instead = int(lower.step(text[position : position + 1])[0].argmax())
        lower.rollback(position)
        lower.routing = routing
        lower.step(text[position : position + 1], last_only=True)
        if instead != text[position + 1]:
            found.tokens_alone += 1
            if len(found.examples) < examples:
                found.examples.append(_example(routing.trace, other, position, text, instead))
    return found


def _example(
    trace: Trace, other: NDArray[np.bool_], position: int, text: bytes, instead: int
) -> dict[str, Any]:
    layer = int(other[:, position].argmax())
    assert trace.logits is not None
    logits, inds = trace.logits[layer, position], trace.inds[layer, position]
    lower = chosen(logits, inds.size, np.arange(logits.size))
    at = int((lower != inds).argmax())
    return {
        "position": position,
        "text_before": text[max(0, position - 23) : position + 1].decode("latin-1"),
        "token": chr(text[position + 1]),
        "token_by_lower_index": chr(instead),
        "layer": layer,
        "place": at,
        "logit": float(logits[inds[at]]),
        "expert": int(inds[at]),
        "expert_by_lower_index": int(lower[at]),
    }
