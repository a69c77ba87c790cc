"""RouteStats against the literal meaning of each figure, and fed by the devices' own telemetry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qwisp_native as qn
from qwisp_native.layer_stats import EDGES, STEPS
from qwisp_native.settings import VARIANTS, Variant
from qwisp_native.tie_order import ordinals

E, K, H = 32, 4, 512


EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = np.unique(EVERY[np.isfinite(EVERY)])  # in order; both zeros are one


def reverse(index: int) -> int:
    return int(f"{index:08b}"[::-1], 2)


def literal(rows: list[list[float]], resident: list[bool]) -> dict[str, Any]:
    """One row at a time, in Python's own floats."""
    found: dict[str, Any] = dict.fromkeys(("lower_sets", "lower_orders", "cold"), 0)
    found |= {"near": [0] * len(STEPS), "margin": [], "flip": [], "load": [0] * E}
    for row in rows:
        order = sorted(range(E), key=lambda e: (-row[e], reverse(e)))
        ours, after = order[:K], order[K]
        lower = sorted(range(E), key=lambda e: (-row[e], e))[:K]
        for e in ours:
            found["load"][e] += 1
            found["cold"] += not resident[e]
        found["lower_sets"] += set(ours) != set(lower)
        found["lower_orders"] += set(ours) == set(lower) and ours != lower
        high, low = row[ours[-1]], row[after]
        found["margin"].append(high - low)
        steps = FINITE.searchsorted(high) - FINITE.searchsorted(low)
        for i, most in enumerate(STEPS):
            found["near"][i] += steps <= most
        inside = [row[e] for e in ours if not resident[e]]
        outside = [row[e] for e in range(E) if e not in ours and resident[e]]
        found["flip"].append(min(inside) - max(outside) if inside and outside else np.inf)
    return found


def binned(values: list[float]) -> list[int]:
    bins = [0] * (len(EDGES) - 1)
    for value in values:
        bins[max(i for i in range(len(bins)) if EDGES[i] <= value)] += 1
    return bins


def routed(rows: list[list[float]]) -> np.ndarray:
    order = [sorted(range(E), key=lambda e: (-row[e], reverse(e)))[:K] for row in rows]
    return np.array(order, np.int32).reshape(-1, K)


# Few values, close together, so that ties and neighbours are common; both zeros and what lies beside them.
NEAR = np.array([1, 1 + 2**-10, 1 + 2**-9, 0.5, 0, -0.0, 6e-8, -6e-8, -1, -1 - 2**-10, -np.inf], np.float16)
VALUES = st.one_of(st.sampled_from(NEAR.tolist()[:-1]), st.floats(-8, 8, width=16))
ROWS = st.lists(st.lists(VALUES, min_size=E, max_size=E), min_size=1, max_size=4)


@given(ROWS, st.lists(st.booleans(), min_size=E, max_size=E))
def test_every_figure_has_its_literal_meaning(rows: list[list[float]], resident: list[bool]) -> None:
    stats = qn.RouteStats(1, E, K)
    stats.add(0, routed(rows), np.array(rows, np.float16), resident=np.array(resident))
    want, each = literal(rows, resident), stats.each[0]
    assert (each.rows, each.logit_rows, each.unclear, each.asked) == (len(rows), len(rows), 0, len(rows) * K)
    for name in ("cold", "lower_sets", "lower_orders"):
        assert getattr(each, name) == want[name], name
    assert each.load.tolist() == want["load"]
    assert each.near.tolist() == want["near"]
    assert each.margin.tolist() == binned(want["margin"])
    assert each.flip.tolist() == binned(want["flip"])


def test_neighbours_are_one_apart() -> None:
    assert (np.diff(ordinals(FINITE)) == 1).all()
    assert ordinals(np.array([0.0, -0.0], np.float16)).tolist() == [0, 0]


