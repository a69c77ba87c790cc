"""Planted faults: each one turns the gates red that its file names, so that a green gate means something.

To add one: a file in tests/faults (tests/planted.py says what is in it); it runs here by itself.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import planted
import qwisp_native as qn
from qwisp_native.gates import GATES
from qwisp_native.settings import VARIANTS

FAULTS = sorted(path.stem for path in planted.FAULTS.glob("*.toml"))


def gates_on(fault: str, gates: tuple[str, ...], device: qn.Device) -> dict[str, str | None]:
    script = Path(planted.__file__)
    ran = subprocess.run(
        [sys.executable, str(script), fault, *gates],
        env=os.environ | {"QWISP_DEVICE": device.kind},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return dict(json.loads(ran.stdout))


def test_nothing_planted_is_green(device: qn.Device) -> None:
    """The way through a compiled image is no fault of its own."""
    gates = ("ga-golden", "gc-bias-scores", "gc-diag")
    assert gates_on("", gates, device) == dict.fromkeys(gates)


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_red(name: str, device: qn.Device) -> None:
    fault = planted.Fault.load(name)
    if fault.kind not in {"", device.kind}:
        pytest.skip(f"planted on {fault.kind} only")
    told = gates_on(name, fault.gates, device)
    green = [gate for gate in fault.gates if told[gate] is None]
    assert not green, f"{fault.summary} {green} did not notice"
    for text in told.values() if fault.seeds else ():
        seed = re.search(r"seed (\d+): ", text or "")
        assert seed is not None, text
        assert int(seed[1]) < fault.seeds, text


@pytest.mark.parametrize("name", FAULTS)
def test_patches_apply(name: str, tmp_path: Path) -> None:
    """Exactly as often as the file says: a shader that moves on brings its faults along."""
    fault = planted.Fault.load(name)
    fault.plant(tmp_path)
    assert fault.patches
    assert set(fault.variants) <= set(VARIANTS)
    assert set(fault.gates) <= set(GATES)
