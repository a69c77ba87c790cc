"""Runs gates on shaders with a planted fault, in their own process: `python tests/planted.py FAULT GATE ...`.

A fault is a TOML file in tests/faults: a summary, the gates that must go red, and patches of the shader
text, each of which must apply exactly `count` times (1 unless it says otherwise). It may list `variants`,
each of which every gate must find wrong, name a `kind`, the only kind of device that it is planted on, and
say within how many `seeds` of the executor it must be found (gates that tell the seed).
The software device runs shaders that are compiled in, so a patched text becomes a kernel image (a shared
object) first; Metal compiles it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FAULTS = Path(__file__).parent / "faults"
CPU_DRIVER = ROOT / "cpp" / "metal_runtime" / "drivers" / "cpu"
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or "c++"


@dataclass(frozen=True)
class Fault:
    """One file of tests/faults."""

    name: str
    summary: str
    gates: tuple[str, ...]
    patches: tuple[dict[str, str | int], ...]
    variants: tuple[str, ...] = ()
    kind: str = ""
    seeds: int = 0
    """0: the gates do not tell a seed."""

    @staticmethod
    def load(name: str) -> Fault:
        """The empty name is the shaders as they are."""
        if not name:
            return Fault("", "nothing is planted", (), ())
        read = tomllib.loads((FAULTS / f"{name}.toml").read_text())
        gates, patches, variants = (tuple(read.get(key, ())) for key in ("gates", "patch", "variants"))
        kind, seeds = read.get("kind", ""), read.get("seeds", 0)
        return Fault(name, read["summary"], gates, patches, variants, kind, seeds)

    def plant(self, folder: Path) -> None:
        """Writes the patched shaders into a folder."""
        for path in (ROOT / "shaders").iterdir():
            shutil.copy(path, folder)
        apply_patches(self.name, self.patches, folder)


def apply_patches(name: str, patches: Iterable[Mapping[str, str | int]], folder: Path) -> None:
    """Changes the files of a folder, each place as often as the fault says."""
    for patch in patches:
        path = folder / str(patch["file"])
        text, wanted = path.read_text(), patch.get("count", 1)
        found = text.count(str(patch["find"]))
        if found != wanted:
            raise ValueError(f"{name}: {found} of {wanted} places in {path.name}: {patch['find']!r}")
        path.write_text(text.replace(str(patch["find"]), str(patch["replace"])))


def build_image(shaders: Path, folder: Path) -> Path:
    """The shaders of a folder as a kernel image of the software device."""
    from qwisp_native.shaders import load

    text, _ = load(shaders)
    source, image = folder / "planted.metal", folder / "planted.so"
    source.write_text(text)
    flags = ["-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-w"]
    command = [COMPILER, *flags, f"-I{CPU_DRIVER}", f'-DQWISP_IMAGE_TEXT="{source}"']
    subprocess.run([*command, str(CPU_DRIVER / "image_main.cpp"), "-o", str(image)], check=True)
    return image


def first_differences(checks: Iterable[tuple[str, str | None]], variants: Iterable[str]) -> str | None:
    """The first difference, or the first of each variant; None if there is none, or a variant has none."""
    told: list[str] = []
    missing = set(variants)
    for check, text in checks:
        named = missing.intersection(re.findall(r"\w+", check))
        if text is not None and (named or not missing):
            told.append(f"{check}: {text}")
            missing -= named
            if not missing:
                return "\n".join(told)
    return None


def plant_device(name: str, folder: Path) -> Fault:
    """Lets this process's devices run patched shaders. It sets the environment of its process."""
    shaders = folder / "shaders"
    shaders.mkdir()
    fault = Fault.load(name)
    fault.plant(shaders)
    os.environ["QWISP_SHADER_DIR"] = str(shaders)

    from qwisp_native.testing import load_kernel_image

    if os.environ.get("QWISP_DEVICE", "cpu") == "cpu":
        load_kernel_image(str(build_image(shaders, folder)))
    return fault


def run(name: str, gates: list[str]) -> dict[str, str | None]:
    """What each gate tells, as `first_differences` has it."""
    with tempfile.TemporaryDirectory() as temporary:
        fault = plant_device(name, Path(temporary))

        import qwisp_native as qn
        from qwisp_native.gates import GATES, Context

        context = Context(qn.Device())
        told: dict[str, str | None] = {}
        for gate in gates:
            try:
                told[gate] = first_differences(GATES[gate].run(context), fault.variants)
            except qn.DeviceError as error:  # the device stopped the kernel: out of bounds, unwritten memory
                told[gate] = f"{type(error).__name__}: {error}"
        return told


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2:])))
