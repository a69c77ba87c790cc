"""The safetensors files of a checkpoint: which there are, what they hold, one tensor at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class TensorEntry:
    """What a file's header says about one tensor."""

    name: str
    file: Path
    dtype: str  # as safetensors spells it: U32, F16, BF16, ...
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


@dataclass(frozen=True)
class CheckpointFiles:
    """Where a checkpoint's parts lie; `names` is the index's map from tensor to file, if there is one."""

    path: Path
    tensors: tuple[Path, ...]
    names: dict[str, Path] | None
    config: Path | None


def find_files(path: Path) -> CheckpointFiles:
    """Find the parts of a folder, a single .safetensors file, or the index of a sharded checkpoint."""
    if path.is_dir():
        if (path / INDEX).is_file():
            return _from_index(path, path / INDEX)
        tensors = tuple(sorted(path.glob("model*.safetensors")))
        if not tensors:
            raise FileNotFoundError(f"{path}: neither {INDEX} nor model*.safetensors in this folder")
        return CheckpointFiles(path, tensors, None, _config_beside(path))
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder (a model on a hub must be downloaded first)")
    if path.name.endswith(".safetensors"):
        return CheckpointFiles(path, (path,), None, _config_beside(path.parent))
    if path.name.endswith(".index.json"):
        return _from_index(path, path)
    raise ValueError(f"{path}: expected a folder, a .safetensors file or a .safetensors.index.json file")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; anything else is a ValueError that names the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # bad JSON and bad UTF-8 are both ValueErrors
        raise ValueError(f"{path}: not a JSON file: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: a JSON {type(value).__name__}, expected an object")
    return value


def read_header(file: Path, wanted: frozenset[str] | None = None) -> dict[str, TensorEntry]:
    """List the tensors of one file (all, or those of `wanted`) from its header alone."""
    entries = {}
    with _opened(file) as handle:
        names = frozenset(handle.keys())
        for name in sorted(names if wanted is None else names & wanted):
            part = handle.get_slice(name)
            entries[name] = TensorEntry(name, file, part.get_dtype(), tuple(part.get_shape()))
    return entries


def read_tensors(entries: list[TensorEntry]) -> dict[str, NDArray[Any]]:
    """Read the data of these tensors and of no others, each file opened once."""
    by_file: dict[Path, list[str]] = {}
    for entry in entries:
        by_file.setdefault(entry.file, []).append(entry.name)
    arrays = {}
    for file, names in by_file.items():
        with _opened(file) as handle:
            for name in names:
                arrays[name] = np.ascontiguousarray(handle.get_tensor(name))
    return arrays


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    if not file.is_file():
        raise FileNotFoundError(f"{file}: missing (the checkpoint names it; is the download complete?)")
    try:
        with safe_open(str(file), framework="numpy") as handle:
            yield handle
    except SafetensorError as error:
        raise ValueError(
            f"{file}: not a readable safetensors file, damaged or cut short ({error})"
        ) from error


def _from_index(path: Path, index: Path) -> CheckpointFiles:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(f"{index}: no weight_map, expected an object from tensor name to file name")
    names = {}
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str) or not shard or Path(shard).name != shard:
            raise ValueError(
                f"{index}: {tensor} lies in {shard!r}, expected the name of a file beside the index"
            )
        names[tensor] = index.parent / shard
    tensors = tuple(sorted(set(names.values())))
    return CheckpointFiles(path, tensors, names, _config_beside(index.parent))


def _config_beside(folder: Path) -> Path | None:
    config = folder / "config.json"
    return config if config.is_file() else None
