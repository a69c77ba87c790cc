"""Wrong vector kernels are noticed: by the scalar comparison of cpp/tests, and by the gate `targets`.

Vector kernels are compiled into the module, and no way to break them is shipped. So each fault of
tests/faults/vector is compiled, from a patched copy of the headers, into a program that does what the C++
test does; and for the gate, a wrong target is played: one bit of what it answers is turned over.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

import planted
import qwisp_native as qn
from qwisp_native.gates import GATES, Context, targets

ROOT = planted.ROOT
VECTOR = Path("metal_runtime/drivers/cpu/vector")
FAULTS = sorted(path.stem for path in (planted.FAULTS / "vector").glob("*.toml"))


def compare_planted(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What the scalar comparison tells of the headers with this fault; the empty name plants none."""
    patched = folder / VECTOR
    shutil.copytree(ROOT / "cpp" / VECTOR, patched)
    patches = tomllib.loads((planted.FAULTS / "vector" / f"{name}.toml").read_text())["patch"] if name else ()
    planted.apply_patches(name, patches, patched)
    flags = ["-std=c++20", "-O1", "-ffp-contract=off", "-w"]
    if platform.machine() in {"x86_64", "AMD64"}:
        flags += ["-mavx2", "-mfma", "-mf16c"]
    program = folder / "planted"
    includes = [f"-I{folder}", f"-I{ROOT / 'cpp'}"]  # the patched headers hide the others
    source = ROOT / "cpp" / "tests" / "planted_vector.cpp"
    subprocess.run([planted.COMPILER, *flags, *includes, str(source), "-o", str(program)], check=True)
    return subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)


def needs_avx2(name: str) -> None:
    if platform.machine() not in {"x86_64", "AMD64"} and name == "half_toward_zero":
        pytest.skip("the patch is of the AVX2 conversion")
    if platform.machine() in {"x86_64", "AMD64"} and "avx2" not in qn.Device("cpu").kernel_names:
        pytest.skip("the program is compiled for AVX2")


@pytest.mark.parametrize("name", ["", *FAULTS])
def test_wrong_vector_code_is_red(name: str, tmp_path: Path) -> None:
    needs_avx2(name)
    done = compare_planted(name, tmp_path)
    assert done.returncode == (1 if name else 0), done.stdout + done.stderr
    assert ("instead of" in done.stdout) == bool(name)


@pytest.mark.parametrize("wrong", ["portable", "avx2", "avx512", "neon"])
@pytest.mark.parametrize("array", ["logits", "inds", "scores"])
def test_the_gate_is_red(wrong: str, array: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = qn.Device("cpu")
    if wrong not in device.kernel_names:
        pytest.skip(f"no target {wrong} here")
    route = targets.route

    def planted_route(*args: Any, **options: Any) -> dict[str, Any]:
        arrays = route(*args, **options)
        if device.kernels == wrong:
            arrays[array] = arrays[array].copy()
            arrays[array].view("u2" if array != "inds" else "u4").flat[-1] ^= 1
        return arrays

    monkeypatch.setattr(targets, "route", planted_route)
    told = [text for _, text in GATES["targets"].run(Context(device)) if text is not None]
    assert told
    assert all(wrong in text for text in told)
