"""bench/cuda_peers.py without a GPU: what it checks, skips and writes. No time is asserted.

Our arms run on the cpu device here; the others are stand-ins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cuda_peers
import gpu_peers
import numpy as np
import pytest
from atomic import write_json
from gpu_peers import GpuPeer, ours, report
from gpu_peers.measure import Cell, Job, Outcome, measure, random_sets
from gpu_peers.ours import Commands
from peers import TOP_K
from peers.with_numpy import Numpy

import qwisp_native as qn
from qwisp_native import _core
from qwisp_native.settings import VARIANTS

JOB = Job(rows=(1, 2), temperatures={"warm": 2, "cold": 3}, layers=4, seconds=60, repeats=3)


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[qn.Device]:
    device = qn.Device("cpu")
    monkeypatch.setattr(ours, "device", lambda: device)
    monkeypatch.setattr(ours.Shared, "sets", ())
    kernels = device.kernels
    yield device
    device.kernels = kernels


class Stand(Numpy, GpuPeer):
    """A peer whose `input` stores the answers, as a captured graph does."""

    name = "stand-in"
    kind = "torch"

    def input(self, x: Any) -> Any:
        rows = super().input(x)
        self.answers = [super(Stand, self).run(rows, index) for index in range(self.sets)]
        return rows

    def run(self, x: Any, index: int) -> Any:
        return self.answers[index]

    def sample(self) -> float:
        return 1.0


class Wrong(Stand):
    name = "wrong"

    def run(self, x: Any, index: int) -> Any:
        inds, scores = (each.copy() for each in super().run(x, index))
        inds[-1, 0] = next(each for each in range(TOP_K + 1) if each not in inds[-1])
        return inds, scores


class Broken(Stand):
    name = "broken"

    def input(self, x: Any) -> Any:
        if len(x) == 2:
            raise RuntimeError("no kernel for 2 rows\nand more")
        return super().input(x)


class Unprepared(Stand):
    name = "unprepared"

    def prepare(self, sets: Any, threads: int) -> None:
        raise MemoryError


class NothingThere(GpuPeer):
    name = "floor: an empty kernel"
    kind = "floor"

    def prepare(self, sets: Any, threads: int) -> None: ...

    def input(self, x: Any) -> None: ...

    def sample(self) -> float:
        return 1e-6


def arms(device: qn.Device) -> list[GpuPeer]:
    return [Commands(variant, device.kernel_names[0]) for variant in VARIANTS]


def test_what_is_measured_and_what_is_not(on_the_cpu: qn.Device) -> None:
    peers = [*arms(on_the_cpu), Stand(), Wrong(), Broken(), Unprepared(), NothingThere()]
    outcome = measure(JOB, (), peers)
    assert outcome.skipped == {
        "unprepared": "MemoryError: without a message",
        "broken, 2 rows, warm": "RuntimeError: no kernel for 2 rows",
        "broken, 2 rows, cold": "RuntimeError: no kernel for 2 rows",
    }
    assert set(outcome.wrong) == {f"wrong, {m} rows, {t}" for m in (1, 2) for t in ("warm", "cold")}
    assert all(text.startswith("set ") for text in outcome.wrong.values())
    names = [arm.name for arm in arms(on_the_cpu)] + ["stand-in", "floor: an empty kernel"]
    for (rows, temperature), cells in report.shapes(outcome).items():
        assert [cell.peer for cell in cells if cell.peer != "broken"] == names
        for cell in cells:
            assert len(cell.samples) == len(cell.positions) == 3
            assert min(cell.samples) > 0
            if cell.kind != "floor":
                assert cell.agreement["rows"] == rows * JOB.temperatures[temperature]
                assert cell.agreement["clear"] == cell.agreement["clear_same"]
            if cell.kind == "ours":
                assert cell.agreement["same"] == cell.agreement["clear"] == cell.agreement["rows"]
        assert sorted(each.positions[0] for each in cells) == list(range(len(cells)))


def test_the_budget_ends_it_but_not_before_enough_rounds(on_the_cpu: qn.Device) -> None:
    job = Job(rows=(1, 2), temperatures={"warm": 1}, layers=1, seconds=0)
    told: list[int] = []
    outcome = measure(job, (), [*arms(on_the_cpu), Stand()], lambda part: told.append(len(part.cells)))
    assert {len(cell.samples) for cell in outcome.cells} == {20}
    assert {cell.rows for cell in outcome.cells} == {1}
    assert outcome.skipped == {"2 rows, warm": "no time left"}
    assert told == [len(outcome.cells)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_answers_of_the_command_buffer_that_is_timed_are_checked(
    variant: str, on_the_cpu: qn.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong gate in its last layer is seen though each set alone is right."""
    (peer,) = [arm for arm in arms(on_the_cpu) if f", {variant}," in arm.name]
    right = Commands.input

    def swapped(self: Commands, x: Any) -> Any:
        rows = right(self, x)
        self._all[-1] = self._gates[0]
        return rows

    monkeypatch.setattr(Commands, "input", swapped)
    outcome = measure(JOB, (), [peer])
    assert outcome.wrong
    assert not [cell for cell in outcome.cells if cell.temperature == "warm"]


