"""One run: the arms of one shape, warmed up, then timed in rounds. No conclusion is drawn here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..settings import VARIANTS, Fuse

_FUSE: dict[str, Fuse] = {name: name for name in VARIANTS}

_CHUNK = 0.2  # s between looks at the clock: long, because the device idles at each
_FLAT = 0.03  # the warm-up is over when the medians of its last quarters differ by less
_WARM_ROUNDS = 4


class Sample(NamedTuple):
    """One command buffer: stamps of the device in s, of the host in ns (see cpp/timing/harness.h)."""

    round: int
    arm: int
    position: int
    x_set: int
    block: int
    x_hash: int
    gpu_start: float
    gpu_end: float
    committed_ns: int
    completed_ns: int
    wall_ns: int


@dataclass(frozen=True)
class Options:
    """What to time, and for how long.

    `arms`: names of variants, the baseline first; a name may come twice, for a null experiment.
    `repeats`: rounds of each shape, or None for as many as `budget` seconds allow (for all shapes; larger
    ones get more of them). `blocks`: sets of `layers` gates in rotation. `warm_up`: seconds, at least, before
    the first round that counts.
    """

    rows: tuple[int, ...] = (1, 2, 4, 8)
    hidden: int = 2048
    experts: int = 256
    top_k: int = 8
    arms: tuple[str, ...] = VARIANTS
    layers: int = 40
    encoder: Literal["serial", "concurrent"] = "serial"
    repeats: int | None = None
    budget: float = 120.0
    warm_up: float = 0.5
    blocks: int = 1
    x_sets: int = 4
    in_flight: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.arms) < 2 or not set(self.arms) <= set(VARIANTS):
            raise ValueError(
                f"arms: {', '.join(self.arms)}, but it must be two or more of {', '.join(VARIANTS)}"
            )
        if not self.rows or len(set(self.rows)) != len(self.rows):
            raise ValueError(f"rows: {list(self.rows)}, but it must be one or more, each once")
        if self.repeats is not None and self.repeats < 1:
            raise ValueError(f"repeats: {self.repeats}, but it must be 1 or more")
        if not self.budget > 0 or not self.warm_up >= 0:
            times = f"budget: {self.budget} s, warm_up: {self.warm_up} s"
            raise ValueError(f"{times}, but they must not be negative, and the budget not 0")
        if self.encoder not in {"serial", "concurrent"}:
            raise ValueError(f"encoder: {self.encoder!r}, but it must be 'serial' or 'concurrent'")

    def named_arms(self) -> dict[str, Fuse]:
        """The arms by name; a name that comes again gets a number: "pair#2"."""
        named: dict[str, Fuse] = {}
        for place, arm in enumerate(self.arms):
            count = self.arms[: place + 1].count(arm)
            named[arm if count == 1 else f"{arm}#{count}"] = _FUSE[arm]
        return named

    def budget_of(self, rows: int) -> float:
        """Seconds for one shape: its share by rows, since time grows with them."""
        return self.budget * rows / sum(self.rows)


@dataclass
class Run:
    """What one shape gave: the samples in order, and the evidence that they are what they seem.

    By arm: `planned`, the kernels of one layer by its plan; `encoded` and `barriers`, those and the barriers
    of a whole command buffer as an encoder saw them. `compared`, `difference`: see _core.Timing.
    """

    rows: int
    arms: tuple[str, ...]
    options: Options
    samples: list[Sample] = field(default_factory=list)
    warm_up_rounds: int = 0
    is_flat: bool = False
    planned: list[tuple[str, ...]] = field(default_factory=list)
    encoded: list[tuple[str, ...]] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)
    compared: list[int] = field(default_factory=list)
    difference: str = ""

    def column(self, name: str, arm: int) -> NDArray[Any]:
        """One field of the arm's samples, round by round."""
        return np.array([getattr(sample, name) for sample in self.samples if sample.arm == arm])

    def gpu_seconds(self, arm: int) -> NDArray[np.float64]:
        """Device time of each command buffer."""
        seconds: NDArray[np.float64] = self.column("gpu_end", arm) - self.column("gpu_start", arm)
        return seconds

    def wall_seconds(self, arm: int) -> NDArray[np.float64]:
        """Host time of each command buffer."""
        return self.column("wall_ns", arm).astype(np.float64) * 1e-9