@given(ROWS, ROWS)
def test_merging_equals_seeing_everything(first: list[list[float]], second: list[list[float]]) -> None:
    parts = [qn.RouteStats(1, E, K) for _ in range(3)]
    for stats, rows in ((parts[0], first), (parts[1], second), (parts[2], first + second)):
        stats.add(0, routed(rows), np.array(rows, np.float16))
    parts[1].merge(parts[0])
    assert parts[1].to_dict() == parts[2].to_dict()
    again = qn.RouteStats.from_dict(json.loads(json.dumps(parts[2].to_dict())))
    assert again.to_dict() == parts[2].to_dict()
    assert again.summary() == parts[2].summary()


def test_the_bias_that_flips_is_where_the_biased_kernel_flips(device: qn.Device) -> None:
    """Below it the choice stays, above it another one is made: on the device, not in our own formula."""
    rng = np.random.default_rng(6)
    resident = (rng.random(E) < 0.5).astype(np.int32)
    gate = qn.Gate.quantize(device, rng.standard_normal((E, H)).astype(np.float16))
    router = qn.Router(gate, top_k=K)
    x = (0.05 * rng.standard_normal((64, H))).astype(np.float16)
    inds, _, logits = router(x, return_logits=True)
    seen = 0
    for row in range(len(x)):
        stats = qn.RouteStats(1, E, K)
        stats.add(0, inds[row : row + 1], logits[row : row + 1], resident=resident)
        at = int(stats.each[0].flip.argmax())
        low, high = EDGES[at], EDGES[at + 1]
        for eps, same in ((low / 2, True), (2 * high, False)):
            if not 0 < eps < np.inf:
                continue
            biased, _ = router(x[row : row + 1], bias=qn.RouteBias(device.buffer(resident), float(eps)))
            assert (set(biased[0]) == set(inds[row])) == same, (row, eps)
            seen += 1
    assert seen > len(x)


@pytest.mark.parametrize("variant", VARIANTS)
def test_fed_by_diag_it_equals_what_the_router_says(device: qn.Device, variant: Variant) -> None:
    layers, most, slots = 3, 4, 2
    rng = np.random.default_rng(7)
    gates = [qn.Gate.quantize(device, rng.standard_normal((E, H)).astype(np.float16)) for _ in range(layers)]
    resident = rng.random((layers, E)) < 0.3
    by_diag, by_router = qn.RouteStats(layers, E, K), qn.RouteStats(layers, E, K)
    for rows, slot in ((1, 0), (4, 1), (3, 0), (1, 1), (5, 0)):  # five are more than diag keeps
        x = rng.standard_normal((rows, H)).astype(np.float16)
        inds = device.buffer(np.full((slots * layers * most, K), -1, np.int32))
        logits = device.buffer(np.full((layers, E), np.nan, np.float16))
        commands = device.command_buffer()
        encoder = commands.compute_encoder()
        given_x, scratches = device.buffer(x), []
        for layer, gate in enumerate(gates):
            scratches.append(qn.RouteScratch(device, rows=rows, experts=E, top_k=K))
            place = {"layer": layer, "layers": layers, "slot": slot, "max_rows": most}
            diag = qn.RouteDiag(inds, logits, **place)
            qn.encode_moe_route_rows(
                encoder, given_x, gate, scratches[-1], rows=rows, fuse=variant, diag=diag
            )
        encoder.end_encoding()
        commands.commit()
        commands.wait_until_completed()
        place = {"rows": rows, "slot": slot, "max_rows": most}
        by_diag.add_diag(np.array(inds.array), np.array(logits.array), **place, resident=resident)
        for layer, gate in enumerate(gates):
            if rows <= most:
                chosen, _, raw = qn.Router(gate, top_k=K)(x, return_logits=True)
                seen = raw if rows == 1 and slot == 0 else None
                by_router.add(layer, chosen, seen, resident=resident[layer])
    assert by_diag.to_dict() == by_router.to_dict()
    assert by_diag.each[0].rows == 1 + 4 + 3 + 1
    assert by_diag.each[0].logit_rows == 1


def test_rows_without_a_boundary_are_unclear() -> None:
    nan, inf = np.nan, np.inf
    rows = np.zeros((4, E), np.float16)
    rows[0, 3] = nan
    rows[1, 5] = inf
    rows[2, K:] = -inf  # no K + 1 finite logits
    stats = qn.RouteStats(1, E, K)
    stats.add(0, np.zeros((4, K), np.int32), rows)
    assert (stats.each[0].logit_rows, stats.each[0].unclear, stats.each[0].near[0]) == (4, 3, 1)
    assert stats.summary()[0]["coverage"] == 1 / E
    every = qn.RouteStats(1, K, K)
    every.add(0, np.arange(K, dtype=np.int32)[None], np.zeros((1, K), np.float16))
    assert every.each[0].unclear == 1


