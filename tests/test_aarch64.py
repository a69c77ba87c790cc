"""The C++ tests on aarch64, under qemu-user: `pytest -m qemu`.

Debian: g++-aarch64-linux-gnu, qemu-user-static.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMPILER = shutil.which("aarch64-linux-gnu-g++")
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
CMAKE = shutil.which("cmake")

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not (COMPILER and QEMU and CMAKE), reason="no aarch64 compiler, qemu-user or cmake"),
]

OPTIONS = {
    "CMAKE_SYSTEM_NAME": "Linux",
    "CMAKE_SYSTEM_PROCESSOR": "aarch64",
    "CMAKE_CXX_COMPILER": COMPILER,
    "CMAKE_CROSSCOMPILING_EMULATOR": f"{QEMU};-L;/usr/aarch64-linux-gnu",
    "DOCTEST_INCLUDE": "/usr/include",  # header only: the host's serves
    "QWISP_BUILD_PYTHON": "OFF",
    "QWISP_BUILD_TESTS": "ON",
}


def run(*command: str | Path) -> str:
    words = [str(each) for each in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def build(folder: Path, *targets: str) -> None:
    """All of the C++ tests, or those that are named."""
    run(str(CMAKE), "-S", ROOT, "-B", folder, *(f"-D{name}={value}" for name, value in OPTIONS.items()))
    chosen = ["--target", *targets] if targets else []
    run(str(CMAKE), "--build", folder, "--parallel", str(os.cpu_count() or 1), *chosen)


def test_cpp_tests(tmp_path: Path) -> None:
    build(tmp_path)
    told = run(str(CMAKE).replace("cmake", "ctest"), "--test-dir", tmp_path, "--output-on-failure")
    assert "100% tests passed" in told


def test_neon_bits(tmp_path: Path) -> None:
    """Only what NEON's vector kernels need: CI takes this one."""
    build(tmp_path, "qwisp_test_vector")
    program = tmp_path / "cpp" / "tests" / "qwisp_test_vector"
    told = run(str(QEMU), "-L", "/usr/aarch64-linux-gnu", program)
    assert "neon: " in told
    assert "portable: " in told
