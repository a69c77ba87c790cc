"""Checks the peers against ours, then times them, all in one interleaved run in this process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from qwisp_native import _core
from qwisp_native.quantize import QuantizedGate, quantize

from . import SETTLE_S, TOP_K, Peer, find
from .ours import Call

HIDDEN, EXPERTS = 2048, 256
FLOOR = "reading 512 KB"
SET_BYTES = HIDDEN * EXPERTS
WARM_S = 0.005
"""How long a peer runs before a timed round, one round at least."""
SLOW_S, SLOW_SETS, SLOW_REPEATS = 0.05, 2, 3
"""A peer whose call takes longer than SLOW_S gets so many sets and repeats, and no untimed round."""


@dataclass(frozen=True)
class Job:
    """What one process measures."""

    threads: int
    rows: tuple[int, ...]
    families: tuple[str, ...]
    sets: int
    repeats: int
    seconds: float
    seed: int
    cold: bool = False


@dataclass
class Cell:
    """A peer at a number of threads and rows; `samples` are microseconds a call, one for each timed round."""

    peer: str
    threads: int
    rows: int
    sets: int
    slow: bool = False
    rows_checked: int = 0
    samples: list[float] = field(default_factory=list)


@dataclass
class Outcome:
    """Everything that a process found. `skipped` and `wrong` are reasons by name."""

    cells: list[Cell] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)


@dataclass
class _Runner:
    """What is timed: `calls` routes, or reads of one set, by one call of `round`."""

    cell: Cell
    round: Callable[[], None]
    calls: int
    rest: Callable[[], None] = lambda: None


class Reference:
    """Our pair's answers, computed once for each number of rows."""

    def __init__(self, sets: Sequence[QuantizedGate]) -> None:
        self._router = Call("pair")
        self._router.prepare(sets, 1)

    def answers(self, x: NDArray[np.float16], sets: int) -> list[tuple[NDArray[Any], ...]]:
        """For each set: experts, scores and, for each row, how far the K-th logit is above the next."""
        found = []
        for index in range(sets):
            inds, scores = self._router.run(x, index)
            ordered = np.sort(self._router.logits(x, index).astype(np.float32), axis=1)
            found.append((inds, scores, ordered[:, -TOP_K] - ordered[:, -TOP_K - 1]))
        return found


def check(peer: Peer, x: Any, answers: Sequence[tuple[NDArray[Any], ...]]) -> int:
    """Compares experts as sets, and scores by expert, on rows that the peer's rounding cannot swap.

    Returns:
        How many rows were compared; 0 if every one was too near to call.

    Raises:
        ValueError: the peer routes otherwise, with where and how.
    """
    compared = 0
    for index, (inds, scores, gaps) in enumerate(answers):
        found_inds, found_scores = peer.result(peer.run(x, index))
        for row in np.flatnonzero(gaps >= peer.margin):
            want, found = np.argsort(inds[row]), np.argsort(found_inds[row])
            where = f"set {index}, row {row}"
            if not np.array_equal(inds[row][want], found_inds[row][found]):
                raise ValueError(f"{where}: experts {found_inds[row].tolist()}, ours {inds[row].tolist()}")
            apart = np.abs(found_scores[row][found].astype(np.float32) - scores[row][want]).max()
            if not apart <= peer.tolerance:  # so that NaN is wrong
                raise ValueError(f"{where}: scores {apart:.4f} apart, but they may be {peer.tolerance}")
            compared += 1
    return compared


def measure(job: Job, peers: Sequence[Peer] | None = None) -> Outcome:
    """Runs a job; `peers` instead of those that its families name."""
    outcome = Outcome()
    if peers is None:
        peers, outcome.skipped = find(job.families)
    rng = np.random.default_rng(job.seed)
    sets = [
        quantize((0.02 * rng.standard_normal((EXPERTS, HIDDEN))).astype(np.float16)) for _ in range(job.sets)
    ]
    ready = [peer for peer in peers if _prepare(peer, sets, job.threads, outcome)]
    reference = Reference(sets)
    read = _core.ReadFloor(job.sets, SET_BYTES)  # with the threads of our own device
    for rows in job.rows:
        x = rng.standard_normal((rows, HIDDEN)).astype(np.float16)
        answers = reference.answers(x, job.sets)
        runners = [_Runner(Cell(FLOOR, job.threads, rows, job.sets), read.run, job.sets)]
        for peer in tqdm(ready, f"{job.threads} threads, {rows} rows: checking", disable=None, leave=False):
            runner = _runner(peer, x, answers, job, outcome)
            if runner:
                runners.append(runner)
        _time(runners, job, rng, f"{job.threads} threads, {rows} rows")
        outcome.cells += [runner.cell for runner in runners]
    return outcome


def _prepare(peer: Peer, sets: Sequence[QuantizedGate], threads: int, outcome: Outcome) -> bool:
    try:
        peer.prepare(sets, threads)
    except Exception as error:  # whatever is amiss with another library: say so, and go on
        outcome.skipped[peer.name] = _reason(error)
        return False
    return True


def _runner(
    peer: Peer,
    x: NDArray[np.float16],
    answers: Sequence[tuple[NDArray[Any], ...]],
    job: Job,
    outcome: Outcome,
) -> _Runner | None:
    """The peer, checked and warm; None where it cannot run or is wrong."""
    try:
        native = peer.input(x)
        peer.run(native, 0)  # compiles, starts threads
        start = time.perf_counter()
        peer.run(native, 0)
        slow = time.perf_counter() - start > SLOW_S
        sets = min(job.sets, SLOW_SETS) if slow else job.sets
    except Exception as error:
        outcome.skipped[f"{peer.name}, {len(x)} rows"] = _reason(error)
        return None
    try:
        checked = check(peer, native, answers[:sets])
    except ValueError as error:
        outcome.wrong[f"{peer.name}, {len(x)} rows"] = str(error)
        return None
    cell = Cell(peer.name, job.threads, len(x), sets, slow, checked)
    return _Runner(cell, lambda: peer.round(native, sets), sets, peer.rest)


def _time(runners: Sequence[_Runner], job: Job, rng: np.random.Generator, title: str) -> None:
    """Fills in the samples: each repeat takes every runner once, in an order of its own."""
    until = time.perf_counter() + job.seconds
    gc.collect()
    gc.disable()
    try:
        for repeat in tqdm(range(job.repeats), title, disable=None, leave=False):
            for each in rng.permutation(len(runners)):
                runner = runners[each]
                if runner.cell.slow and repeat >= SLOW_REPEATS:
                    continue
                time.sleep(SETTLE_S)
                warm = time.perf_counter() + WARM_S
                while not (job.cold or runner.cell.slow):
                    runner.round()
                    if time.perf_counter() > warm:
                        break
                start = time.perf_counter()
                runner.round()
                elapsed = time.perf_counter() - start
                runner.rest()
                runner.cell.samples.append(round(1e6 * elapsed / runner.calls, 3))
            if time.perf_counter() > until:
                break
    finally:
        gc.enable()


def _reason(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'without a message'}"