def test_nothing_counted_says_so() -> None:
    figures = qn.RouteStats(2, E, K).summary()
    assert [each["rows"] for each in figures] == [0, 0]
    for name in ("largest_load", "effective_experts", "cold_rate", "median_margin", "median_flip"):
        assert figures[0][name] is None


INDS, LOGITS = np.zeros((2, K), np.int32), np.zeros((2, E), np.float16)


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ((2, INDS), ValueError, "layer: 2, but it must be an integer from 0 to 1"),
        ((True, INDS), ValueError, "layer: True"),
        ((0, INDS.astype(np.float32)), TypeError, "inds: dtype float32, but it must be int32"),
        ((0, INDS[:, :2]), ValueError, r"inds: shape \[2, 2\], but it must be \[rows, 4\]"),
        ((0, INDS - 1), ValueError, "inds: -1 to -1, but experts are 0 to 31"),
        ((0, INDS + E), ValueError, "inds: 32 to 32, but experts are 0 to 31"),
        ((0, INDS, LOGITS[:1]), ValueError, r"logits: shape \[1, 32\], but it must be \[2, 32\]"),
        ((0, INDS, LOGITS.astype(np.float32)), TypeError, "logits: dtype float32, but it must be float16"),
    ],
)
def test_refusals_count_nothing(arguments: tuple[Any, ...], error: type[Exception], told: str) -> None:
    stats = qn.RouteStats(2, E, K)
    with pytest.raises(error, match=told):
        stats.add(*arguments)
    with pytest.raises(ValueError, match="resident: shape"):
        stats.add(0, INDS, LOGITS, resident=np.zeros(3, bool))
    bad = np.zeros((2, 1, K), np.int32)
    bad[1] = E  # the second layer: the first must not be counted either
    with pytest.raises(ValueError, match="inds: 0 to 32"):
        stats.add_diag(bad, None, rows=1, max_rows=1)
    with pytest.raises(ValueError, match="inds: 8 elements, but slot 1 of 2 layers ends at 16"):
        stats.add_diag(bad, None, rows=1, max_rows=1, slot=1)
    assert stats.to_dict() == qn.RouteStats(2, E, K).to_dict()


@pytest.mark.parametrize("size", [{"layers": 0}, {"experts": 257}, {"top_k": E + 1}, {"layers": 2.0}])
def test_sizes_are_checked(size: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(size))}: .*, but it must be an integer from 1 to"):
        qn.RouteStats(**{"layers": 2, "experts": E, "top_k": K} | size)
    with pytest.raises(ValueError, match="other: layers, experts, top_k"):
        qn.RouteStats(2, E, K).merge(qn.RouteStats(1, E, K))


def test_what_is_no_dictionary_of_ours_is_refused() -> None:
    good = qn.RouteStats(1, E, K).to_dict()
    part = good["each"][0]
    for bad in (
        {},
        good | {"format": "other"},
        good | {"each": []},
        good | {"each": [part | {"rows": -1}]},
        good | {"each": [part | {"load": [0] * 3}]},
        good | {"each": [part | {"load": [0.5] * E}]},
    ):
        with pytest.raises(ValueError, match=r"told: not a dictionary of RouteStats\.to_dict"):
            qn.RouteStats.from_dict(bad)


def test_it_draws(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install qwisp_native[plot]")
    stats = qn.RouteStats(2, E, K)
    stats.plot(tmp_path / "empty.png")
    rows = np.random.default_rng(8).standard_normal((50, E)).astype(np.float16)
    stats.add(1, routed(rows.tolist()), rows, resident=np.arange(E) % 2 == 0)
    stats.plot(tmp_path / "routes.png")
    assert (tmp_path / "routes.png").stat().st_size > (tmp_path / "empty.png").stat().st_size > 1000