def timing(device: _core.Device, rows: int, options: Options, planted: str = "") -> _core.Timing:
    """The native harness for one shape."""
    return _core.Timing(
        device,
        options.named_arms(),
        rows=rows,
        hidden=options.hidden,
        experts=options.experts,
        top_k=options.top_k,
        layers=options.layers,
        x_sets=options.x_sets,
        blocks=options.blocks,
        in_flight=options.in_flight,
        concurrent=options.encoder == "concurrent",
        seed=options.seed,
        planted=planted,
    )


def measure(
    device: _core.Device,
    rows: int,
    options: Options,
    tell: Callable[[float], object] = lambda done: None,
) -> Run:
    """Time the arms on `rows` rows.

    Args:
        device: the device under test.
        rows: M.
        options: the rest.
        tell: called now and then with the part that is done, 0 to 1.

    Raises:
        TypeError, ValueError: an option, or a variant that does not exist for the shape.
        DeviceError, MemoryError: the device said no.
    """
    start = time.perf_counter()
    harness = timing(device, rows, options)
    run = Run(rows, tuple(options.named_arms()), options)
    run.planned = [plan.kernels for plan in harness.planned()]
    for kernels, barriers in harness.encoded():
        run.encoded.append(tuple(kernels))
        run.barriers.append(barriers)

    warm_up = options.warm_up
    if options.repeats is None:  # it may take four times as long, and most of the budget is for samples
        warm_up = min(warm_up, options.budget_of(rows) / 10)
    first, seconds = _warm_up(harness, run, warm_up)
    deadline = start + options.budget_of(rows)
    timed = 0
    while options.repeats is None or timed < options.repeats:
        left = deadline - time.perf_counter()
        if options.repeats is None and timed > 0 and left < seconds:
            break
        limit = min(_CHUNK, left) if options.repeats is None else _CHUNK
        rounds = 2 * max(1, int(limit / max(seconds, 1e-9) / 2))  # both orders as often
        if options.repeats is not None:
            rounds = min(rounds, options.repeats - timed)
        began = time.perf_counter()
        run.samples += [Sample(*each) for each in harness.run(first + timed, rounds)]
        seconds = (time.perf_counter() - began) / rounds
        timed += rounds
        tell(timed / options.repeats if options.repeats else 1 - max(left, 0) / options.budget_of(rows))
    run.compared = harness.compared()
    run.difference = harness.difference()
    return run


def _warm_up(harness: _core.Timing, run: Run, least: float) -> tuple[int, float]:
    """Run the arms until the device's clock has settled; the number of rounds, and the seconds of one.

    All arms of a round meet on the same gates here: the results of each are held against another's.
    """
    times: list[float] = []
    start = time.perf_counter()
    while True:
        began = time.perf_counter()
        samples = [Sample(*each) for each in harness.run(len(times), 2, False)]
        seconds = (time.perf_counter() - began) / 2
        times += [each.gpu_end - each.gpu_start for each in samples if each.arm == 0]
        run.is_flat = len(times) >= _WARM_ROUNDS and _is_flat(times)
        spent = time.perf_counter() - start
        enough = len(times) >= _WARM_ROUNDS and spent >= least
        if enough and (run.is_flat or spent >= 4 * least):
            run.warm_up_rounds = len(times)
            return len(times), seconds


def _is_flat(times: list[float]) -> bool:
    """Whether the last two quarters are alike."""
    quarter = len(times) // 4
    earlier, later = np.median(times[-2 * quarter : -quarter]), np.median(times[-quarter:])
    return bool(abs(later - earlier) <= _FLAT * earlier)
