"""The benchmark from end to end on a tiny shape: its report, its rules, and faults that must make it VOID.

To add a fault: cpp/timing/planted.cpp for one in what is timed, or a line in FAULTY for one in the samples.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qwisp_native as qn
from qwisp_native import bench, verdicts
from qwisp_native.bench import rules, runs
from qwisp_native.bench.report import judge
from qwisp_native.cli import main
from qwisp_native.settings import VARIANTS

TINY = bench.Options(rows=(1, 2), hidden=512, experts=8, top_k=2, layers=2, repeats=24, warm_up=0.0)
WORDS = [
    "--rows",
    "1",
    "2",
    "--hidden",
    "512",
    "--experts",
    "8",
    "--top-k",
    "2",
    "--layers",
    "2",
    "--repeats",
    "24",
]
PROBED = {"cost_us": {f"tiny {order}": {"median": 1.0} for order in ("serial", "barriers")}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The machine under the tests is busy: drift is judged on made-up samples only."""
    monkeypatch.setattr(rules, "MOST_DRIFT", 1e9)
    monkeypatch.setattr(rules, "LEAST_EFFECTIVE", 0)
    monkeypatch.setattr(verdicts, "path", lambda: tmp_path / "verdicts.json")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the native harness run with a fault."""
    right = runs.timing

    def plant(fault: str) -> None:
        monkeypatch.setattr(runs, "timing", lambda device, rows, options: right(device, rows, options, fault))

    return plant


@pytest.fixture(scope="module")
def run(device: qn.Device) -> bench.Run:
    """A run that nothing is wrong with."""
    return bench.measure(device, 2, TINY)


# ---- planted in the native harness: VOID with the reason, exit code 3

PLANTED = {
    "ignored flag": [f"the flag of arm '{arm}' had no effect" for arm in VARIANTS if arm != "pair"],
    "wrong output": ["outputs differ: round"],
    "extra dispatch": ["arm 'single' encodes 4 dispatches, but its plan has 2"],
    "no-op prefill": ["inputs do not differ between repeats"],
    "frozen clock": ["frozen clock: the device's stamps do not advance"],
}


@pytest.mark.parametrize("fault", PLANTED)
@pytest.mark.parametrize("command", ["bench", "tune"])
def test_planted_fault_is_void(
    fault: str,
    command: str,
    planted: Callable[[str], None],
    device: qn.Device,
    capsys: pytest.CaptureFixture[str],
) -> None:
    planted(fault)
    assert main([command, *WORDS, "--device", device.kind, "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    for result in report["results"]:
        assert result["decision"] == "VOID"
        assert result["winner"] is None
        assert {each["decision"] for each in result["comparisons"].values()} == {"VOID"}
        for reason in PLANTED[fault]:
            assert any(told.startswith(reason) for told in result["void"]), result["void"]
    assert not verdicts.load(verdicts.Machine(**report["environment"]["machine"]))


def test_void_is_told_in_markdown(
    planted: Callable[[str], None], device: qn.Device, capsys: pytest.CaptureFixture[str]
) -> None:
    planted("frozen clock")
    assert main(["bench", *WORDS, "--device", device.kind]) == 3
    told = capsys.readouterr().out
    assert "| 1 | VOID | nothing can be said |" in told
    assert "* rows 1, VOID: frozen clock" in told


def test_an_unknown_fault_is_refused(device: qn.Device) -> None:
    with pytest.raises(ValueError, match="planted: no fault is called 'gremlins'"):
        runs.timing(device, 1, TINY, "gremlins")


# ---- planted in the samples

Edit = Callable[[bench.Run], None]


def samples(change: Callable[[bench.Sample], bench.Sample]) -> Edit:
    def edit(run: bench.Run) -> None:
        run.samples = [change(each) for each in run.samples]

    return edit


def slower_at_the_end(sample: bench.Sample) -> bench.Sample:
    start, factor = sample.gpu_start, 1 + sample.round / 40
    return sample._replace(gpu_end=start + 1e-4 * factor, completed_ns=sample.committed_ns + 10**9)


FAULTY: dict[str, tuple[Edit, str]] = {
    "stamps that go back": (samples(lambda s: s._replace(gpu_end=s.gpu_start - 1)), "frozen clock"),
    "the same time each": (samples(lambda s: s._replace(gpu_start=1.0, gpu_end=1.00001)), "frozen clock"),
    "a host clock that stands": (samples(lambda s: s._replace(wall_ns=0)), "frozen clock: the host's"),
    "more time than passed": (
        samples(lambda s: s._replace(gpu_end=s.gpu_end + 1)),
        "the device's stamps show",
    ),
    "too few": (
        lambda run: run.samples.__delitem__(slice(2 * len(VARIANTS), None)),
        "too few samples: 2 rounds",
    ),
    "drift": (samples(slower_at_the_end), "drifting baseline: 'pair' was +"),
    "one arm on other rows": (samples(lambda s: s._replace(x_hash=s.arm)), "inputs differ between the arms"),
    "never compared": (lambda run: run.compared.__setitem__(1, 0), "outputs of arm 'single' were never"),
    "a surplus barrier": (lambda run: run.barriers.__setitem__(2, 1), "arm 'last' encodes 1 barriers"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_faulty_samples_are_void(name: str, run: bench.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_DRIFT", 0.15)
    edit, wanted = FAULTY[name]
    wrong = replace(run, samples=list(run.samples), compared=list(run.compared), barriers=list(run.barriers))
    edit(wrong)
    assert any(reason.startswith(wanted) for reason in bench.void_reasons(wrong))
    assert judge(wrong, PROBED)["decision"] == "VOID"


def test_samples_that_hang_together_are_too_few(run: bench.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "LEAST_EFFECTIVE", 8)

    def swing(sample: bench.Sample) -> bench.Sample:
        seconds = 1e-4 * (1 + 0.1 * np.sin(sample.round / 5) * (sample.arm == 1))
        return sample._replace(gpu_end=sample.gpu_start + seconds, completed_ns=sample.committed_ns + 10**9)

    wrong = replace(run, samples=[swing(each) for each in run.samples])
    assert any("independent ones" in reason for reason in bench.void_reasons(wrong))


def test_metal_validation_is_void(run: bench.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MTL_DEBUG_LAYER", "1")
    assert bench.void_reasons(run) == ["MTL_DEBUG_LAYER is set: Metal's validation changes what is timed"]


def test_a_sound_run_is_not_void(run: bench.Run) -> None:
    assert bench.void_reasons(run) == []


# ---- decisions


def with_speed_up(run: bench.Run, gpu: float, wall: float) -> bench.Run:
    """The run with `single` faster than the rest by these factors, with a little noise."""
    rng = np.random.default_rng(0)

    def change(sample: bench.Sample) -> bench.Sample:
        fast = sample.arm == 1
        noise = 1 + 0.001 * float(rng.standard_normal())
        return sample._replace(
            gpu_end=sample.gpu_start + 1e-3 * noise / (gpu if fast else 1),
            wall_ns=int(2e6 * noise / (wall if fast else 1)),
            completed_ns=sample.committed_ns + 10**9,
        )

    return replace(run, samples=[change(each) for each in run.samples])


@pytest.mark.parametrize(
    ("gpu", "wall", "decision", "winner"),
    [
        (1.2, 1.2, "GO", "single"),
        (1.03, 1.0, "GO", "single"),
        (1.01, 1.2, "NO-GO", "pair"),
        (1.0, 1.0, "NO-GO", "pair"),
        (0.8, 0.8, "NO-GO", "pair"),
        (1.2, 0.9, "NO-GO", "pair"),  # the host sees a loss
    ],
)
def test_decisions(run: bench.Run, gpu: float, wall: float, decision: str, winner: str) -> None:
    result = judge(with_speed_up(run, gpu, wall), PROBED)
    assert (result["decision"], result["winner"]) == (decision, winner)
    found = result["comparisons"]["single"]["gpu"]
    assert found["low"] < found["speed_up"] < found["high"]
    assert found["speed_up"] == pytest.approx(gpu, rel=0.002)
    assert result["comparisons"]["last"]["decision"] == "NO-GO"


def test_the_verdict_of_a_report(run: bench.Run) -> None:
    report = {"options": {"hidden": 512, "experts": 8, "top_k": 2}}
    for gpu, variant, decision in ((1.3, "single", "GO"), (1.0, "pair", "NO-GO")):
        report["results"] = [judge(with_speed_up(run, gpu, gpu), PROBED)]
        (found,) = bench.verdicts_of(report)
        assert (found.shape, found.variant, found.decision) == ((2, 512, 8, 2), variant, decision)


def test_dispatches_saved(run: bench.Run) -> None:
    account = judge(with_speed_up(run, 2.0, 2.0), PROBED)["comparisons"]["single"]["dispatches"]
    assert (account["saved_per_layer"], account["predicted_us"]) == (1.0, 1.0)
    assert account["observed_us"] == pytest.approx(250, rel=0.01)  # of 500 us a layer, half


# ---- the commands


def test_report_of_one_command(device: qn.Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    words = ["--rows", "1", "2", "4", "8", *WORDS[3:]]
    assert main(["bench", *words, "--device", device.kind, "--out", str(tmp_path)]) == 0
    told = capsys.readouterr()
    names = ["differences.png", "report.json", "report.md", "times.png", "waterfall.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert (tmp_path / "report.md").read_text() == told.out.removesuffix("\n")
    report = bench.read(tmp_path / "report.json")
    assert [result["rows"] for result in report["results"]] == [1, 2, 4, 8]
    for result in report["results"]:
        assert len(result["samples"]["values"]) == 24 * len(VARIANTS)
        assert list(result["arms"]) == list(VARIANTS)
        assert [arm["dispatches"] for arm in result["arms"].values()] == [4, 2, 2, 4, 2]
    assert main(["bench", "compare", *[str(tmp_path / "report.json")] * 2]) == 0
    told = capsys.readouterr()
    assert "Options and machine are alike." in told.out
    assert told.out.count("| 1.000 |") == 4 * len(VARIANTS)


@pytest.mark.parametrize("words", [["--encoder", "concurrent"], ["--cold", "1"], ["--arms", "pair", "pair"]])
def test_other_ways_to_run(words: list[str], device: qn.Device, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *WORDS, *words, "--device", device.kind, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert all(result["void"] == [] for result in report["results"])
    if "pair" in words:
        assert list(report["results"][0]["arms"]) == ["pair", "pair#2"]
    if "--cold" in words:
        assert report["options"]["blocks"] > 100


def test_a_time_budget_ends_the_run(device: qn.Device) -> None:
    run = bench.measure(device, 1, replace(TINY, rows=(1,), repeats=None, budget=0.3, warm_up=1e6))
    assert len(run.samples) >= 2 * len(VARIANTS)


def test_tune_switches_auto(
    device: qn.Device, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def won(device: qn.Device, rows: int, options: bench.Options, tell: Any) -> bench.Run:
        return with_speed_up(bench.measure(device, rows, options, tell), 1.5, 1.5)

    monkeypatch.setattr(bench.report, "measure", won)
    assert qn.plan(qn.Device(device.kind), 1, 512, 8, 2, fuse="auto").variant == "pair"
    assert main(["tune", *WORDS, "--device", device.kind]) == 0
    assert "stored 2 of 2 verdicts" in capsys.readouterr().err
    assert qn.plan(qn.Device(device.kind), 1, 512, 8, 2, fuse="auto").variant == "single"
    assert qn.plan(qn.Device(device.kind), 3, 512, 8, 2, fuse="auto").variant == "pair"


def test_compare_tells_what_is_not_alike(device: qn.Device, tmp_path: Path) -> None:
    first = bench.run(device, TINY)
    second = json.loads(json.dumps(first))
    second["environment"]["machine"]["shader_sha256"] = "another"
    columns = second["results"][0]["samples"]["columns"]
    start, end = columns.index("gpu_start"), columns.index("gpu_end")
    for sample in second["results"][0]["samples"]["values"]:
        # From 0 on: half of a time is exact there, but not behind the large stamp of a clock.
        sample[start], sample[end] = 0.0, (sample[end] - sample[start]) / 2
    compared = bench.compare(first, second)
    assert [name for name, _, _ in compared["differences"]] == ["shader_sha256"]
    ratios = [2] * len(VARIANTS) + [1] * len(VARIANTS)  # the first shape was changed
    assert [each["ratio"] for each in compared["rows"]] == pytest.approx(ratios)
    for each in compared["rows"]:
        assert each["low"] <= each["ratio"] <= each["high"]
    assert "shader_sha256" in bench.comparison_as_markdown(compared)
    second["results"] = []
    with pytest.raises(ValueError, match="in common"):
        bench.compare(first, second)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"kind": "qwisp-native bench", "format": 99}'])
def test_files_that_are_no_reports(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text(text)
    assert main(["bench", "compare", *[str(tmp_path / "a.json")] * 2]) == 1
    assert "report" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"arms": ("pair",)}, "arms"),
        ({"arms": ("pair", "triple")}, "arms"),
        ({"rows": ()}, "rows"),
        ({"rows": (1, 1)}, "rows"),
        ({"repeats": 0}, "repeats"),
        ({"budget": 0.0}, "budget"),
        ({"encoder": "both"}, "encoder"),
    ],
)
def test_options_that_are_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        replace(TINY, **change)


def test_shapes_that_are_refused(device: qn.Device) -> None:
    for change, told in (
        ({"hidden": 100}, "hidden"),
        ({"layers": 0}, "layers"),
        ({"blocks": 10**6}, "blocks"),
    ):
        with pytest.raises(ValueError, match=told):
            bench.measure(device, 1, replace(TINY, **change))


def test_without_matplotlib(
    device: qn.Device,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["bench", *WORDS, "--device", device.kind, "--out", str(tmp_path)]) == 0
    assert "qwisp_native[plot]" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "report.md"]
