"""The edges of the cuda device: what it takes from Python, and what is said where there is none."""

from __future__ import annotations

import importlib.machinery
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import qwisp_native as qn
from qwisp_native import _core, cuda, settings


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_why_there_is_none() -> None:
    kinds = {kind for kind, _ in _core.available_devices()}
    assert bool(_core.why_no_cuda_device()) == ("cuda" not in kinds)
    (found,) = [each for each in qn.devices() if each.kind == "cuda"]
    assert found.why == _core.why_no_cuda_device()
    if not found.available:
        with pytest.raises(qn.DeviceError) as error:
            qn.Device("cuda")
        assert str(error.value).endswith(f"; cuda: {found.why}")


def test_a_missing_driver_is_named() -> None:
    if any(each.kind == "cuda" and each.available for each in qn.devices()):
        pytest.skip("there is a cuda device")
    assert "CUDA" in _core.why_no_cuda_device() or "NVIDIA" in _core.why_no_cuda_device()


def test_the_best_device_is_the_default() -> None:
    kinds = [each.kind for each in qn.devices()]
    assert kinds == sorted(kinds, key=["metal", "cuda", "cpu"].index)
    best = next(each for each in qn.devices() if each.available)
    code = "import qwisp_native as qn; d = qn.Device(); print(d.kind, d.name)"
    assert run(code, QWISP_DEVICE="") == f"{best.kind} {best.name}"


def test_set_up_is_called_once_and_before_the_first_look() -> None:
    code = """
import qwisp_native as qn
from qwisp_native import _core, cuda
calls = []
cuda.set_up = lambda: calls.append(1) or ([], "")
USE
qn.devices(), qn.Device("cpu"), _core.why_no_cuda_device()
assert calls == [1], calls
"""
    for use in ("qn.devices()", "qn.Device('cpu')", "_core.why_no_cuda_device()"):
        run(code.replace("USE", use))


# ---- NVRTC in installed wheels


def wheel(site: Path, *files: str) -> None:
    for name in files:
        path = site / "nvidia" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def test_nvrtc_in_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    wheel(first, "cuda_nvrtc/lib/libnvrtc.so.12", "cuda_nvrtc/lib/libnvrtc-builtins.so.12.9")
    wheel(second, "cu13/lib/libnvrtc.so.13", "cu13/lib/libnvrtc.alt.so.13", "cu13/lib/libnvrtc.so.13.note")
    monkeypatch.setattr(sys, "path", [str(first), str(second)])
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    assert cuda.nvrtc_in_wheels() == [
        str(second / "nvidia/cu13/lib/libnvrtc.so.13"),
        str(first / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
    ]
    assert "nvidia" not in sys.modules


def test_no_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    assert cuda.nvrtc_in_wheels() == []
    (tmp_path / "nvidia.py").write_text("raise SystemExit('imported')")
    assert cuda.nvrtc_in_wheels() == []
    stub = type(sys)("nvidia")
    stub.__spec__ = None
    monkeypatch.setitem(sys.modules, "nvidia", stub)
    assert cuda.nvrtc_in_wheels() == []
    stub.__spec__ = importlib.machinery.ModuleSpec("nvidia", None)
    assert cuda.nvrtc_in_wheels() == []


# ---- the folder


def test_the_folder_is_in_the_cache_folder(tmp_path: Path) -> None:
    code = "from qwisp_native import cuda, verdicts; print(cuda.cubin_folder(), verdicts.path(), sep='\\n')"
    folder, file = run(code, QWISP_CACHE_DIR=str(tmp_path / "new")).splitlines()
    assert Path(folder).parent == Path(file).parent == tmp_path / "new"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("error", [ImportError, OSError, RuntimeError, ValueError])
def test_no_folder_fails_nothing(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Path:
        raise error

    monkeypatch.setattr(settings, "cache_folder", refuse)
    assert cuda.cubin_folder() == ""


def test_a_wrong_variable_does_not_hide_the_devices(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code = "import json, qwisp_native as qn; print(json.dumps([each.kind for each in qn.devices()]))"
    assert "cuda" in json.loads(run(code, QWISP_CACHE_DIR=str(tmp_path / "file")))


ROUTE = """
import sys
import numpy as np, qwisp_native as qn
from small import TOP_K, layer, rows, same
want = qn.Router(layer().gate(qn.Device("cpu")), TOP_K)(rows(3))
assert same(qn.Router(layer().gate(qn.Device("cuda")), TOP_K, fuse="last")(rows(3)), want)
"""


@pytest.mark.cuda
def test_compiled_kernels_are_kept(tmp_path: Path) -> None:
    for _ in range(2):
        run(ROUTE, QWISP_CACHE_DIR=str(tmp_path / "new"))
        kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "new" / "cubins").iterdir()}
        assert kept
        assert all(path.suffix == ".cubin" for path in kept)
    run(ROUTE, QWISP_CACHE_DIR=str(tmp_path / "new"))
    assert kept == {path: path.stat().st_mtime_ns for path in (tmp_path / "new" / "cubins").iterdir()}


@pytest.mark.cuda
def test_a_folder_that_cannot_be_made_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "cubins").write_text("a file in the folder's place")
    run(ROUTE, QWISP_CACHE_DIR=str(tmp_path))


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["dependent", "graph", "stream"])
def test_every_way_to_launch_gives_the_same_bits(name: str) -> None:
    code = f"""
import qwisp_native as qn
device = qn.Device("cuda")
if {name!r} in device.kernel_names: device.kernels = {name!r}
"""
    run(code + ROUTE)
