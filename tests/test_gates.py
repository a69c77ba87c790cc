"""Every gate of the installed package under pytest, and how the gates report.

A gate is added in python/qwisp_native/gates; `python tests/lock.py` then records it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import qwisp_native as qn
from qwisp_native import gates
from qwisp_native.gates import GATES, Context
from qwisp_native.gates.command import run_gate
from qwisp_native.gates.compare import difference, differences

LOCKED = json.loads((Path(__file__).parent / "locked_tests.json").read_text())


@pytest.mark.parametrize("name", GATES)
def test_gate(name: str, each_device: qn.Device) -> None:
    context = Context(each_device)
    if not GATES[name].is_about(each_device):
        pytest.skip(f"{name} is about {GATES[name].kind} devices only")
    count, failures = run_gate(GATES[name], context)
    assert not failures, "\n".join(f"{f.check}: {f.detail}" for f in failures[:20])
    if context.exact:
        assert count == LOCKED["gates"][name]["checks"], "the number of checks changed: python tests/lock.py"


def test_report_of_the_command(device: qn.Device, capsys: pytest.CaptureFixture[str]) -> None:
    assert gates.main(["--device", device.kind, "--only", "refused-shapes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    total = LOCKED["gates"]["refused-shapes"]["checks"]
    assert lines[-2:] == [f"RAWTESTS total = {total}", f"{total} passed, 0 failed"]
    assert gates.main(["--device", device.kind, "--only", "refused-shapes", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["total"], report["passed"], report["failed"]) == (total, total, 0)


def test_a_red_gate_is_told_and_ends_with_1(
    device: qn.Device, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def red(context: Context) -> gates.registry.Checks:
        got, want = np.zeros((2, 3), np.float16), np.zeros((2, 3), np.float16)
        want[1, 2] = 1
        yield "green", None
        yield "red", difference("scores", got, want)

    monkeypatch.setitem(GATES, "red", gates.Gate("red", "red", red))
    monkeypatch.setitem(GATES, "red-raises", gates.Gate("red-raises", "raises", lambda _: iter([1 / 0])))
    assert gates.main(["--only", "red"]) == 1
    out = capsys.readouterr().out
    assert "FAIL red: red: scores: row 1 slot 2: 0x0000 (0.0) instead of 0x3c00 (1.0); 1 of 6 differ" in out
    assert "FAIL red-raises: after 0 checks: ZeroDivisionError" in out
    assert out.splitlines()[-1].endswith("failed")
    assert "RAWTESTS total" in out.splitlines()[-2]


def test_a_gate_that_checks_nothing_is_red(context: Context) -> None:
    count, failures = run_gate(gates.Gate("empty", "", lambda _: iter(())), context)
    assert (count, len(failures)) == (1, 1)


def test_a_gate_of_another_kind_of_device_is_skipped_by_name(
    device: qn.Device, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GATES, "of-others", gates.Gate("of-others", "", lambda _: iter(()), "toaster"))
    with pytest.raises(ValueError, match="only: of-others: about toaster devices only, not"):
        gates.run(device, only=["of-others"])
    assert gates.main(["--device", device.kind, "--only", "refused-shapes", "--only", "of-others"]) == 0
    assert "of-others      skipped: about toaster devices only\n" in capsys.readouterr().out


def test_unknown_gate_is_an_error() -> None:
    with pytest.raises(ValueError, match="no gate named nonsense"):
        gates.run(only=["nonsense"])


def test_comparison_is_of_bits() -> None:
    one = np.array([[1, -0.0, np.nan]], np.float16)
    assert difference("a", one, one.copy()) is None
    payload = one.copy()
    payload.view(np.uint16)[0, 2] ^= 1
    assert np.isnan(payload[0, 2])
    assert difference("a", payload, one) is None
    assert "slot 1: 0x0000" in str(difference("a", np.array([[1, 0, np.nan]], np.float16), one))
    assert difference("a", one.astype(np.float32), one) is not None
    assert difference("a", one[:, :2], one) is not None
    assert differences({"inds": one}, {"scores": one}) is not None


def test_seeds_change_the_inputs(device: qn.Device) -> None:
    first, second = (Context(device, seed).rng("a").integers(2**31) for seed in (0, 1))
    assert first != second
    assert first == Context(device, 0).rng("a").integers(2**31)
