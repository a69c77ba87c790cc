"""Checks the peers against ours, then times them, all in one interleaved run in this process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from peers import Peer
from peers.measure import EXPERTS, HIDDEN, Reference, check
from tqdm import tqdm

from qwisp_native.bench.rules import LEAST_ROUNDS
from qwisp_native.quantize import GROUP, QuantizedGate

from . import Answers, GpuPeer, agreement, find, reason


@dataclass(frozen=True)
class Job:
    """What to measure.

    `temperatures`: how many sets of weights the layers take in turn, by name. `seconds` is for everything,
    compiling included: each shape has an equal share of what is left, and at least LEAST_ROUNDS rounds, or
    `repeats` where that is given. Shapes for which there is nothing left are skipped.
    """

    rows: tuple[int, ...]
    temperatures: dict[str, int]
    layers: int
    seconds: float
    repeats: int | None = None
    seed: int = 0


@dataclass
class Cell:
    """A peer at a number of rows and a temperature; `samples` are microseconds a layer, round by round.

    `positions` says where in each round the sample was taken. `agreement`: see gpu_peers.agreement.
    """

    peer: str
    kind: str
    temperature: str
    rows: int
    agreement: dict[str, int] = field(default_factory=dict)
    samples: list[float] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)


@dataclass
class Outcome:
    """Everything that was found. `skipped` and `wrong` are reasons by name."""

    cells: list[Cell] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)


def random_sets(rng: np.random.Generator, count: int) -> list[QuantizedGate]:
    """Gates of uniform codes around 0, whose weights have the spread of a trained gate's (0.02)."""
    sets = []
    for _ in range(count):
        codes = rng.integers(0, 256, (EXPERTS, HIDDEN), np.uint8)
        scales = rng.uniform(2e-4, 3.5e-4, (EXPERTS, HIDDEN // GROUP)).astype(np.float16)
        biases = (-127.5 * scales.astype(np.float32)).astype(np.float16)
        sets.append(QuantizedGate(codes.view(np.uint32), scales, biases))
    return sets


def measure(
    job: Job,
    families: Sequence[str],
    peers: Sequence[GpuPeer] | None = None,
    tell: Callable[[Outcome], object] = lambda outcome: None,
) -> Outcome:
    """Runs a job; `peers` instead of those that the families name. `tell` is called after each shape."""
    until = time.perf_counter() + job.seconds
    outcome = Outcome()
    if peers is None:
        peers, outcome.skipped = find(families)
    rng = np.random.default_rng(job.seed)
    sets = random_sets(rng, max(job.temperatures.values()))
    ready = [peer for peer in peers if _prepare(peer, sets, outcome)]
    reference = Reference(sets)  # our pair on the cpu device
    shapes = [(rows, name) for rows in job.rows for name in job.temperatures]
    for number, (rows, temperature) in enumerate(shapes):
        if number and job.repeats is None and time.perf_counter() > until:
            outcome.skipped[f"{rows} rows, {temperature}"] = "no time left"
            continue
        share = (until - time.perf_counter()) / (len(shapes) - number)
        end = time.perf_counter() + share
        x = rng.standard_normal((rows, HIDDEN)).astype(np.float16)
        answers = reference.answers(x, job.temperatures[temperature])
        for peer in ready:
            peer.size(len(answers), job.layers)
        runners: list[tuple[Cell, GpuPeer]] = []
        title = f"{rows} rows, {temperature}"
        for peer in tqdm(ready, f"{title}: checking", disable=None, leave=False):
            cell = Cell(peer.name, peer.kind, temperature, rows)
            if _is_right(peer, cell, x, answers, outcome):
                runners.append((cell, peer))
        _time(runners, job, rng, end, title)
        outcome.cells += [cell for cell, _ in runners]
        tell(outcome)
    return outcome


def _prepare(peer: GpuPeer, sets: Sequence[QuantizedGate], outcome: Outcome) -> bool:
    try:
        peer.prepare(sets, 1)
    except Exception as error:  # whatever is amiss with another library: say so, and go on
        outcome.skipped[peer.name] = reason(error)
        return False
    return True


def _is_right(peer: GpuPeer, cell: Cell, x: NDArray[np.float16], answers: Answers, outcome: Outcome) -> bool:
    """Makes what is timed and compares its answers; False where that fails, with the reason in `outcome`."""
    name = f"{peer.name}, {cell.rows} rows, {cell.temperature}"
    try:
        native = peer.input(x)
        if peer.kind != "floor":
            cell.agreement = agreement(peer, native, answers)
    except Exception as error:
        outcome.skipped[name] = reason(error)
        return False
    try:
        if peer.kind != "floor":
            check(peer, native, answers)
    except ValueError as error:
        outcome.wrong[name] = str(error)
        return False
    return True


def _time(
    runners: Sequence[tuple[Cell, Peer]], job: Job, rng: np.random.Generator, end: float, title: str
) -> None:
    """Fills in the samples: each round takes every runner once, in an order of its own."""
    gc.collect()
    gc.disable()
    most = job.repeats or 10_000
    try:
        for number in tqdm(range(-1, most), title, disable=None, leave=False):  # round -1 warms up
            for position, each in enumerate(rng.permutation(len(runners))):
                cell, peer = runners[each]
                seconds = peer.sample()
                if number >= 0:
                    cell.samples.append(round(1e6 * seconds / job.layers, 4))
                    cell.positions.append(position)
            if job.repeats is None and number + 1 >= LEAST_ROUNDS and time.perf_counter() > end:
                break
    finally:
        gc.enable()
