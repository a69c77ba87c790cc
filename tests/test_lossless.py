"""The small language model's engine, and the gate over it: green as it is, red with a fault in the router.

Faults in the shaders themselves: tests/test_lossless_planted.py.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless_model
import qwisp_native as qn
from qwisp_native import cli
from qwisp_native.lossless import Gate, Model, load_model
from qwisp_native.lossless.across import across
from qwisp_native.lossless.decode import greedy
from qwisp_native.lossless.drafts import draft
from qwisp_native.lossless.engine import Engine
from qwisp_native.lossless.gate import device_routing, widths
from qwisp_native.lossless.memo import Memo, MemoEngine
from qwisp_native.lossless.model import Config
from qwisp_native.lossless.plan import OFF, Case, cases
from qwisp_native.lossless.regimes import REGIMES
from qwisp_native.lossless.residency import SETTINGS, Residency, Setting
from qwisp_native.lossless.routing import MAX_ROWS, DeviceRouting, Routed
from qwisp_native.lossless.ties import near_ties, scores_of
from qwisp_native.lossless.trace import Difference, Trace
from qwisp_native.settings import VARIANTS
from qwisp_native.tie_order import chosen, reversed_bits

PLAIN = Case("code", Setting(), OFF, speculative=False, telemetry=True)
TEXT = b"for row in rows: total += row.size\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lossless_model.write(tmp_path_factory.mktemp("model"), twins=True)


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load_model(folder)


@pytest.fixture(scope="module")
def gates(model: Model, device: qn.Device) -> list[qn.Gate]:
    return [qn.Gate.from_weights(device, weights) for weights in model.gates.values()]


def routing(model: Model, gates: Sequence[qn.Gate], case: Case = PLAIN, capacity: int = 128) -> DeviceRouting:
    residency = Residency(model.config.experts, case.setting.bolt, 64)
    return device_routing(gates, model.config, case, residency, capacity)


# ---- the engine


@pytest.mark.parametrize("rows", [2, 7, 24, 25])
def test_many_rows_are_single_rows(model: Model, gates: list[qn.Gate], rows: int) -> None:
    one, many = (Engine(model, routing(model, gates), 128) for _ in range(2))
    text = (TEXT * 3)[: 3 + rows]
    for engine in (one, many):
        engine.step(text[:3])
    single = np.concatenate([one.step(text[i : i + 1]) for i in range(3, len(text))])
    assert single.tobytes() == many.step(text[3:]).tobytes()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one._keys, many._keys, strict=True))


@pytest.mark.parametrize("shape", [(768, 512), (512, 512), (64, 512), (256, 512)])
def test_a_product_does_not_hang_on_where_its_row_lies(shape: tuple[int, int]) -> None:
    """The engine copies rows to one place; this says that nothing hangs on that."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal(shape, np.float32)
    row = rng.standard_normal(shape[1], np.float32)
    want = np.dot(matrix, row).tobytes()
    space = np.zeros(shape[1] + 64, np.float32)
    for start in range(64):
        here = space[start : start + shape[1]]
        here[:] = row
        assert np.dot(matrix, here).tobytes() == want, start


def test_rollback_forgets(model: Model, gates: list[qn.Gate]) -> None:
    engine = Engine(model, routing(model, gates), 128)
    engine.step(TEXT[:9])
    want = engine.step(TEXT[9:20])
    engine.rollback(9)
    engine.step(b"\0wholly other\xff")
    engine.rollback(9)
    assert engine.step(TEXT[9:20]).tobytes() == want.tobytes()
    with pytest.raises(ValueError, match=r"length: 21, but it must be 0 to 20"):
        engine.rollback(21)


def test_a_memory_changes_nothing(model: Model, gates: list[qn.Gate]) -> None:
    memo = Memo()
    plain = greedy(Engine(model, routing(model, gates), 128), TEXT, 24)
    for found in (False, True):
        traced = routing(model, gates)
        assert greedy(MemoEngine(model, traced, 128, memo), TEXT, 24).tokens == plain.tokens
        assert (memo.found > 0) == found
    rows = memo.computed
    other = routing(model, gates, Case("code", Setting(eps=0.25), OFF, speculative=False, telemetry=True))
    greedy(MemoEngine(model, other, 128, memo), TEXT, 24)
    assert memo.computed > rows + 24  # other scores, other hashes


