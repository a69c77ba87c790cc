"""bench/gpu_run.py and bench/gpu_soak.py without a GPU: what they report, and that a fault is seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gpu_run
import gpu_soak
import pytest
from gpu_run import Run, Stage, run_stages

import qwisp_native as qn
from qwisp_native import _core
from qwisp_native.gates.routing import Arrays, route
from qwisp_native.settings import VARIANTS

FUSED = [variant for variant in VARIANTS if variant != "pair"]


# ---- soak


@pytest.fixture
def cpu() -> qn.Device:
    return qn.Device("cpu")


def test_soak(cpu: qn.Device) -> None:
    before = cpu.kernels
    found = gpu_soak.soak(cpu, 200, 16, seconds=60, seed=3)
    assert cpu.kernels == before
    assert not found.wrong
    assert (found.batches, found.rows) == (13, 208)
    assert found.by_variant == dict.fromkeys(FUSED, 208)
    assert set(found.by_kind) == set(gpu_soak.KINDS)
    assert set(found.by_launch) == set(cpu.kernel_names)
    assert sum(found.by_launch.values()) == 208
    assert found.rows_on_the_cpu == sum(1 + number % 8 for number in range(13))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["inds", "scores", "logits"])
def test_a_wrong_bit_is_seen(variant: str, name: str, cpu: qn.Device) -> None:
    calls = [0]

    def faulty(gate: qn.Gate, x: Any, top_k: int, fuse: str, **options: Any) -> Arrays:
        out = route(gate, x, top_k, fuse, **options)
        mine = gate.device is faulty_device
        if fuse == variant and mine and name in out:
            calls[0] += 1
            if calls[0] == 1:  # of a dense batch: no NaN, whose bits may differ
                out[name] = out[name].copy()
                out[name].view("u1")[-1, 0] ^= 1
        return out

    faulty_device = cpu
    found = gpu_soak.soak(cpu, 160, 16, seconds=60, route=faulty)
    assert found.wrong
    assert variant == "pair" or f" {variant}" in found.wrong[0]  # all others differ from a wrong pair
    assert f"{name}: row" in found.wrong[0]


def test_a_soak_without_time_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "soak.json"
    assert gpu_soak.main(["--device", "cpu", "--rows", "16", "--batch", "8", "--out", str(file)]) == 0
    assert json.loads(file.read_text())["rows"] == 16
    assert gpu_soak.main(["--device", "cpu", "--rows", "16", "--seconds", "0", "--out", str(file)]) == 1
    assert "stopped before 16 rows" in capsys.readouterr().out
    assert json.loads(file.read_text())["asked"] == 16


# ---- stages


def python(code: str) -> Any:
    return lambda run, limit: [sys.executable, "-c", code]


def run_all(out: Path, *stages: Stage, seconds: float = 60) -> dict[str, Any]:
    summary = run_stages(Run(out, time.monotonic() + seconds, 1), stages, lambda line: None)
    assert json.loads((out / "summary.json").read_text()) == summary
    return summary


def test_a_stage_that_fails_does_not_stop_the_next(tmp_path: Path) -> None:
    summary = run_all(
        tmp_path,
        Stage("one", 30, python("print('told')"), json="one.json"),
        Stage("two", 30, python("import sys; print('why'); sys.exit(3)")),
        Stage("three", 30, python("1 / 0"), lambda: "not here"),
        Stage("four", 30, python("pass")),
    )
    assert {name: each["state"] for name, each in summary["stages"].items()} == {
        "one": "ok",
        "two": "failed",
        "three": "skipped",
        "four": "ok",
    }
    assert not summary["ok"]
    assert summary["stages"]["two"]["why"] == "exit status 3; see two.log"
    assert summary["stages"]["three"]["why"] == "not here"
    assert (tmp_path / "one.json").read_text() == "told\n"
    assert (tmp_path / "two.log").read_text() == "why\n"


def test_a_stage_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    child = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    code = f"import os, subprocess, sys; os.chdir({str(tmp_path)!r})\n"
    code += f"subprocess.run([sys.executable, '-c', {child!r}])"
    summary = run_all(tmp_path, Stage("hangs", 5, python(code)), Stage("next", 30, python("pass")))
    assert summary["stages"]["hangs"]["why"] == "still running after 5 s"
    assert summary["stages"]["next"]["state"] == "ok"
    pid = int((tmp_path / "pid").read_text())
    state = Path(f"/proc/{pid}/stat")
    end = time.monotonic() + 10
    while (
        state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z" and time.monotonic() < end
    ):
        time.sleep(0.05)
    assert time.monotonic() < end


def test_all_ends_in_time(tmp_path: Path) -> None:
    summary = run_all(
        tmp_path,
        Stage("modest", 30, python("pass"), reserve=100),
        Stage("late", 30, python("pass")),
        seconds=20,
    )
    assert summary["stages"]["modest"] == {
        "state": "failed",
        "why": "no time left",
        "seconds": 0.0,
        "command": [],
    }
    assert summary["stages"]["late"]["state"] == "ok"


@pytest.mark.parametrize(("broken", "why"), [("build", "the build failed"), ("device", "no cuda device: ")])
def test_without_a_build_or_a_device_the_rest_is_skipped(broken: str, why: str, tmp_path: Path) -> None:
    none = {"devices": [{"kind": "cuda", "available": broken == "build", "why": "too old"}]}
    summary = run_all(
        tmp_path,
        Stage("build", 30, python(f"import sys; sys.exit({broken == 'build'})"), needs_device=False),
        Stage("device", 30, python(f"print({json.dumps(none)!r})"), json="info.json", needs_device=False),
        Stage("gates", 30, python("1 / 0")),
    )
    assert summary["stages"]["gates"]["state"] == "skipped"
    assert summary["stages"]["gates"]["why"].startswith(why)
    assert summary["stages"][broken]["state"] == "failed"
    assert not summary["ok"]


def test_the_stages_are_those_that_are_asked_for() -> None:
    assert [stage.name for stage in gpu_run.stages("soak,build")] == ["build", "soak"]
    with pytest.raises(Exception, match="tea, but it must be of build, device, "):
        gpu_run.stages("build,tea")


def test_commands_name_what_exists(tmp_path: Path) -> None:
    run = Run(tmp_path, 0, 10**7)
    for stage in gpu_run.STAGES:
        command = stage.command(run, stage.limit)
        for word in command:
            if word.startswith(str(gpu_run.ROOT)):
                assert Path(word).exists(), word
        if stage.name == "tests":
            assert command[-1] == str(gpu_run.ROOT / "tests")
            assert "cuda" in command
            ignored = [word.removeprefix("--ignore=") for word in command if word.startswith("--ignore=")]
            assert len(ignored) == 2
            assert all(Path(word).exists() for word in ignored)


@pytest.mark.skipif(not _core.why_no_cuda_device(), reason="there is a cuda device")
def test_the_script_says_that_there_is_no_device(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(gpu_run.ROOT / "bench" / "gpu_run.sh"), str(tmp_path), "--only", "device,gates"],
        env=os.environ | {"PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "device     failed" in done.stdout
    assert "no cuda device: no CUDA driver" in done.stdout
    assert "gates      skipped" in done.stdout
