"""`qwisp-native adversary`: the shipped kernels against many seeds of the software device's executor."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from typing import TYPE_CHECKING

from .output import print_json

if TYPE_CHECKING:
    from ..gates.adversary import Attack

SUMMARY = "attack the kernels with seeded schedules and a weak memory (software device)"
DESCRIPTION = (
    "Run every variant on small shapes while the software device's executor chooses, by a seed, what a GPU "
    "may do in any order: threads, threadgroups, when a store becomes visible (docs/reliability.md). Prints "
    "each seed that finds something, and how to run it again; exit code 1 if there is one."
)
CHUNK = 50  # seeds that a process takes at a time
MAX_SHOWN = 20
MAX_SEED = 2**63 - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `adversary`."""
    parser.add_argument("--seeds", type=_number(1), default=1000, metavar="N", help="how many (default 1000)")
    parser.add_argument("--first", type=_number(0), default=0, metavar="S", help="the first one (default 0)")
    parser.add_argument(
        "--jobs", type=_number(1), metavar="J", help="processes (default: the available processors)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")


def _number(low: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 19 and low <= int(text) <= MAX_SEED):
            raise argparse.ArgumentTypeError(f"{text!r}, but it must be from {low} to {MAX_SEED}")
        return int(text)

    return parse


@cache
def _attack() -> Attack:
    """Of this process."""
    import numpy as np

    import qwisp_native as qn

    from ..gates.adversary import Attack

    return Attack(qn.Device("cpu"), np.random.default_rng(0))


def attack_chunk(first: int, last: int) -> list[tuple[int, str]]:
    """Run the seeds from `first` to before `last`; what they found, by seed."""
    found = ((seed, _attack()(seed)) for seed in range(first, last))
    return [(seed, told) for seed, told in found if told is not None]


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _attacks(first: int, last: int, jobs: int) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """(how many seeds, what they found), chunk by chunk, as they end."""
    chunks = [(start, min(start + CHUNK, last)) for start in range(first, last, CHUNK)]
    if jobs == 1 or len(chunks) == 1:
        yield from ((end - start, attack_chunk(start, end)) for start, end in chunks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(chunks)), mp_context=context) as pool:
        ends = {pool.submit(attack_chunk, *chunk): chunk for chunk in chunks}
        try:
            for done in as_completed(ends):
                start, end = ends[done]
                yield end - start, done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def run(options: argparse.Namespace) -> int:
    """Attack, report."""
    from tqdm import tqdm

    jobs = options.jobs or _processors()
    first, last = options.first, options.first + options.seeds
    if last - 1 > MAX_SEED:
        options.usage_error(f"--first {first} and --seeds {options.seeds}: the last seed is {MAX_SEED}")
    found: list[tuple[int, str]] = []
    start = time.perf_counter()
    hidden = not sys.stderr.isatty()
    with tqdm(total=options.seeds, unit=" seeds", leave=False, file=sys.stderr, disable=hidden) as bar:
        for count, told in _attacks(first, last, jobs):
            found += told
            bar.update(count)
            if told:
                bar.set_postfix(found=len(found))
    seconds = time.perf_counter() - start
    found.sort()
    if options.json:
        names = ("seed", "found")
        print_json(
            {
                "seeds": options.seeds,
                "first": first,
                "jobs": jobs,
                "seconds": round(seconds, 3),
                "found": [dict(zip(names, each, strict=True)) for each in found],
            }
        )
        return 1 if found else 0
    for seed, text in found[:MAX_SHOWN]:
        print(f"FOUND {text}\n  again: qwisp-native adversary --seeds 1 --first {seed}")
    if len(found) > MAX_SHOWN:
        print(f"and {len(found) - MAX_SHOWN} more seeds")
    many = f"{jobs} process{'es' * (jobs > 1)}"
    verdict = f"{len(found)} of them found something" if found else "none of them found anything"
    print(f"{options.seeds} seeds from {first} in {seconds:.1f} s by {many}: {verdict}")
    return 1 if found else 0