def test_a_full_cache_is_refused(model: Model, gates: list[qn.Gate]) -> None:
    with pytest.raises(ValueError, match=r"tokens: 5 behind 0, but the cache holds 4"):
        Engine(model, routing(model, gates), 4).step(TEXT[:5])


def test_a_step_sees_one_table(model: Model, gates: list[qn.Gate]) -> None:
    case = Case("code", Setting(bolt=True), OFF, speculative=True, telemetry=False)
    engine = Engine(model, routing(model, gates, case), 128)
    engine.step(TEXT[:20])
    engine.step(TEXT[:20])
    engine.step(TEXT[:20])
    with pytest.raises(ValueError, match="5 from position 60 on do not see one table"):
        engine.step(TEXT[:5])


# ---- its parts


def test_drafts() -> None:
    assert draft(b"abcd abc", 4) == b"d ab"
    assert draft(b"abab", 6) == b"ababab"  # on into the copy
    assert draft(b"xyz", 2) == b"xy"  # never ended like this


@given(st.binary(min_size=1, max_size=60), st.integers(0, 24))
def test_drafts_are_as_long_as_asked(text: bytes, count: int) -> None:
    assert len(draft(text, count)) == count


def test_widths_are_all_met() -> None:
    width = widths(0)
    assert {width() for _ in range(2000)} == set(range(2, MAX_ROWS + 1))


def test_tables_are_permutations_that_change() -> None:
    tables = Residency(256, bolt=True, period=64)
    assert (tables.version(63), tables.version(64), tables.rows_left(60, 25)) == (0, 1, 4)
    for version in (0, 1):
        assert (tables.contents(version)[tables.table(version)] == np.arange(256)).all()
        assert tables.resident(version).sum() == 128
    assert (tables.table(0) != tables.table(1)).any()


def test_numpy_chooses_and_scores_as_the_device(model: Model, gates: list[qn.Gate]) -> None:
    """What stands beside it in the tie statistics differs in the tie order alone."""
    if gates[0].device.kind == "metal":
        pytest.skip("exp is Apple's own")
    traced = routing(model, gates)
    greedy(Engine(model, traced, 128), TEXT, 24)
    length = len(TEXT) + 23
    assert traced.trace.logits is not None
    ties, _ = near_ties(traced.trace, length)
    assert ties.other_experts
    assert ties.other_order
    for layer in range(model.config.layers):
        logits = traced.trace.logits[layer, :length]
        inds = chosen(logits, 8, reversed_bits(256))
        assert (inds == traced.trace.inds[layer, :length]).all()
        scores = np.stack([scores_of(*row) for row in zip(logits, inds, strict=True)])
        assert scores.tobytes() == traced.trace.scores[layer, :length].tobytes()


def test_every_variant_meets_every_kind_of_run() -> None:
    reduced = [case for group in cases(list(REGIMES), full=False) for case in group]
    full = [case for group in cases(list(REGIMES), full=True) for case in group]
    assert len(set(full)) == len(full) == len(REGIMES) * len(SETTINGS) * (1 + len(VARIANTS)) * 2 * 2
    assert set(reduced) <= set(full)
    for fuse in VARIANTS:
        met = [c for c in reduced if c.fuse == fuse and c.speculative]
        assert {c.setting for c in met} == set(SETTINGS), fuse
        assert {c.telemetry for c in met} == {False, True}, fuse
        assert any(c.fuse == fuse and not c.speculative for c in reduced)


# ---- the model's files


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"hidden_size": 0}, "hidden_size is 0, expected a positive int"),
        ({"rope_theta": "much"}, "rope_theta is 'much', expected a positive float"),
        ({"num_attention_heads": 7}, "7 heads over 2 of keys"),
        ({"vocab_size": 257}, "vocab_size is 257, the tokens are the 256 bytes"),
        ({"norm_topk_prob": False}, "norm_topk_prob is False, the engine covers True"),
        ({"quantization": {"bits": 4, "group_size": 64}}, "the engine covers"),
    ],
)
def test_configs_that_are_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Config.read(lossless_model.CONFIG | change, "config.json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"moe_intermediate_size": 8}, r"gate_proj is \[256, 4, 512\], config.json says \[256, 8, 512\]"),
        ({"num_hidden_layers": 3}, r"gates in layers \[0, 1\], config.json says 3 layers"),
    ],
)
def test_files_that_contradict_the_config(
    folder: Path, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(lossless_model.CONFIG | change))
    with pytest.raises(ValueError, match=told):
        load_model(tmp_path)


