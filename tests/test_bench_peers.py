"""bench/cpu_peers.py: what it writes, what it skips, and that a wrong peer is noticed. No time is asserted.

A new peer is checked by `test_each_peer_that_is_here`, once its family is in peers.FAMILIES.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cpu_peers
import numpy as np
import pytest
from peers import FAMILIES, TOP_K, Peer, find, report
from peers.measure import (
    EXPERTS,
    FLOOR,
    HIDDEN,
    SLOW_REPEATS,
    SLOW_SETS,
    Cell,
    Job,
    Outcome,
    Reference,
    check,
    measure,
)
from peers.ours import PEERS as OURS
from peers.with_numpy import Numpy

from qwisp_native import _core
from qwisp_native.quantize import QuantizedGate, quantize

SCRIPT = Path(cpu_peers.__file__)
JOB = Job(threads=1, rows=(2,), families=(), sets=3, repeats=4, seconds=60, seed=0)


@pytest.fixture(scope="module")
def sets() -> list[QuantizedGate]:
    rng = np.random.default_rng(1)
    return [quantize((0.02 * rng.standard_normal((EXPERTS, HIDDEN))).astype(np.float16)) for _ in range(2)]


@pytest.fixture(scope="module")
def x() -> Any:
    return np.random.default_rng(2).standard_normal((2, HIDDEN)).astype(np.float16)


class WrongExpert(Numpy):
    name = "wrong expert"

    def run(self, x: Any, index: int) -> Any:
        inds, scores = super().run(x, index)
        inds[-1, 0] = next(each for each in range(TOP_K + 1) if each not in inds[-1])
        return inds, scores


class WrongScore(Numpy):
    name = "wrong score"

    def run(self, x: Any, index: int) -> Any:
        inds, scores = super().run(x, index)
        return inds, scores[:, ::-1]


class NotANumber(Numpy):
    name = "NaN"

    def run(self, x: Any, index: int) -> Any:
        inds, scores = super().run(x, index)
        return inds, scores * np.nan


class Broken(Numpy):
    name = "broken"

    def run(self, x: Any, index: int) -> Any:
        raise OSError("no such accelerator\nsecond line")


class Unprepared(Numpy):
    name = "unprepared"

    def prepare(self, sets: Any, threads: int) -> None:
        raise MemoryError


class Slow(Numpy):
    name = "slow"

    def run(self, x: Any, index: int) -> Any:
        time.sleep(0.06)
        return super().run(x, index)


def test_quick(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "torch.py").write_text("raise ImportError('planted')\n")
    out = tmp_path / "out"
    paths = os.pathsep.join([str(absent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, SCRIPT, "--quick", "--peers", "ours", "numpy", "torch", "--out", out]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((out / "cpu_peers.json").read_text())
    names = [FLOOR, *(each.name for each in OURS), "numpy f32"]
    assert [(each["peer"], each["rows"]) for each in found["cells"]] == [
        (n, m) for m in (1, 2) for n in names
    ]
    for cell in found["cells"]:
        assert cell["threads"] == 1
        assert len(cell["samples"]) == 3 or cell["slow"]
        assert all(each > 0 for each in cell["samples"])
        assert cell["rows_checked"] > 0 or cell["peer"] == FLOOR
    assert found["skipped"] == {"torch": "cannot be imported: planted"}
    assert found["wrong"] == {}
    assert found["shape"] == {"hidden": HIDDEN, "experts": EXPERTS, "top_k": TOP_K}
    assert found["machine"]["versions"]["numpy"] == np.__version__
    assert found["options"]["quick"]
    text = (out / "cpu_peers.md").read_text()
    assert "| | M = 1 | M = 2 |" in text
    assert all(f"| {name} | " in text for name in names)
    assert "- skipped: torch: cannot be imported: planted" in text
    assert text in done.stdout
    assert (out / "cpu_peers.png").exists() == (find_spec("matplotlib") is not None)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_peer_that_is_here(family: str, sets: list[QuantizedGate], x: Any) -> None:
    peers, skipped = find([family])
    if skipped:
        pytest.skip(skipped[family])
    answers = Reference(sets).answers(x, len(sets))
    for peer in peers:
        if "compiled" in peer.name:  # the same code, after half a minute
            continue
        peer.prepare(sets, 1)
        native = peer.input(x)
        check(peer, native, answers)
        peer.round(native, len(sets))


def test_a_wrong_peer_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peers: list[Peer] = [Numpy(), WrongExpert(), WrongScore(), NotANumber(), Broken(), Unprepared()]
    outcome = measure(JOB, peers)
    assert [cell.peer for cell in outcome.cells] == [FLOOR, "numpy f32"]
    assert set(outcome.wrong) == {"wrong expert, 2 rows", "wrong score, 2 rows", "NaN, 2 rows"}
    assert "row 1: experts [" in outcome.wrong["wrong expert, 2 rows"]
    assert "scores nan apart" in outcome.wrong["NaN, 2 rows"]
    assert outcome.skipped == {
        "broken, 2 rows": "OSError: no such accelerator",
        "unprepared": "MemoryError: without a message",
    }
    monkeypatch.setattr(cpu_peers, "run", lambda _: outcome)
    assert cpu_peers.main(["--threads", "1", "--rows", "2", "--out", str(tmp_path)]) == 1
    text = (tmp_path / "cpu_peers.md").read_text()
    assert "- WRONG, not measured: wrong expert, 2 rows: set 0" in text
    assert "| wrong expert" not in text


def test_rows_too_near_to_call_are_not_compared(sets: list[QuantizedGate], x: Any) -> None:
    peer = WrongExpert()
    peer.prepare(sets, 1)
    native = peer.input(x)
    answers = Reference(sets).answers(x, len(sets))
    tied = [(inds, scores, np.zeros_like(gaps)) for inds, scores, gaps in answers]
    assert check(peer, native, tied) == 0
    with pytest.raises(ValueError, match=r"set 0, row 1: experts .*, ours"):
        check(peer, native, [(inds, scores, gaps + 1) for inds, scores, gaps in answers])


def test_a_slow_peer_gets_less(tmp_path: Path) -> None:
    outcome = measure(JOB, [Slow()])
    (cell,) = (cell for cell in outcome.cells if cell.peer == "slow")
    assert (cell.slow, cell.sets, len(cell.samples)) == (True, SLOW_SETS, SLOW_REPEATS)
    (line,) = (each for each in report.table(outcome, [2], [1]).splitlines() if "| slow |" in each)
    assert line.endswith(("x\\* |", "x\\*\\? |"))


def test_table_ratio_and_gaps() -> None:
    outcome = Outcome()
    outcome.cells = [
        Cell(FLOOR, 1, 1, 40, samples=[5.0]),
        Cell("peer", 1, 1, 40, rows_checked=1, samples=[float(each) for each in range(5, 16)]),
        Cell(FLOOR, 1, 8, 40, samples=[5.0]),
    ]
    text = report.table(outcome, [1, 8], [1])
    assert "| peer | 10.0 (6.0 to 14.0) 2.0x | - |" in text


def test_floor_reads() -> None:
    floor = _core.ReadFloor(3, 4096)
    floor.run()
    floor.run()
    for sets, size, told in [(0, 64, "sets: 0"), (1, 63, "bytes: 63"), (1, -64, "bytes: -64")]:
        with pytest.raises(ValueError, match=told):
            _core.ReadFloor(sets, size)
    with pytest.raises(MemoryError):
        _core.ReadFloor(2**40, 2**40)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc")
def test_a_killed_bench_leaves_nobody_measuring(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--peers", "ours", "--threads", "1", "--out", str(tmp_path)]
    bench = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    listed = Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
    try:
        until(lambda: len(listed.read_text().split()) == 2)  # one measures, one is multiprocessing's own
        time.sleep(0.5)
        children = listed.read_text().split()
    finally:
        bench.kill()
        bench.wait()
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("arguments", [["--threads", "0"], ["--sets", "0"], ["--peers", "tensorflow"]])
def test_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cpu_peers.parse(arguments)
    assert arguments[0] in capsys.readouterr().err
