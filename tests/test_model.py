"""The small model of `qwisp-native lossless`: its files, its scripts, and other libraries' routing of it."""

from __future__ import annotations

import json
import lzma
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import folder as model_folder
import order2
import qwisp_native as qn
import tool_text

ROOT = Path(__file__).parents[1]
DATA = Path(qn.__file__).parent / "lossless" / "data"
HIDDEN, EXPERTS, TOP_K = 512, 256, 8


def repository_text(size: int) -> list[bytes]:
    """Prose, code and tables that are always at hand."""
    files = ("README.md", "docs/numerics.md", "tests/conftest.py", "shaders/route_types.h")
    return [(ROOT / name).read_bytes()[:size] for name in files]


# ---- the files


def test_the_package_holds_the_model() -> None:
    """An installed wheel does too: DATA is the imported package's."""
    files = {path.name: path.stat().st_size for path in DATA.iterdir()}
    assert {"config.json", "model.safetensors", "training.json"} <= set(files)
    assert sum(files.values()) <= 9_000_000


def test_its_files_are_what_the_scripts_write() -> None:
    config = json.loads((DATA / "config.json").read_text())
    layers, inner = config["num_hidden_layers"], config["moe_intermediate_size"]
    assert config == model_folder.config(layers, inner)
    held = load_file(DATA / "model.safetensors")
    again = model_folder.quantized(model_folder.dequantized(held))
    assert set(again) == set(held)
    parts = ("weight", "scales", "biases")
    for layer in range(layers):
        for name in ("self_attn.q_proj", "self_attn.o_proj", "mlp.gate", "mlp.switch_mlp.up_proj"):
            kinds = [held[f"model.layers.{layer}.{name}.{part}"].dtype.name for part in parts]
            assert kinds == ["uint32", "float16", "float16"], name
        assert held[f"model.layers.{layer}.mlp.switch_mlp.down_proj.weight"].dtype == np.float16
    for name, value in model_folder.dequantized(held).items():
        assert np.isfinite(value).all(), name


def test_the_package_reads_its_gates(device: qn.Device) -> None:
    checkpoint = qn.load_gates(DATA)
    assert (checkpoint.top_k, checkpoint.norm_topk_prob) == (TOP_K, True)
    for gate in checkpoint.values():
        assert (gate.experts, gate.hidden) == (EXPERTS, HIDDEN)
    x = np.random.default_rng(0).standard_normal((3, HIDDEN)).astype(np.float16)
    inds, _ = checkpoint.router(device, 0)(x)
    assert inds.shape == (3, TOP_K)


def test_it_predicts_better_than_an_order_2_model() -> None:
    told = json.loads((DATA / "training.json").read_text())
    bits = told["bits_per_byte"]
    for kind, order_2 in bits["order_2"].items():
        assert bits["quantised"][kind] < order_2, kind
    assert abs(bits["quantised"]["all"] - bits["float"]["all"]) < 0.01
    assert told["log"]["rows"][-1][0] == told["recipe"]["steps"]
    assert len(told["corpus"]["sha256"]) == 64


def test_no_expert_is_alone_and_few_are_idle() -> None:
    """Of the training's last tenth: a router that collapsed would tell nothing about ties."""
    load = json.loads((DATA / "training.json").read_text())["load"]
    assert max(load["largest"]) < 0.5
    assert min(load["smallest"]) > 0


# ---- the scripts


def test_order_2_has_its_literal_meaning() -> None:
    train, held = b"abracadabra, abracadabra; and so on: banana!", b"abra cadabra? banana"
    counts = [Counter((train[i - k : i], train[i]) for i in range(2, len(train))) for k in range(3)]

    def chance(history: bytes, byte: int) -> float:
        shorter = chance(history[1:], byte) if history else 1 / 256
        seen = {c: n for (h, c), n in counts[len(history)].items() if h == history}
        n, t = sum(seen.values()), len(seen)
        return (seen.get(byte, 0) + t * shorter) / (n + t) if n else shorter

    bits = [-math.log2(chance(held[i - 2 : i], held[i])) for i in range(2, len(held))]
    arrays = (np.frombuffer(text, np.uint8) for text in (train, held))
    found = order2.order2_bits(next(arrays), {"held": next(arrays)})
    assert found["held"] == pytest.approx(sum(bits) / len(bits), rel=1e-12)
    total = sum(chance(b"ab", byte) for byte in range(256))
    assert total == pytest.approx(1)


def test_tool_text_is_the_seeds_own_and_its_json_is_json() -> None:
    first, again = (tool_text.tool_documents(5, 20) for _ in range(2))
    assert first == again != tool_text.tool_documents(6, 20)
    for text in first:
        lines = text.decode().splitlines()
        calls = [json.loads(lines[i + 1]) for i, line in enumerate(lines) if line == "<tool_call>"]
        answers = [json.loads(lines[i + 1]) for i, line in enumerate(lines) if line == "<tool_response>"]
        assert len(calls) == len(answers) >= 2
        assert all(set(call) == {"name", "arguments"} for call in calls)