def test_a_way_to_launch_that_is_not_here_is_skipped_by_name() -> None:
    outcome = measure(JOB, (), [Commands("last", "teleport")])
    assert list(outcome.skipped) == ["ours, last, teleport"]
    assert "this device has only" in outcome.skipped["ours, last, teleport"]


def test_what_is_not_installed_is_skipped_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gpu_peers.FAMILIES, "none", ("with_none", "no_such_library"))
    monkeypatch.setitem(gpu_peers.FAMILIES, "bad", ("with_none", "json"))
    found, skipped = gpu_peers.find(["ours", "none", "bad"])
    assert {peer.kind for peer in found} == {"ours"}
    assert len(found) == len(VARIANTS) * len(ours.LAUNCHES)
    assert skipped["none"] == "no_such_library is not installed"
    assert skipped["bad"].startswith("cannot be used: ModuleNotFoundError")


def test_sets_are_gates(on_the_cpu: qn.Device) -> None:
    (one,) = random_sets(np.random.default_rng(0), 1)
    gate = qn.Gate(on_the_cpu, *one)
    assert (gate.hidden, gate.experts) == (2048, 256)


def cell(name: str, kind: str, time: float, count: int = 60) -> Cell:
    rng = np.random.default_rng(list(name.encode()))
    samples = (time * np.exp(0.02 * rng.standard_normal(count))).tolist()
    return Cell(name, kind, "warm", 1, {"rows": 40, "same": 39}, samples, rng.permutation(count).tolist())


def made_up() -> Outcome:
    cells = [
        cell("ours, pair, graph", "ours", 10.0),
        cell("ours, last, graph", "ours", 2.0),
        cell("ours, last, dependent", "ours", 1.5),
        cell("PyTorch eager, top-k first", "torch", 15.0),
        cell("PyTorch compiled, top-k first", "torch", 9.0),
        cell("floor: an empty kernel", "floor", 0.5),
        cell("floor: reading the weights", "floor", 1.0),
    ]
    return Outcome(cells, {"vllm": "vllm is not installed"}, {"odd": "set 0, row 0: experts"})