# ---- the gate


def small_gate(device: qn.Device, model: Model, **options: Any) -> Gate:
    return Gate(device, model, prompts={"code": TEXT}, **({"tokens": 24, "period": 16} | options))


def test_green_in_full(device: qn.Device, model: Model) -> None:
    ended: list[str] = []
    gate = small_gate(device, model, full=True)
    report = gate.run(ended.append)
    assert not report.failures
    assert len(ended) == len(report.runs) == gate.total == len(SETTINGS) * 24
    assert {run.equal for run in report.runs} == {24}
    assert len(set(report.references.values())) == len(SETTINGS) - 1  # without a bias, slots change nothing
    assert len({report.texts[f"code, {setting.name}"] for setting in SETTINGS}) > 1  # the bias matters
    assert report.near_ties["code"].exact
    json.dumps(report.as_json())


class LowerIndex(DeviceRouting):
    """Ties by the lower index, in one variant, with telemetry."""

    def _read(self, scratch: qn.RouteScratch, logits: bool) -> Routed:
        routed = super()._read(scratch, logits)
        if self.fuse != "last" or routed.logits is None:
            return routed
        choice = chosen(routed.logits, 8, np.arange(256))
        return routed._replace(
            choice=choice,
            scores=np.stack([scores_of(*row) for row in zip(routed.logits, choice, strict=True)]),
        )


class Stale(DeviceRouting):
    """Now and then a route leaves what the route before it left."""

    reads = 0
    before: Routed | None = None

    def _read(self, scratch: qn.RouteScratch, logits: bool) -> Routed:
        routed, before = super()._read(scratch, logits), self.before
        self.reads += 1
        self.before = routed
        if self.fuse == "split_last" and self.reads % 40 == 0 and before is not None:
            return before if len(before.choice) == len(routed.choice) else routed
        return routed


class Leaking(DeviceRouting):
    """A bias that nobody asked for where a step has more than one row."""

    def begin(self, position: int, rows: int) -> None:
        super().begin(position, rows)
        if self.fuse == "single" and not self.setting.eps:
            self._options.pop("bias", None)
            if rows > 1:
                self._options["bias"] = qn.RouteBias(self._resident, 0.25)


class WrongTable(DeviceRouting):
    """Slots of the table before."""

    def begin(self, position: int, rows: int) -> None:
        super().begin(position, rows)
        if self.setting.bolt and self.fuse == "pair" and position >= self.residency.period:
            self._table.array[:] = self.residency.table(self.residency.version(position) - 1)


class TelemetryMatters(DeviceRouting):
    """Routes that are watched score otherwise."""

    def _read(self, scratch: qn.RouteScratch, logits: bool) -> Routed:
        routed = super()._read(scratch, logits)
        if self.telemetry and self.fuse == "split_pair":
            routed.scores[-1, 0] = np.nextafter(routed.scores[-1, 0], np.float16(0))
        return routed


class OnlyRejected(DeviceRouting):
    """Wide steps score their last row otherwise, which is hardly ever accepted."""

    def _read(self, scratch: qn.RouteScratch, logits: bool) -> Routed:
        routed = super()._read(scratch, logits)
        if self.rows > 12 and self.fuse == "single" and self.position > len(TEXT):
            routed.scores[-1, 0] = np.nextafter(routed.scores[-1, 0], np.float16(0))
        return routed


@pytest.mark.parametrize(
    ("fault", "route", "decodings", "what"),
    [
        (LowerIndex, "last", {"greedy", "speculative"}, "experts of diag"),
        (Stale, "split_last", {"greedy", "speculative"}, "experts"),
        (Leaking, "single", {"speculative"}, "experts"),
        (WrongTable, "pair", {"greedy", "speculative"}, "experts"),
        (OnlyRejected, "single", {"speculative"}, "hash of experts and scores"),
        (TelemetryMatters, "split_pair", {"greedy", "speculative"}, "scores"),
    ],
)
def test_a_fault_in_one_variant_is_red(
    device: qn.Device,
    model: Model,
    fault: Callable[..., DeviceRouting],
    route: str,
    decodings: set[str],
    what: str,
) -> None:
    """And the first difference names it, with the place."""

    def make(gates: Any, config: Config, case: Case, residency: Residency, capacity: int) -> DeviceRouting:
        return fault(
            gates, config, case.setting, residency, case.fuse, telemetry=case.telemetry, capacity=capacity
        )

    gate = small_gate(device, model, full=True, make_routing=make)
    gate.groups = [group for group in gate.groups if group[0].setting == Setting(bolt=fault is WrongTable)]
    report = gate.run()
    assert {failure.case.route for failure in report.failures} == {route}
    assert {failure.case.decoding for failure in report.failures} == decodings
    first = report.failures[0].difference
    assert first is not None
    assert first.what == what
    assert first.layer is not None
    assert first.expected != first.got
    told = json.dumps(report.as_json()["failures"][0])
    assert all(word in told for word in ("regime", "position", "layer", "row", "expected", "got"))


