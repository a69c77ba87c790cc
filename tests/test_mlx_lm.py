"""Real checkpoints: mlx-lm makes and converts them, and its own routers are the reference."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import qwisp_native as qn
from qwisp_native.quantize import quantize
from qwisp_native.settings import VARIANTS, Variant

pytest.importorskip("mlx_lm", reason="needs mlx and mlx-lm: pip install qwisp_native[mlx]")
import mlx_checkpoint as mc

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.mlx


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mc.make_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def folder(source: Path) -> Path:
    return mc.make_checkpoint(source, source.with_name("converted"))


@pytest.fixture(scope="module")
def states(folder: Path) -> list[mc.RouterState]:
    return mc.route_text(folder)


def test_gates_are_the_files_own(source: Path, folder: Path) -> None:
    checkpoint = qn.load_gates(folder)
    assert list(checkpoint) == list(range(mc.LAYERS))
    assert (checkpoint.top_k, checkpoint.norm_topk_prob) == (mc.TOP_K, True)
    dense = mc.gate_weights(source)
    stored: dict[str, Any] = mc.load_tensors(folder)
    for weights in checkpoint.values():
        ours = quantize(dense[weights.name])
        for part in ("weight", "scales", "biases"):
            loaded = getattr(weights, part)
            assert loaded.tobytes() == np.array(stored[f"{weights.name}.{part}"]).tobytes()
            assert loaded.tobytes() == getattr(ours, part).tobytes()


def clear_rows(logits: np.ndarray, ulps: float) -> np.ndarray:
    """Rows whose choice is clear by more than `ulps` of float16 (of 1, for logits nearer to zero)."""
    best = -np.sort(-logits.astype(np.float32), axis=1)
    last_in, first_out = best[:, mc.TOP_K - 1], best[:, mc.TOP_K]
    ulp = np.spacing(np.maximum(np.abs(last_in), 1).astype(np.float16)).astype(np.float32)
    return last_in - first_out > ulps * ulp


def compare(
    inds: np.ndarray, scores: np.ndarray, choice: mc.Choice, rows: np.ndarray, tolerance: float
) -> None:
    assert (np.sort(inds[rows], axis=1) == np.sort(choice.inds[rows], axis=1)).all()
    ours = np.take_along_axis(scores[rows], np.argsort(inds[rows], axis=1), axis=1)
    theirs = np.take_along_axis(choice.scores[rows], np.argsort(choice.inds[rows], axis=1), axis=1)
    np.testing.assert_allclose(ours.astype(np.float32), theirs.astype(np.float32), rtol=0, atol=tolerance)


@pytest.mark.parametrize("variant", VARIANTS)
def test_expert_sets_equal_mlx_lm(
    device: qn.Device,
    folder: Path,
    states: list[mc.RouterState],
    variant: Variant,
    record_property: Callable[[str, object], None],
) -> None:
    """The contract breaks ties in its own order, so rows with a tie at the boundary are left out.

    Against the float32 block the margin covers float16 logits. Against the model's own float16 run it covers
    what MLX's float16 sums are off by: about 4 ulps, at the boundary never 20.
    """
    checkpoint = qn.load_gates(folder)
    compared = {"own": 0, "wide": 0}
    for layer, state in enumerate(states):
        router = checkpoint.router(device, layer, fuse=variant)
        assert router.plan(len(state.x)).variant == variant
        inds, scores = router(state.x)
        for name, choice, ulps, tolerance in (("own", state.own, 20, 2e-2), ("wide", state.wide, 2, 2e-3)):
            rows = clear_rows(choice.logits, ulps)
            compare(inds, scores, choice, rows, tolerance)
            compared[name] += int(rows.sum())
    total = sum(len(state.x) for state in states)
    for name, least in (("own", 0.5), ("wide", 0.9)):
        record_property(f"{name}_rows_compared", f"{compared[name]} of {total}")
        print(f"{variant}: {compared[name]} of {total} rows compared with the {name} block")
        assert compared[name] > least * total


def test_logits_equal_mlx_in_float32(device: qn.Device, folder: Path, states: list[mc.RouterState]) -> None:
    """Ours are float16 of a sum in another order: within half an ulp and what the order changes."""
    checkpoint = qn.load_gates(folder)
    for layer, state in enumerate(states):
        _, _, logits = checkpoint.router(device, layer)(state.x[:8], return_logits=True)
        error = np.abs(logits.astype(np.float32) - state.wide.logits[:8])
        ulp = np.spacing(np.maximum(np.abs(state.wide.logits[:8]), 2**-3).astype(np.float16)).astype(
            np.float32
        )
        assert (error <= 0.51 * ulp).all()


def test_bfloat16_checkpoints_are_refused(source: Path, tmp_path: Path) -> None:
    folder = mc.make_checkpoint(source, tmp_path / "bfloat16", dtype="bfloat16")
    with pytest.raises(ValueError, match=r"gate.scales: BF16 \[256, 8\], expected F16 .*--dtype float16"):
        qn.load_gates(folder)


def test_gates_of_other_bits_are_refused(source: Path, tmp_path: Path) -> None:
    folder = mc.make_checkpoint(source, tmp_path / "four", predicate=lambda *_: True)
    with pytest.raises(ValueError, match=r"mlp.gate: 4 bits in groups of 64, the contract covers 8 bits"):
        qn.load_gates(folder)


def test_models_that_are_not_quantised_are_refused(source: Path) -> None:
    with pytest.raises(
        ValueError, match=r"mlp.gate.weight: not quantised \(BF16 \[256, 512\]\).*mlx_lm.convert"
    ):
        qn.load_gates(source)


SMALL = {
    "hidden_size": 512,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "full_attention_interval": 2,
    "linear_num_value_heads": 2,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "partial_rotary_factor": 0.25,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "vocab_size": 256,
    "max_position_embeddings": 128,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "qwen3_next": SMALL | {"model_type": "qwen3_next", "norm_topk_prob": True},
    "qwen3_5_moe": {
        "model_type": "qwen3_5_moe",
        "text_config": SMALL | {"model_type": "qwen3_5_moe_text"},
    },
}


@pytest.mark.parametrize("model_type", CONFIGS)
def test_other_models_that_mlx_lm_writes(tmp_path: Path, model_type: str) -> None:
    from importlib import import_module

    module = import_module(f"mlx_lm.models.{model_type}")
    config = CONFIGS[model_type]
    model = module.Model(module.ModelArgs.from_dict(config))
    checkpoint = qn.load_gates(mc.make_quantized(tmp_path, model, config))
    prefix = "language_model.model" if model_type == "qwen3_5_moe" else "model"
    assert [weights.name for weights in checkpoint.values()] == [
        f"{prefix}.layers.{i}.mlp.gate" for i in (0, 1)
    ]
    assert (checkpoint[0].experts, checkpoint[0].hidden) == (16, 512)
    assert (checkpoint.top_k, checkpoint.norm_topk_prob) == (4, True)


def test_the_command_routes_it(folder: Path, states: list[mc.RouterState], tmp_path: Path) -> None:
    rows = clear_rows(states[1].wide.logits, 2)
    np.save(tmp_path / "x.npy", states[1].x[rows][:3])
    command = [sys.executable, "-m", "qwisp_native", "route", str(folder), "--layer", "1"]
    command += ["--x", str(tmp_path / "x.npy"), "--fuse", "last", "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert (found["experts"], found["hidden"], found["top_k"]) == (mc.EXPERTS, mc.HIDDEN, mc.TOP_K)
    assert found["plan"]["variant"] == "last"
    assert [sorted(row) for row in found["inds"]] == np.sort(states[1].wide.inds[rows][:3], axis=1).tolist()