def test_training_writes_a_folder_that_can_be_read(tmp_path: Path) -> None:
    """Two steps on a little text: the whole way from a corpus to a checkpoint."""
    pytest.importorskip("torch", reason="needs torch: pip install torch")
    kinds = [b"".join(text + b"\0" for text in repository_text(2000) * 10) for _ in range(5)]
    (tmp_path / "corpus.xz").write_bytes(lzma.compress(b"\0".join(kinds), preset=0))
    command = [sys.executable, ROOT / "tests/model/train.py", "--corpus", tmp_path / "corpus.xz"]
    command += ["--out", tmp_path / "model", "--steps", "5", "--batch", "1", "--context", "32"]
    subprocess.run([*map(str, command), "--held-bytes", "100"], check=True, capture_output=True)
    assert len(qn.load_gates(tmp_path / "model")) == 2
    told = json.loads((tmp_path / "model" / "training.json").read_text())
    assert told["recipe"]["steps"] == 5
    assert told["bits_per_byte"]["quantised"]["all"] < 9
    assert not list((tmp_path / "model").glob("*.part"))


# ---- other libraries


def test_the_trained_network_is_qwen3_moe() -> None:
    """What train.py computes and what transformers makes of the file are one function."""
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    import agreement
    import network

    ours = network.Model(json.loads((DATA / "config.json").read_text()))
    network.load_weights(ours, model_folder.dequantized(load_file(DATA / "model.safetensors")))
    theirs = agreement.transformers_model(DATA)
    for text in repository_text(257):
        tokens = torch.tensor(list(text))[None]
        with torch.no_grad():
            mine = ours(tokens[:, :-1], tokens[:, 1:])[0].item()
            logits = theirs(tokens[:, :-1]).logits
            want = torch.nn.functional.cross_entropy(logits[0], tokens[0, 1:]).item()
        assert mine == pytest.approx(want, abs=1e-4)


def test_transformers_chooses_the_same_experts(device: qn.Device) -> None:
    """Of rows rounded to float16 only what is tied, or rounds to a tie, may be chosen otherwise."""
    pytest.importorskip("torch", reason="needs torch: pip install torch")
    pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    import agreement

    model = agreement.transformers_model(DATA)
    rows = agreement.router_rows(model, repository_text(512))
    found, stats = agreement.agreements(DATA, device, rows, [agreement.in_transformers(model)])
    assert all(each.rows == 4 * 512 for each in stats.each)
    for each in found:
        assert each.same[each.apart > 1].all(), each.line()
        assert each.same[each.apart > 0].mean() > 0.999, each.line()


@pytest.mark.mlx
def test_mlx_lm_generates_and_chooses_the_same_experts(device: qn.Device) -> None:
    pytest.importorskip("mlx_lm", reason="needs mlx and mlx-lm: pip install qwisp_native[mlx]")
    import mlx.core as mx
    import mlx_lm

    import agreement
    import mlx_checkpoint as mc

    model, tokenizer = mlx_lm.load(str(DATA))[:2]
    model.set_dtype(mx.float32)  # MLX's CPU device gathers float32 alone
    text = repository_text(64)  # MLX adds up float16 slowly on a CPU
    assert tokenizer.encode(text[0].decode()) == list(text[0])
    written = mlx_lm.generate(model, tokenizer, prompt="    def __init__(self", max_tokens=60)
    assert written.isascii()
    assert len(written.split()) > 3, written

    rows = [
        np.concatenate(each) for each in zip(*(mc.router_rows(model, part) for part in text), strict=True)
    ]
    found, _ = agreement.agreements(DATA, device, rows, [agreement.in_mlx(DATA)])
    assert len(found) == 2 * len(rows)
    for each in found:
        if each.peer == "mlx-lm, float32":
            assert each.same[each.apart > 1].all(), each.line()
        else:  # MLX's CPU device adds float16 products in float16: see test_mlx_lm.py
            assert each.same[each.apart > 40].all(), each.line()


@pytest.mark.mlx
def test_the_weights_mean_what_mlx_takes_them_for() -> None:
    mx = pytest.importorskip("mlx.core", reason="needs mlx: pip install qwisp_native[mlx]")
    held = load_file(DATA / "model.safetensors")
    ours = model_folder.dequantized(held)
    for name in ("model.embed_tokens", "model.layers.0.mlp.gate", "model.layers.1.mlp.switch_mlp.gate_proj"):
        parts = [mx.array(held[f"{name}.{part}"]) for part in ("weight", "scales", "biases")]
        wide = [parts[0], *(part.astype(mx.float32) for part in parts[1:])]
        theirs = np.array(mx.dequantize(*wide, group_size=64, bits=8))
        np.testing.assert_allclose(ours[f"{name}.weight"], theirs, rtol=0, atol=1e-6)