def test_comparisons_and_the_table() -> None:
    outcome = made_up()
    found = report.comparisons(outcome)
    by = {(each["first"], each["second"]): each for each in found}
    assert len(by) == len(found) == 7
    assert by["ours, pair, graph", "ours, last, graph"]["speed_up"] == pytest.approx(5, rel=0.02)
    rival = by["PyTorch compiled, top-k first", "ours, last, dependent"]
    assert rival["low"] < rival["speed_up"] < rival["high"]
    assert rival["speed_up"] == pytest.approx(6, rel=0.02)
    assert not any(each["void"] for each in found)
    text = report.table(outcome, found)
    assert "**warm weights**" in text
    assert "**best** 39/40" in text
    assert re.search(r"best PyTorch 'PyTorch compiled, top-k first' [89]\.\d\d us, [56]\.\d\dx \[", text)
    assert re.search(r"best floor 'floor: reading the weights' [01]\.\d\d us, 0\.[67]\dx \[", text)
    assert re.search(r"'ours, last, graph' [12]\.\d\d us, the pair takes [45]\.\d\dx \[", text)
    assert "- WRONG, not measured: odd: set 0, row 0: experts" in text
    assert "- skipped: vllm: vllm is not installed" in text


def test_a_comparison_that_says_nothing_is_void() -> None:
    few = report.compare(cell("a", "ours", 2.0, 5), cell("bb", "ours", 1.0, 5))
    assert "5 rounds, but it takes 20" in few["void"]
    slow = cell("a", "ours", 2.0)
    slow.samples = [each * (1 if index < 40 else 1.5) for index, each in enumerate(slow.samples)]
    assert any("drifted by" in each for each in report.compare(slow, cell("bb", "ours", 1.0))["void"])
    none = report.compare(cell("a", "ours", 0.0), cell("bb", "ours", 1.0))
    assert none["void"] == ["times: one is not above 0"]


def test_nothing_that_is_right_is_a_table_too() -> None:
    assert "WRONG" in report.table(Outcome(wrong={"all": "so"}), [])


def test_json_is_whole_or_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "new" / "one.json"
    write_json(file, {"a": 1})
    with pytest.raises(TypeError):
        write_json(file, {"a": object()})

    def full(self: Path, target: Path) -> Path:
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write_json(file, {"a": 2})
    assert json.loads(file.read_text()) == {"a": 1}
    assert [path.name for path in file.parent.iterdir()] == ["one.json"]


def test_the_files(tmp_path: Path, on_the_cpu: qn.Device) -> None:
    options = cuda_peers.parse(["--rows", "1,8", "--out", str(tmp_path)])
    assert options.rows == [1, 8]
    text = cuda_peers.write(made_up(), cuda_peers.describe(on_the_cpu, options), tmp_path / "new")
    found = json.loads((tmp_path / "new" / "cuda_peers.json").read_text())
    assert found["sets"] == {"warm": 40, "cold": 400}
    assert len(found["cells"]) == 7
    assert len(found["comparisons"]) == 7
    assert set(found["dispatch_us"]) == set(on_the_cpu.kernel_names)
    assert (tmp_path / "new" / "cuda_peers.md").read_text() == text


@pytest.mark.parametrize(
    "wrong", [["--rows", "0"], ["--rows", "x"], ["--layers", "399"], ["--repeats", "2"], ["--peers", "none"]]
)
def test_a_wrong_option_is_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cuda_peers.parse(wrong)


def test_without_a_device_it_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    if not (why := _core.why_no_cuda_device()):
        pytest.skip("there is a cuda device")
    assert cuda_peers.main([]) == 2
    assert capsys.readouterr().err == f"cuda_peers: no cuda device: {why}\n"


@pytest.mark.cuda
@pytest.mark.parametrize("families", [["ours"], list(gpu_peers.FAMILIES)])
def test_on_a_gpu(families: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = qn.Device("cuda")
    monkeypatch.setattr(ours, "device", lambda: device)
    monkeypatch.setattr(cuda_peers, "TEMPERATURES", {"warm": 2, "cold": 4})
    arguments = ["--rows", "1", "--layers", "4", "--repeats", "3", "--temperatures", "warm"]
    assert cuda_peers.main([*arguments, "--peers", *families, "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "cuda_peers.json").read_text())
    ours_here = [each for each in found["cells"] if each["kind"] == "ours"]
    assert ours_here
    assert all(each["agreement"]["same"] == each["agreement"]["rows"] for each in ours_here)
