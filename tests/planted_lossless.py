"""A small gate of qwisp_native.lossless on shaders with a planted fault: `planted_lossless.py FAULT`.

In a process of its own, because the shaders of a process are chosen once (tests/planted.py).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import lossless_model
import planted

PROMPT = b"x = a + b\n"


def run(name: str) -> dict[str, str]:
    """Route -> its first difference."""
    with tempfile.TemporaryDirectory() as temporary:
        planted.plant_device(name, Path(temporary))

        import qwisp_native as qn
        from qwisp_native.lossless import Gate, load_model

        model = load_model(lossless_model.write(Path(temporary), twins=True))
        gate = Gate(qn.Device(), model, tokens=8, period=16, prompts={"code": PROMPT})
        gate.groups = gate.groups[:2]  # resident, bias off and on
        told: dict[str, str] = {}
        for failure in gate.run().failures:
            told.setdefault(failure.case.route, f"{failure.case.decoding}: {failure.detail}")
        return told


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1])))
