"""Rules for shader sources that neither the C++ compiler nor a run here would enforce.

To add a kernel file nothing is needed: every shaders/*.metal and *.h is read.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHADERS = ROOT / "shaders"
METAL = sorted(SHADERS.glob("*.metal"))
SOURCES = METAL + sorted(SHADERS.glob("*.h"))
CLANG = shutil.which("clang++-14") or shutil.which("clang++")


def code(path: Path) -> str:
    """The file without its comments."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    return re.sub(r"//[^\n]*", "", text)


@pytest.mark.parametrize("path", METAL, ids=lambda p: p.name)
def test_contraction_is_off_unless_the_library_switch_says_otherwise(path: Path) -> None:
    """Safe math does not stop a multiply-add from being fused; the pragma does (docs/apple.md)."""
    text = code(path)
    switch = r"#if !defined\(QWISP_CONTRACT_COMPILER\)\s+#pragma METAL fp contract\(off\)\s+#endif"
    assert re.search(switch, text), f"{path.name}: no guarded contract(off) pragma"
    assert "#pragma METAL fp math_mode(safe)" in text
    head = text.index("#pragma METAL fp math_mode(safe)")
    assert head < text.index("#include"), f"{path.name}: the pragmas stand before the first include"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_only_what_metal_has(path: Path) -> None:
    """No double, no 64-bit atomics, no recursion aids, no spin on another threadgroup's flag."""
    text = code(path)
    for word in ("double", "long", "goto", "virtual", "throw", "new", "asm", "dynamic_cast"):
        assert not re.search(rf"\b{word}\b", text), f"{path.name} uses {word}"
    orders = set(re.findall(r"\bmemory_order_\w+", text))
    assert orders <= {"memory_order_relaxed"}, "below Metal 3.2 device atomics take relaxed only"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_threadgroup_arrays_stand_at_kernel_scope(path: Path) -> None:
    """A helper function that declares threadgroup memory is refused by Metal."""
    text = code(path)
    if path.suffix == ".h" and path.name != "compat.h":
        assert "QWISP_THREADGROUP_ARRAY" not in text
    for line in re.findall(r"^( *)QWISP_THREADGROUP_ARRAY", text, flags=re.MULTILINE):
        assert line == "    ", f"{path.name}: a threadgroup array deeper than the kernel's own scope"


def address_space_errors(path: Path) -> str:
    """What clang's C++ for OpenCL says of one kernel file; empty when it accepts the file."""
    if CLANG is None:
        pytest.skip("clang is not installed")
    flags = "-x cl -cl-std=clc++2021 -fsyntax-only -Wall -Wextra -Werror"
    quiet = "-Wno-unused-parameter -Wno-unknown-pragmas -Wno-unused-function"
    include = ["-I", str(ROOT / "tests" / "opencl"), "-I", str(SHADERS)]
    command = [CLANG, *flags.split(), *quiet.split(), *include, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.stderr if run.returncode else ""


@pytest.mark.parametrize("path", METAL, ids=lambda p: p.name)
def test_address_spaces(path: Path) -> None:
    """A pointer that loses its address space is refused, as Metal refuses it."""
    assert address_space_errors(path) == ""


def test_the_address_space_check_can_fail(tmp_path: Path) -> None:
    """A device pointer handed on as a threadgroup pointer turns the check red."""
    text = (SHADERS / "route_top8_rows.metal").read_text()
    wrong = text.replace("value, index, chosen,", "value, index, scores,")
    assert wrong != text
    (tmp_path / "wrong.metal").write_text(wrong)
    assert "no matching function" in address_space_errors(tmp_path / "wrong.metal")
