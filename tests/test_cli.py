"""The command line, as a user runs it. To add a case: call `cli` with the words after `qwisp-native`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import termios
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gate_files as gf
import qwisp_native as qn
from qwisp_native import verdicts
from qwisp_native.cli.info import LIMITS
from qwisp_native.settings import VARIABLES, VARIANTS


def cli(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QWISP_")}
    for name in ("QWISP_DEVICE", "QWISP_CACHE_DIR"):
        if name in os.environ:
            kept[name] = os.environ[name]
    command = [sys.executable, "-m", "qwisp_native", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, env=kept | environment, timeout=300, check=False
    )


def cli_json(*words: object, **environment: str) -> dict[str, Any]:
    done = cli(*words, "--json", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_fails(done: subprocess.CompletedProcess[str], code: int, told: str) -> None:
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gf.write(tmp_path_factory.mktemp("checkpoint"), gf.gate_tensors(), gf.CONFIG)


def test_demo() -> None:
    done = cli("demo")
    assert (done.returncode, done.stderr) == (0, "")  # no bars where there is no terminal
    assert "DIFFERENT" not in done.stdout
    assert done.stdout.count("equal bits") == 4 * len(VARIANTS[1:]) * 3
    width = max(map(len, VARIANTS))
    for variant in VARIANTS:
        assert f"    {variant:{width}}  0 128 64 192 32 160 96 224\n" in done.stdout
        assert f"    {variant:{width}}  2 1 0 128 64 192 32 160\n" in done.stdout
    assert f"{'last':{width}}          40     40" in done.stdout
    assert "all as it must be" in done.stdout


def test_demo_notices_a_difference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from qwisp_native.cli import demo, main

    monkeypatch.setattr(demo, "ROWS", (1,))
    monkeypatch.setattr(demo, "EQUAL_ORDER", list(range(8)))
    assert main(["demo"]) == 1
    assert "FAILED" in capsys.readouterr().out


def test_demo_keeps_its_checkpoint(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert cli("demo", "--keep", kept).returncode == 0
    found = cli_json("route", kept, "--layer", 0, "--rows", 2)
    assert (found["hidden"], found["experts"], found["top_k"]) == (2048, 256, 8)
    before = (kept / "model.safetensors").read_bytes()
    assert_fails(cli("demo", "--keep", kept), 1, "exists, expected a new folder")
    assert (kept / "model.safetensors").read_bytes() == before


def test_route_random_rows(folder: Path) -> None:
    found = cli_json("route", folder, "--layer", 1)
    assert found["x"] == {"random": True, "seed": 0}
    assert found["gate"] == "model.layers.1.mlp.gate"
    assert (found["hidden"], found["experts"], found["top_k"]) == (gf.HIDDEN, gf.EXPERTS, gf.TOP_K)
    assert found["plan"]["variant"] == "pair"
    assert found["plan"]["kernels"] == ["qmm8_rows", "route_top8_rows"]
    assert found["rows_with_repeats"] == []
    assert np.shape(found["inds"]) == np.shape(found["scores"]) == (4, gf.TOP_K)
    other = cli_json("route", folder, "--layer", 1, "--seed", 7)
    assert other["inds"] != found["inds"]
    told = cli("route", folder, "--layer", 1).stdout
    assert "x: 4 rows, random (no --x was given), seed 0" in told


@pytest.mark.parametrize("fuse", ["0", "1", "auto", *VARIANTS])
def test_route_equals_the_library(folder: Path, tmp_path: Path, fuse: str) -> None:
    x = np.random.default_rng(5).standard_normal((3, gf.HIDDEN)).astype(np.float16)
    np.save(tmp_path / "x.npy", x)
    found = cli_json("route", folder, "--layer", 0, "--x", tmp_path / "x.npy", "--fuse", fuse)
    inds, scores = qn.load_gates(folder).router(qn.Device(), 0)(x)
    assert found["inds"] == inds.tolist()
    assert found["scores"] == scores.tolist()
    assert found["x"] == {"random": False, "file": str(tmp_path / "x.npy")}
    assert found["plan"]["variant"] == {"0": "pair", "auto": "pair", "1": "last"}.get(fuse, fuse)


def test_route_rows_that_repeat_an_expert(folder: Path, tmp_path: Path) -> None:
    x = np.ones((3, gf.HIDDEN), np.float16)
    x[1] = np.nan
    np.save(tmp_path / "x.npy", x)
    words = ("route", folder, "--layer", 0, "--x", tmp_path / "x.npy")
    found = cli_json(*words)
    assert found["rows_with_repeats"] == [1]
    assert found["inds"][1] == [0] * gf.TOP_K
    assert found["scores"][1] == ["nan"] * gf.TOP_K
    assert "more than once (NaN or -inf): 1" in cli(*words).stdout


def test_route_no_rows(folder: Path) -> None:
    found = cli_json("route", folder, "--layer", 0, "--rows", 0)
    assert (found["inds"], found["plan"]["dispatches"]) == ([], 0)
    assert "x: 0 rows" in cli("route", folder, "--layer", 0, "--rows", 0).stdout


def test_route_top_k_is_needed_where_no_config_says_it(tmp_path: Path) -> None:
    gf.write(tmp_path, gf.gate_tensors())
    words = ("route", tmp_path / "model.safetensors", "--layer", 0)
    assert_fails(cli(*words), 1, "no config.json that gives num_experts_per_tok")
    assert cli_json(*words, "--top-k", 3)["top_k"] == 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--layer", 5], "layer 5: "),
        (["--layer", 0, "--top-k", 17], "top_k"),
        (["--layer", 0, "--x", "no-such.npy"], "no-such.npy"),
    ],
)
def test_route_failures(folder: Path, words: list[object], told: str) -> None:
    assert_fails(cli("route", folder, *words), 1, told)


BAD_X: dict[str, tuple[np.ndarray, str]] = {
    "float32": (np.ones((2, gf.HIDDEN), np.float32), "float16"),
    "hidden": (np.ones((2, 1024), np.float16), "hidden=512"),
    "one dimension": (np.ones(gf.HIDDEN, np.float16), "x: "),
    "objects": (np.array([[None]]), "not a .npy file of numbers"),
}


@pytest.mark.parametrize("case", BAD_X)
def test_route_bad_rows(folder: Path, tmp_path: Path, case: str) -> None:
    x, told = BAD_X[case]
    np.save(tmp_path / "x.npy", x, allow_pickle=True)
    assert_fails(cli("route", folder, "--layer", 0, "--x", tmp_path / "x.npy"), 1, told)


@pytest.mark.parametrize("content", [b"", b"not an array"])
def test_route_rows_that_are_no_array(folder: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    assert_fails(cli("route", folder, "--layer", 0, "--x", tmp_path / "x.npy"), 1, "not a .npy file")


def test_route_scores_that_are_not_renormalised(tmp_path: Path) -> None:
    gf.write(tmp_path, gf.gate_tensors(), dict(gf.CONFIG, norm_topk_prob=False))
    assert_fails(cli("route", tmp_path, "--layer", 0), 1, "the contract always renormalises")


def test_route_damaged_checkpoint(tmp_path: Path) -> None:
    file = gf.write(tmp_path, gf.gate_tensors(), gf.CONFIG) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert_fails(cli("route", tmp_path, "--layer", 0), 1, "damaged or cut short")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["no-such-command"],
        ["route"],
        ["route", "folder"],
        ["route", "folder", "--layer", "-1"],
        ["route", "folder", "--layer", "0", "--fuse", "both"],
        ["route", "folder", "--layer", "0", "--x", "x.npy", "--rows", "3"],
        ["info", "extra"],
        ["demo", "--device", "abacus"],
        ["gates", "--no-such-flag"],
    ],
)
def test_wrong_usage(words: list[str]) -> None:
    assert_fails(cli(*words), 2, "usage: qwisp-native")


@pytest.mark.parametrize("command", ["demo", "route", "info", "gates"])
def test_help(command: str) -> None:
    assert command in cli("--help").stdout
    done = cli(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: qwisp-native {command}")


def test_info() -> None:
    found = cli_json("info")
    assert found["qwisp_native"] == qn.__version__
    assert found["shader_sha256"] == qn.shader_sha256()
    assert found["packages"]["numpy"] == np.__version__
    assert found["device"]["kind"] == qn.Device().kind
    assert found["device"]["default"]["variant"] == "pair"
    assert [s["name"] for s in found["settings"]] == [v.name for v in VARIABLES]
    told = cli("info").stdout
    for word in (qn.__version__, qn.shader_sha256(), *(v.name for v in VARIABLES)):
        assert word in told


def test_info_shows_what_auto_goes_by(
    device: qn.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"QWISP_CACHE_DIR": str(tmp_path)}
    assert cli_json("info", **env)["device"]["verdicts"] == {
        "file": str(tmp_path / "verdicts.json"),
        "found": [],
    }
    assert "auto is the pair: `qwisp-native tune` has left nothing" in cli("info", **env).stdout
    here = verdicts.machine(device.kind, device.name, device.contract, device.shader_sha256)
    win = verdicts.Verdict((1, 2048, 256, 8), "last", "GO", "last", 1.25, 1.125, 1.375)
    monkeypatch.setattr(verdicts, "path", lambda: tmp_path / "verdicts.json")
    verdicts.store(here, [win])
    (found,) = cli_json("info", **env)["device"]["verdicts"]["found"]
    assert found == json.loads(json.dumps(asdict(win)))
    told = cli("info", **env).stdout
    assert "M=1 H=2048 E=256 K=8" in told
    assert "GO: last is 1.250 times as fast as the pair (1.125 to 1.375)" in told


def test_info_shows_where_a_setting_comes_from() -> None:
    settings = {s["name"]: s for s in cli_json("info", QWISP_FUSE_ROUTE="last")["settings"]}
    assert (settings["QWISP_FUSE_ROUTE"]["value"], settings["QWISP_FUSE_ROUTE"]["source"]) == (
        "last",
        "environment",
    )
    assert (settings["QWISP_CONTRACT"]["value"], settings["QWISP_CONTRACT"]["source"]) == ("off", "default")


def test_info_reports_what_is_wrong() -> None:
    done = cli("info", "--json", QWISP_FUSE_ROUTE="both")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert "QWISP_FUSE_ROUTE: 'both'" in found["device"]["error"]
    assert [s["name"] for s in found["settings"] if s["error"]] == ["QWISP_FUSE_ROUTE"]
    assert "WRONG QWISP_FUSE_ROUTE" in cli("info", QWISP_FUSE_ROUTE="both").stdout


def test_info_limits_are_those_of_plan(device: qn.Device) -> None:
    """The numbers that `info` prints are the edges at which the library refuses."""
    names = ("hidden_multiple", "experts_multiple", "max_experts", "max_fused_top_k")
    hidden, step, experts, fused = (int(LIMITS[name]) for name in names)
    qn.plan(device, 1, hidden, experts, experts)
    qn.plan(device, 1, hidden, step, 1)
    qn.plan(device, 1, hidden, experts, fused, fuse="single")
    for wrong in (
        (hidden // 2, experts, 1),
        (hidden, experts + step, 1),
        (hidden, step + step // 2, 1),
        (hidden, step, step + 1),
    ):
        with pytest.raises(ValueError, match=r"hidden|experts|top_k"):
            qn.plan(device, 1, *wrong)
    with pytest.raises(ValueError, match="single"):
        qn.plan(device, 1, hidden, experts, fused + 1, fuse="single")


def test_a_closed_pipe_is_no_traceback(folder: Path) -> None:
    command = f"{sys.executable} -m qwisp_native route {folder} --layer 0 --rows 2000 --json | head -c 10"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_bars_on_a_terminal() -> None:
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 80))  # none is 0 columns, and a bar of that width is empty
    command = [sys.executable, "-m", "qwisp_native", "demo"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 4096):
            written += chunk
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    assert b"routing" in written
