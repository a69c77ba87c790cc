"""The environment variables: each defined here, once, and read once (name, default, values, effect).

`docs/environment.md` is checked against VARIABLES, and `qwisp-native info` prints them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

Fuse: TypeAlias = bool | Literal["auto", "pair", "single", "last", "split_pair", "split_last"]
"""What a route may be asked to be; see docs/environment.md."""

Variant: TypeAlias = Literal["pair", "single", "last", "split_pair", "split_last"]
VARIANTS: tuple[Variant, ...] = ("pair", "single", "last", "split_pair", "split_last")
"""The ways to run a route, the incumbent first."""

_MAX_SEED = 2**63 - 1
MAX_THREADS = 64


@dataclass(frozen=True)
class Variable:
    """One environment variable. `field` names the Settings field that it fills; "" for those of the build."""

    name: str
    default: str
    values: str
    effect: str
    field: str = ""
    parse: Callable[[str], Any] = str

    @property
    def used_by(self) -> Literal["package", "build"]:
        """Who reads it: the package when it runs, or the build."""
        return "package" if self.field else "build"


def _choice(values: Mapping[str, Any]) -> Callable[[str], Any]:
    return lambda text: values[text]


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise ValueError
    return Path(text)


def _new_folder(text: str) -> Path:
    if "\0" in text or (Path(text).exists() and not Path(text).is_dir()):
        raise ValueError
    return Path(text)


def _integer(low: int, high: int, digits: int) -> Callable[[str], int]:
    """`digits` keeps int() from long texts, which it takes seconds for."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= digits and low <= int(text) <= high):
            raise ValueError
        return int(text)

    return parse


VARIABLES: tuple[Variable, ...] = (
    Variable(
        "QWISP_DEVICE",
        "",
        "cpu, cuda, metal",
        "the device of Device(); unset: the best that there is (an Apple GPU, else an NVIDIA one, else the"
        " processor)",
        "device",
        _choice({"cpu": "cpu", "cuda": "cuda", "metal": "metal"}),
    ),
    Variable(
        "QWISP_FUSE_ROUTE",
        "0",
        "0, 1, auto, single, last, split_pair, split_last",
        "the fuse of a call that leaves it open: 0 the pair, 1 fused where a variant exists, auto fused where"
        " it was measured to win, otherwise that variant",
        "fuse",
        _choice(
            {"0": False, "1": True, "auto": "auto"} | {name: name for name in VARIANTS if name != "pair"}
        ),
    ),
    Variable(
        "QWISP_CONTRACT",
        "off",
        "off, compiler",
        "floating-point contraction in every kernel: off as the contract has it, or as the shader compiler"
        " likes",
        "contract",
        _choice({"off": "off", "compiler": "compiler"}),
    ),
    Variable(
        "QWISP_SHADER_DIR",
        "",
        "a folder",
        "compile the shaders of this folder instead of those in the package (development)",
        "shader_dir",
        _folder,
    ),
    Variable(
        "QWISP_SIMT_SEED",
        "",
        f"0 to {_MAX_SEED}",
        "the software device runs the shaders, and takes from this seed every choice that Metal leaves a GPU:"
        " the order of threads and threadgroups, what others see of memory (docs/reliability.md)",
        "simt_seed",
        _integer(0, _MAX_SEED, digits=19),
    ),
    Variable(
        "QWISP_CPU_KERNELS",
        "",
        "avx512, avx2, neon, portable or simt",
        "what computes on the software device: vector kernels of one kind, or the shaders themselves; "
        "by default the best that the processor runs",
        "cpu_kernels",
        _choice({name: name for name in ("avx512", "avx2", "neon", "portable", "simt")}),
    ),
    Variable(
        "QWISP_CPU_THREADS",
        "",
        f"1 to {MAX_THREADS}",
        "threads that compute on the software device, the calling one included; "
        "by default as many as processors are available, 4 at most",
        "cpu_threads",
        _integer(1, MAX_THREADS, digits=3),
    ),
    Variable(
        "QWISP_CACHE_DIR",
        "",
        "a folder, made where it is missing",
        "where `qwisp-native tune` keeps its verdicts and the cuda device its compiled kernels; unset:"
        " qwisp_native in the user's cache folder",
        "cache_dir",
        _new_folder,
    ),
    Variable(
        "QWISP_METAL_CPP_DIR",
        "",
        "a folder",
        "build with these metal-cpp headers instead of those of the mlx-metal wheel",
    ),
)


@dataclass(frozen=True)
class Settings:
    """What the environment asks for. None: nothing."""

    device: Literal["cpu", "cuda", "metal"] | None
    fuse: Fuse
    contract: Literal["off", "compiler"]
    shader_dir: Path | None
    simt_seed: int | None
    cpu_kernels: str | None
    cpu_threads: int | None
    cache_dir: Path | None


def read(environment: Mapping[str, str]) -> Settings:
    """The settings of an environment; an empty variable counts as unset.

    Raises:
        ValueError: a variable has a value that it cannot have; the message names all three.
    """
    found: dict[str, Any] = {}
    for variable in VARIABLES:
        if not variable.field:
            continue
        text = environment.get(variable.name) or variable.default
        try:
            found[variable.field] = variable.parse(text) if text else None
        except (
            KeyError,
            ValueError,
            OSError,
        ):  # the last of a path that is too long, or may not be looked at
            raise ValueError(f"{variable.name}: {text!r}, but it must be {variable.values}") from None
    return Settings(**found)


def given(variable: Variable) -> str | None:
    """What the environment has for a variable; None where it is unset or empty."""
    return os.environ.get(variable.name) or None


@cache
def current() -> Settings:
    """The settings of this process, as its environment was at the first call."""
    return read(os.environ)


def cache_folder() -> Path:
    """Where this package keeps what it found on this machine: QWISP_CACHE_DIR, or the user's cache folder.

    Raises:
        ValueError: an environment variable has a value that it cannot have.
    """
    if (folder := current().cache_dir) is not None:
        return folder
    import platformdirs  # noqa: PLC0415  (only where it is needed: it is not for a Device with a folder)

    return platformdirs.user_cache_path("qwisp_native", appauthor=False)


def metal_validation() -> list[str]:
    """Apple's variables that switch Metal's validation on, if they do: not for timing."""
    names = ("MTL_DEBUG_LAYER", "MTL_SHADER_VALIDATION")
    return [name for name in names if os.environ.get(name) not in {None, "", "0"}]
