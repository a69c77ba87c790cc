"""The engine beside mlx-lm's Qwen3-MoE, on the same files: the model is one that others run too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lossless_model
import qwisp_native as qn
from qwisp_native.lossless import load_model
from qwisp_native.lossless.engine import Engine
from qwisp_native.lossless.gate import device_routing
from qwisp_native.lossless.plan import OFF, Case
from qwisp_native.lossless.residency import Residency, Setting

pytest.importorskip("mlx_lm", reason="needs mlx and mlx-lm: pip install qwisp_native[mlx]")

pytestmark = pytest.mark.mlx
TEXT = b"for row in rows: total += row.size\n"


def test_logits_are_near_those_of_mlx_lm(device: qn.Device, tmp_path: Path) -> None:
    """In float32 both; the router's input and scores are float16 here, so that some choices differ."""
    import mlx.core as mx
    from mlx.utils import tree_map
    from mlx_lm.utils import load_model as mlx_load

    lossless_model.write(tmp_path)
    theirs, _ = mlx_load(tmp_path)
    theirs.update(
        tree_map(lambda a: a.astype(mx.float32) if a.dtype == mx.float16 else a, theirs.parameters())
    )
    want = np.array(theirs(mx.array([list(TEXT)]))[0])

    model = load_model(tmp_path)
    gates = [qn.Gate.from_weights(device, weights) for weights in model.gates.values()]
    case = Case("code", Setting(), OFF, speculative=False, telemetry=False)
    routing = device_routing(gates, model.config, case, Residency(256, False, 64), len(TEXT))
    engine = Engine(model, routing, len(TEXT))
    got = np.concatenate([engine.step(TEXT[i : i + 1]) for i in range(len(TEXT))])
    distance = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
    assert np.median(distance) < 2e-3
