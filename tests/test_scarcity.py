"""Memory and threads that run out: every request of the extension module is refused in turn.

scarcity/scarce.cpp is preloaded into scarcity/child.py. What fails must raise MemoryError, DeviceError or
RuntimeError, and then the next call, and the same one, must go well. To add a step: a function in child.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import qwisp_native as qn

HERE = Path(__file__).parent / "scarcity"
COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="preloads over glibc"),
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler"),
    pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer has malloc"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert COMPILER is not None
    library = tmp_path_factory.mktemp("scarcity") / "scarce.so"
    source = str(HERE / "scarce.cpp")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", source, "-o", str(library), "-ldl"], check=True)
    return library


def refuse_each(library: Path, kind: str, how: str, kernels: str, step: str) -> tuple[int, int]:
    """How many requests were refused, and how many of them were errors."""
    done = subprocess.run(
        [sys.executable, str(HERE / "child.py"), kind, how, kernels, step],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, (
        f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    )
    found = re.search(r"refused (\d+), of which (\d+) were errors", done.stdout)
    assert found is not None, done.stdout
    return int(found[1]), int(found[2])


# how: "one" request is refused, or it and all the "rest".
@pytest.mark.parametrize(
    ("how", "kernels", "step"),
    [
        ("one", "", "make_device"),
        ("one", "", "make_objects"),
        ("one", "", "make_gate"),
        ("one", "", "route"),
        ("rest", "", "route_anew"),
        ("one", "simt", "route_anew"),
        ("one", "", "encode"),
        ("one", "", "encode_anyway"),
        ("rest", "", "encode"),
        ("one", "", "in_flight"),
    ],
)
def test_each_allocation_fails(library: Path, how: str, kernels: str, step: str) -> None:
    refused, errors = refuse_each(library, "memory", how, kernels, step)
    assert refused > (0 if step == "route_large" else 20)
    assert errors > refused / 2


@pytest.mark.slow
@pytest.mark.parametrize("how", ["one", "rest"])
@pytest.mark.parametrize("kernels", qn.Device("cpu").kernel_names)
@pytest.mark.parametrize(
    "step", ["make_device", "make_gate", "make_objects", "route", "route_large", "encode", "in_flight"]
)
def test_each_allocation_fails_at_length(library: Path, how: str, kernels: str, step: str) -> None:
    test_each_allocation_fails(library, how, kernels, step)


@pytest.mark.parametrize("how", ["one", "rest"])
@pytest.mark.parametrize("step", ["route_anew", "in_flight_anew", "route_large"])
def test_threads_run_out(library: Path, how: str, step: str) -> None:
    refused, _ = refuse_each(library, "threads", how, "", step)
    assert refused
