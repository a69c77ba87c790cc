"""What `qwisp-native tune` found on this machine: one JSON file in the user's cache folder, safe to delete.

A verdict counts only where everything in its key is as it was: device, processor, system, contraction, shader
text, package version and shape. A file that cannot be read, or is of another format, counts as empty.
"""

from __future__ import annotations

import fcntl
import json
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ._core import __version__
from .files import NEW, replace
from .settings import VARIANTS, cache_folder

FORMAT = 1

Decision = Literal["GO", "NO-GO", "VOID"]
Shape = tuple[int, int, int, int]
"""(rows, hidden, experts, top_k)."""


@dataclass(frozen=True)
class Machine:
    """Everything in a verdict's key but the shape."""

    kind: str
    name: str
    processor: str
    system: str
    contract: str
    shader_sha256: str
    package: str


@dataclass(frozen=True)
class Verdict:
    """What was found for one shape.

    `variant` is what `fuse="auto"` runs there. `speed_up` is the time of the pair over that of `candidate`,
    with its 95% interval.
    """

    shape: Shape
    variant: str
    decision: Decision
    candidate: str
    speed_up: float
    low: float
    high: float


@cache
def processor() -> str:
    """The processor's own name."""
    if sys.platform == "linux":
        try:
            lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    elif sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        named = [subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()]
    else:
        named = []
    return next(filter(None, named), "") or platform.processor() or platform.machine()


def machine(kind: str, name: str, contract: str, shader_sha256: str) -> Machine:
    """The key of a device here: a GPU's driver comes with the system, so its release is part of it."""
    system = f"{platform.system()} {platform.release()}"
    return Machine(kind, name, processor(), system, contract, shader_sha256, __version__)


def path() -> Path:
    """The file, in the package's cache folder."""
    return cache_folder() / "verdicts.json"


def stored(kind: str, name: str, contract: str, shader_sha256: str) -> dict[Shape, str]:
    """Shape -> variant, for this device; what `fuse="auto"` goes by. Read when a Device is made."""
    here = machine(kind, name, contract, shader_sha256)
    return {verdict.shape: verdict.variant for verdict in load(here)}


def load(here: Machine) -> list[Verdict]:
    """The verdicts of a machine; none where the file is missing or broken."""
    return [verdict for key, verdict in _read(path()) if key == here]


def store(here: Machine, found: Iterable[Verdict]) -> Path:
    """Adds verdicts to the file, in the place of older ones with the same key; VOID ones are left out.

    Safe with several processes at a time: a lock is held from reading to replacing, and readers see the old
    file or the new one.

    Raises:
        OSError: the folder cannot be made or written.
    """
    file = path()
    new = {(here, verdict.shape): verdict for verdict in found if verdict.decision != "VOID"}
    file.parent.mkdir(parents=True, exist_ok=True)
    with _locked(file.with_suffix(".lock")):
        for left in file.parent.glob(f"{file.name}*{NEW}"):  # by a process that was killed
            left.unlink()
        merged = {(key, verdict.shape): verdict for key, verdict in _read(file)} | new
        entries = [{"machine": asdict(key), **asdict(verdict)} for (key, _), verdict in merged.items()]
        replace(file, json.dumps({"format": FORMAT, "verdicts": entries}, indent=1) + "\n")
    return file


def _read(file: Path) -> Iterator[tuple[Machine, Verdict]]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        entries = content["verdicts"] if content["format"] == FORMAT else []
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # the last of deeply nested JSON
        return
    for entry in entries if isinstance(entries, list) else []:
        if parsed := _parse(entry):
            yield parsed


def _parse(entry: Any) -> tuple[Machine, Verdict] | None:
    """One entry, or None if it is not what `store` writes."""
    if not isinstance(entry, Mapping):
        return None
    try:
        rest = dict(entry)
        key = Machine(**rest.pop("machine"))
        verdict = Verdict(**{**rest, "shape": tuple(rest["shape"])})
    except (KeyError, TypeError):
        return None
    shape_fits = len(verdict.shape) == 4 and all(type(n) is int and 0 < n < 2**31 for n in verdict.shape)
    words_fit = all(isinstance(word, str) for word in astuple(key)) and verdict.variant in VARIANTS
    result_fits = verdict.decision in ("GO", "NO-GO") and verdict.candidate in VARIANTS
    numbers_fit = all(type(n) is float for n in (verdict.speed_up, verdict.low, verdict.high))
    return (key, verdict) if shape_fits and words_fit and result_fits and numbers_fit else None


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
