"""Faults in the shaders turn the gate of qwisp_native.lossless red, in the variants that have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import qwisp_native as qn

SCRIPT = Path(__file__).with_name("planted_lossless.py")


@pytest.mark.parametrize(
    ("fault", "routes"),
    [
        ("", set()),
        ("lower_index_keys", {"single", "last", "split_pair", "split_last"}),
        ("missing_counter_reset", {"last"}),
        ("bias_grows_by_row", {"single", "last"}),
    ],
)
def test_planted_fault_is_red(fault: str, routes: set[str], device: qn.Device) -> None:
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), fault],
        env=os.environ | {"QWISP_DEVICE": device.kind},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    told = json.loads(ran.stdout)
    assert set(told) == routes, told