def test_an_unstable_engine_is_red(device: qn.Device, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Routing alike and tokens not: then the engine is to blame, and the gate says so."""
    rng = random.Random(0)
    head = Engine._head

    def noisy(self: Engine, hidden: Any, position: int) -> Any:
        logits = head(self, hidden, position)
        logits[rng.randrange(256)] += 1e9
        return logits

    monkeypatch.setattr(Engine, "_head", noisy)
    gate = small_gate(device, model, full=True)
    gate.groups = gate.groups[:1]
    assert gate.run().failures


def test_the_model_of_the_package(device: qn.Device) -> None:
    """It knows its text, and is routed alike by every route."""
    model = load_model()
    gate = Gate(device, model, tokens=32, prompts={"tied": REGIMES["tied"]})
    report = gate.run()
    assert not report.failures
    assert report.near_ties["tied"].rows == (len(REGIMES["tied"]) + 31) * model.config.layers
    text = report.texts["tied, resident, bias 0 (off)"]
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert len(set(text)) > 5


def test_another_tie_order_is_another_text(device: qn.Device, model: Model) -> None:
    """The reason for a contract of ties: here experts tie everywhere, whatever numpy's products are."""
    gate = small_gate(device, model, tokens=96)
    gate.groups = gate.groups[:1]
    ties = gate.run().near_ties["code"]
    assert ties.exact > ties.rows // 50
    assert ties.tokens_after


# ---- the command


def command(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main(["lossless", *words])
    return code, *capsys.readouterr()


def test_command(
    device: qn.Device, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REGIMES, "code", TEXT)
    words = ("--regime", "code", "--model", str(folder), "--device", device.kind, "--tokens", "8")
    code, told, errors = command(*words, "--json", capsys=capsys)
    assert (code, errors) == (0, "")
    found = json.loads(told)
    assert found["between_devices"] == []
    assert found["devices"][0]["passed"] == len(found["devices"][0]["runs"]) == 2 * 7
    code, told, errors = command(*words, capsys=capsys)
    assert (code, errors) == (0, "")
    assert told.count("8 of 8") == 2
    assert f"{2 * 7} passed, 0 failed" in told

    monkeypatch.setattr(Trace, "difference", lambda *_: Difference("scores", 9, 1, 2, 3, "[0.5]", "[0.25]"))
    code, told, errors = command(*words, capsys=capsys)
    assert (code, errors) == (1, "")
    assert "scores at position 9, layer 1, row 2 of 3: expected [0.5], got [0.25]" in told
    assert f"{2} passed, {2 * 6} failed" in told


def test_command_errors(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words, told in (
        (("--tokens", "1"), "--tokens: 1, but it must be at least 2"),
        (("--regime", "verse"), "--regime: 'verse', but it must be one of code, prose, tools, repetitive"),
        (("--seed", "-1"), "--seed: -1, but it must be at least 0"),
    ):
        with pytest.raises(SystemExit) as caught:
            cli.main(["lossless", "--model", str(folder), *words])
        assert caught.value.code == 2
        assert told in capsys.readouterr().err
    code, _, errors = command("--model", str(tmp_path / "none"), capsys=capsys)
    assert code == 1
    assert "no such file or folder" in errors


def test_devices_are_held_against_each_other(device: qn.Device, model: Model) -> None:
    gate = small_gate(device, model, tokens=4)
    gate.groups = gate.groups[:1]
    report = gate.run()
    assert across([report, report]) == []
    other = replace(report, device="cuda (another)", references={"code, resident, bias 0 (off)": "0"})
    assert across([report, other]) == [
        f"code, resident, bias 0 (off): routing of cuda (another) not as on {report.device}"
    ]
