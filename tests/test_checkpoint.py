"""Loading router gates. Good checkpoints first, then one test a kind of fault."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

import gate_files as gf
from qwisp_native.checkpoint import Checkpoint, load_gates

PREFIXES = {
    "qwen3_moe": "model",
    "qwen3_next": "model",
    "qwen3_5_moe": "language_model.model",
    "hub names": "model.language_model",
}


def assert_holds(checkpoint: Checkpoint, tensors: gf.Tensors) -> None:
    modules = gf.gate_modules(tensors)
    assert [weights.name for weights in checkpoint.values()] == modules
    for weights in checkpoint.values():
        assert (weights.experts, weights.hidden) == (gf.EXPERTS, gf.HIDDEN)
        for part in gf.PARTS:
            expected = tensors[f"{weights.name}.{part}"]
            found = getattr(weights, part)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("model", PREFIXES)
def test_prefixes(tmp_path: Path, model: str) -> None:
    tensors = gf.gate_tensors(prefix=PREFIXES[model])
    config = dict(gf.CONFIG, quantization=gf.quantization(gf.gate_modules(tensors)))
    checkpoint = load_gates(gf.write(tmp_path, tensors, config))
    assert_holds(checkpoint, tensors)
    assert list(checkpoint) == [0, 1]
    assert (checkpoint.top_k, checkpoint.norm_topk_prob) == (gf.TOP_K, True)
    assert checkpoint.config == config


@pytest.mark.parametrize("shards", [1, 2, 7])
@pytest.mark.parametrize("way", ["folder", "str", "file"])
def test_files(tmp_path: Path, shards: int, way: str) -> None:
    tensors = gf.gate_tensors()
    folder = gf.write(tmp_path, tensors, gf.CONFIG, shards)
    file = folder / ("model.safetensors" if shards == 1 else "model.safetensors.index.json")
    paths: dict[str, Path | str] = {"folder": folder, "str": str(folder), "file": file}
    assert_holds(load_gates(paths[way]), tensors)


def test_shards_without_an_index(tmp_path: Path) -> None:
    tensors = gf.gate_tensors()
    folder = gf.write(tmp_path, tensors, gf.CONFIG, shards=3)
    (folder / "model.safetensors.index.json").unlink()
    assert_holds(load_gates(folder), tensors)


def test_only_the_shards_with_gates_are_opened(tmp_path: Path) -> None:
    tensors = gf.gate_tensors()
    folder = gf.write(tmp_path, tensors, gf.CONFIG)
    weight_map = dict.fromkeys(tensors, "model.safetensors") | {
        "lm_head.weight": "not-downloaded.safetensors"
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert_holds(load_gates(folder), tensors)


def test_nested_text_config(tmp_path: Path) -> None:
    tensors = gf.gate_tensors(prefix="language_model.model")
    text = {k: v for k, v in gf.CONFIG.items() if k != "norm_topk_prob"} | {"model_type": "qwen3_5_moe_text"}
    config = {"model_type": "qwen3_5_moe", "text_config": text}
    config["quantization"] = gf.quantization(gf.gate_modules(tensors))
    checkpoint = load_gates(gf.write(tmp_path, tensors, config))
    assert_holds(checkpoint, tensors)
    assert checkpoint.top_k == gf.TOP_K
    assert checkpoint.norm_topk_prob is True  # the model always renormalises, its config has no such key


def test_without_a_config_the_norm_gives_the_hidden_size(tmp_path: Path) -> None:
    tensors = gf.gate_tensors()
    checkpoint = load_gates(gf.write(tmp_path, tensors) / "model.safetensors")
    assert_holds(checkpoint, tensors)
    assert (checkpoint.top_k, checkpoint.norm_topk_prob, checkpoint.config) == (None, None, {})


def test_layers_keep_their_numbers(tmp_path: Path) -> None:
    tensors = gf.gate_tensors(layers=(10, 2, 3))
    tensors |= {name.replace("model.layers.3", "mtp.layers.0"): a for name, a in tensors.items()}
    checkpoint = load_gates(gf.write(tmp_path, tensors, gf.CONFIG))
    assert list(checkpoint) == [2, 3, 10]
    assert checkpoint[10].name == "model.layers.10.mlp.gate"
    with pytest.raises(KeyError, match=r"layer 4: .* only in layers 2-3, 10"):
        checkpoint[4]
    assert "layers 2-3, 10, top_k=4" in repr(checkpoint)


@pytest.mark.parametrize(("model_type", "implied"), [("qwen3_moe", False), ("qwen3_5_moe", True)])
def test_norm_topk_prob_left_out(tmp_path: Path, model_type: str, implied: bool) -> None:
    config = {k: v for k, v in gf.CONFIG.items() if k != "norm_topk_prob"} | {"model_type": model_type}
    checkpoint = load_gates(gf.write(tmp_path, gf.gate_tensors(), config))
    assert checkpoint.norm_topk_prob is implied


def test_scores_that_are_not_renormalised_load_and_are_not_routed(tmp_path: Path) -> None:
    checkpoint = load_gates(gf.write(tmp_path, gf.gate_tensors(), dict(gf.CONFIG, norm_topk_prob=False)))
    assert checkpoint.norm_topk_prob is False
    with pytest.raises(ValueError, match=r"model.layers.1.mlp.gate: norm_topk_prob is false"):
        checkpoint[1].require_renormalized()


Raw = dict[str, tuple[str, list[int], int]]
GATE = "model.layers.0.mlp.gate"


def raw_gate(**parts: tuple[str, list[int], int] | None) -> Raw:
    """Headers of one 8-bit gate; a part may be replaced or, with None, left out."""
    e, h = gf.EXPERTS, gf.HIDDEN
    scale = ("F16", [e, h // 64], 2)
    whole: dict[str, Any] = {"weight": ("U32", [e, h // 4], 4), "scales": scale, "biases": scale}
    return {f"{GATE}.{part}": entry for part, entry in (whole | parts).items() if entry is not None}


E, H = gf.EXPERTS, gf.HIDDEN
BAD_GATES: dict[str, tuple[Raw, str]] = {
    "bfloat16 scales": (
        raw_gate(scales=("BF16", [E, H // 64], 2), biases=("BF16", [E, H // 64], 2)),
        r"gate.scales: BF16 \[16, 8\], expected F16 \(float16\).*mlx_lm.convert .*--dtype float16",
    ),
    "bfloat16 biases": (raw_gate(biases=("BF16", [E, H // 64], 2)), r"gate.biases: BF16"),
    "float32 scales": (
        raw_gate(scales=("F32", [E, H // 64], 4)),
        r"gate.scales: F32 \[16, 8\], expected F16",
    ),
    "uint8 scales": (raw_gate(scales=("U8", [E, H // 64], 1)), r"gate.scales: U8"),
    "int32 weight": (raw_gate(weight=("I32", [E, H // 4], 4)), r"gate.weight: I32 .*expected U32"),
    "4 bits": (raw_gate(weight=("U32", [E, H // 8], 4)), r"gate: 4 bits in groups of 64, the contract"),
    "6 bits": (raw_gate(weight=("U32", [E, H * 6 // 32], 4)), r"gate: 6 bits in groups of 64"),
    "groups of 32": (
        raw_gate(scales=("F16", [E, H // 32], 2), biases=("F16", [E, H // 32], 2)),
        r"gate: 8 bits in groups of 32",
    ),
    "groups of 128": (
        raw_gate(scales=("F16", [E, H // 128], 2), biases=("F16", [E, H // 128], 2)),
        r"gate: 8 bits in groups of 128",
    ),
    "4 bits in groups of 128": (
        raw_gate(
            weight=("U32", [E, H // 8], 4), scales=("F16", [E, H // 128], 2), biases=("F16", [E, H // 128], 2)
        ),
        r"gate: 4 bits in groups of 128",
    ),
    "not quantised": (
        raw_gate(weight=("BF16", [E, H], 2), scales=None, biases=None),
        r"gate.weight: not quantised \(BF16 \[16, 512\]\).*mlx_lm.convert",
    ),
    "another hidden size": (raw_gate(weight=("U32", [E, 100], 4)), r"fit no bits .* with hidden size 512"),
    "scales of other experts": (
        raw_gate(scales=("F16", [8, H // 64], 2), biases=("F16", [8, H // 64], 2)),
        r"weight \[16, 128\], scales \[8, 8\].*one row an expert",
    ),
    "biases unlike scales": (
        raw_gate(biases=("F16", [E, 4], 2)),
        r"biases \[16, 4\].*equal scales and biases",
    ),
    "three dimensions": (
        raw_gate(weight=("U32", [E, 2, H // 8], 4)),
        r"gate.weight: U32 \[16, 2, 64\], expected",
    ),
    "no experts": (
        raw_gate(
            weight=("U32", [0, H // 4], 4), scales=("F16", [0, H // 64], 2), biases=("F16", [0, H // 64], 2)
        ),
        r"gate.weight: U32 \[0, 128\], expected two dimensions, neither of them 0",
    ),
    "no weight": (raw_gate(weight=None), r"gate.weight: missing, though biases and scales"),
    "no scales": (raw_gate(scales=None), r"gate.scales: missing"),
    "no biases": (raw_gate(biases=None), r"gate.biases: missing"),
    "a linear bias": (raw_gate() | {f"{GATE}.bias": ("F16", [E], 2)}, r"gate.bias: .*routes in another way"),
    "a correction bias": (
        raw_gate() | {f"{GATE}.e_score_correction_bias": ("F32", [E], 4)},
        r"e_score_correction_bias: .*routes in another way",
    ),
    "no gates": ({"model.layers.0.mlp.gate_proj.weight": ("F16", [2, 2], 2)}, r"no router gates; looked for"),
    "two gates for a layer": (
        raw_gate()
        | {f"language_{name}".replace("model", "model.model", 1): v for name, v in raw_gate().items()},
        r"layer 0 has two gates",
    ),
}


@pytest.mark.parametrize("case", BAD_GATES)
def test_gates_that_are_refused(tmp_path: Path, case: str) -> None:
    raw, message = BAD_GATES[case]
    folder = gf.write_raw(tmp_path / "model.safetensors", raw).parent
    (folder / "config.json").write_text(json.dumps(gf.CONFIG))
    with pytest.raises(ValueError, match=message):
        load_gates(folder)


def test_the_shapes_alone_do_not_tell_the_bits(tmp_path: Path) -> None:
    file = gf.write_raw(tmp_path / "gates.safetensors", raw_gate())
    with pytest.raises(ValueError, match=r"do not tell the bits.*put the model's config.json beside"):
        load_gates(file)


BAD_CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "another model": ({"model_type": "deepseek_v3"}, r"model_type 'deepseek_v3' is not known.*qwen3_moe"),
    "model type of no kind": ({"model_type": ["qwen3_moe"]}, r"model_type \['qwen3_moe'\] is not known"),
    "experts": ({"num_experts": 32}, r"16 rows, config.json says num_experts 32"),
    "hidden": ({"hidden_size": 1024}, r"4 bits in groups of 128"),
    "hidden, no fit": ({"hidden_size": 768}, r"fit no bits and group size with hidden size 768"),
    "top-k": ({"num_experts_per_tok": 17}, r"16 experts, config.json says num_experts_per_tok 17"),
    "top-k 0": ({"num_experts_per_tok": 0}, r"num_experts_per_tok is 0, expected a positive integer"),
    "top-k text": ({"num_experts_per_tok": "4"}, r"num_experts_per_tok is '4', expected a positive integer"),
    "top-k true": (
        {"num_experts_per_tok": True},
        r"num_experts_per_tok is True, expected a positive integer",
    ),
    "norm": ({"norm_topk_prob": "yes"}, r"norm_topk_prob is 'yes', expected true or false"),
    "text_config": ({"text_config": [1]}, r"text_config is \[1\], expected an object"),
    "quantization": ({"quantization": 8}, r"quantization is 8, expected an object"),
    "bits": ({"quantization": {"bits": 4, "group_size": 64}}, r"says bits 4, the shapes .* say 8"),
    "group": ({"quantization": {"bits": 8, "group_size": 32}}, r"says group_size 32, .* say 64"),
    "override bits": (
        {"quantization": gf.quantization([GATE], bits=6)},
        r"quantization\['model.layers.0.mlp.gate'\] says bits 6",
    ),
    "override group": ({"quantization": gf.quantization([GATE], group_size=128)}, r"says group_size 128"),
    "override of another layer only": (
        {"quantization": gf.quantization(["model.layers.1.mlp.gate"])},
        r"model.layers.0.mlp.gate: quantization says bits 4",
    ),
    "mode": ({"quantization": {"mode": "mxfp8", "bits": 8}}, r"quantization says mode 'mxfp8'"),
    "override false": ({"quantization": {GATE: False}}, r"says it is not quantised, its tensors say 8 bits"),
    "override of no kind": ({"quantization": {GATE: 8}}, r"quantization of model.layers.0.mlp.gate is 8"),
    "legacy block": ({"quantization_config": {"bits": 4}}, r"says bits 4"),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_configs_that_are_refused(tmp_path: Path, case: str) -> None:
    change, message = BAD_CONFIGS[case]
    folder = gf.write(tmp_path, gf.gate_tensors(), gf.CONFIG | change)
    with pytest.raises(ValueError, match=message):
        load_gates(folder)


def test_an_override_may_leave_keys_out(tmp_path: Path) -> None:
    block = {"bits": 4, "group_size": 64, GATE: {"bits": 8}, "model.layers.1.mlp.gate": True}
    tensors = gf.gate_tensors()
    assert_holds(load_gates(gf.write(tmp_path, tensors, dict(gf.CONFIG, quantization=block))), tensors)


@pytest.mark.parametrize("cut", [0, 4, 40, -1])
def test_cut_short(tmp_path: Path, cut: int) -> None:
    file = gf.write(tmp_path, gf.gate_tensors(), gf.CONFIG) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"model.safetensors: not a readable safetensors file"):
        load_gates(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"shape":[16,128]', b'"shape":[16,129]'),
        (b'"shape":[16,128]', b'"shape":[9999999999999,128]'),
        (b'"dtype":"U32"', b'"dtype":"Q77"'),
        (b'"data_offsets":[', b'"data_offsets":[-'),
        (b'{"', b"{{"),
    ],
)
def test_lying_headers(tmp_path: Path, old: bytes, new: bytes) -> None:
    file = gf.write(tmp_path, gf.gate_tensors(), gf.CONFIG) / "model.safetensors"
    whole = file.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = whole[8 : 8 + length].replace(old, new, 1)
    file.write_bytes(len(header).to_bytes(8, "little") + header + whole[8 + length :])
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        load_gates(tmp_path)


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff\xfe{}", b"null"])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
def test_bad_json(tmp_path: Path, name: str, text: bytes) -> None:
    folder = gf.write(tmp_path, gf.gate_tensors(), gf.CONFIG, shards=2)
    (folder / name).write_bytes(text)
    with pytest.raises(ValueError, match=rf"{name}: "):
        load_gates(folder)


def sharded(tmp_path: Path, **changes: Any) -> Path:
    """Write two shards; the changes go into the weight_map (None takes a name out)."""
    folder = gf.write(tmp_path, gf.gate_tensors(), gf.CONFIG, shards=2)
    index = folder / "model.safetensors.index.json"
    weight_map = json.loads(index.read_text())["weight_map"] | changes
    weight_map = {name: shard for name, shard in weight_map.items() if shard is not None}
    index.write_text(json.dumps({"weight_map": weight_map}))
    return folder


def test_missing_shard(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model-00002-of-00002.safetensors: missing .*download"):
        load_gates(folder)


def test_a_tensor_that_the_index_leaves_out(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gate.scales: missing"):
        load_gates(sharded(tmp_path, **{f"{GATE}.scales": None}))


def test_a_tensor_that_its_shard_does_not_hold(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    weight_map = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    other = next(shard for shard in weight_map.values() if shard != weight_map[f"{GATE}.weight"])
    with pytest.raises(ValueError, match=rf"gate.weight: the index places it in .*{other}, which"):
        load_gates(sharded(folder, **{f"{GATE}.weight": other}))


@pytest.mark.parametrize("shard", ["../model.safetensors", "/etc/passwd", "", 3])
def test_an_index_that_points_outside(tmp_path: Path, shard: Any) -> None:
    with pytest.raises(ValueError, match=r"expected the name of a file beside the index"):
        load_gates(sharded(tmp_path, **{f"{GATE}.weight": shard}))


def test_an_index_without_a_map(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    (folder / "model.safetensors.index.json").write_text('{"metadata": {}}')
    with pytest.raises(ValueError, match=r"no weight_map"):
        load_gates(folder)


def test_the_same_gate_in_two_files(tmp_path: Path) -> None:
    folder = gf.write(tmp_path, gf.gate_tensors(), gf.CONFIG)
    shutil.copy(folder / "model.safetensors", folder / "model-copy.safetensors")
    with pytest.raises(ValueError, match=r"in two files"):
        load_gates(folder)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file or folder .*downloaded first"):
        load_gates("some-owner/some-model")
    with pytest.raises(FileNotFoundError, match=r"neither model.safetensors.index.json nor "):
        load_gates(tmp_path)
    (tmp_path / "model.npz").touch()
    with pytest.raises(ValueError, match=r"expected a folder, a .safetensors file"):
        load_gates(tmp_path / "model.npz")


def test_expert_weights_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from qwisp_native.checkpoint import files

    read: list[str] = []

    class Spy:
        """A file that notes which tensors are asked for."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.file = safe_open(*args, **kwargs)

        def __enter__(self) -> Spy:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def get_tensor(self, name: str) -> Any:
            read.append(name)
            return self.file.get_tensor(name)

    monkeypatch.setattr(files, "safe_open", Spy)
    load_gates(gf.write(tmp_path, gf.gate_tensors(), gf.CONFIG))
    assert sorted(read) == sorted(f"model.layers.{i}.mlp.gate.{part}" for i in (0, 1) for part in gf.PARTS)
