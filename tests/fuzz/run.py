"""Fuzzes an installed package for a given time: `python tests/fuzz/run.py --minutes M`.

Batches of random examples, each in a child process with a seed of its own. A batch that ends with an error, a
signal or not at all is a finding: it is stored in the folder --out with the command that repeats it, and the
run ends with status 1. To add a target: a module in this folder with TESTS, and its name in TARGETS.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

HERE = Path(__file__).resolve().parent
TARGETS = {
    "api": "the Python API: arbitrary arrays, arguments and lifetimes",
    "checkpoints": "safetensors, config and index files",
    "stored": "verdict files, reports and settings",
    "values": "gate values through every variant and every kind of CPU kernels",
}


@dataclass(frozen=True)
class Batch:
    """What became of one child. `found` is "" if nothing was."""

    target: str
    seed: int
    examples: int
    cpu_s: float
    found: str
    report: str


def sanitized() -> dict[str, str]:
    """The environment of a package that was built with QWISP_SANITIZE=address, by g++."""
    find = ["g++", "-print-file-name=libasan.so", "-print-file-name=libstdc++.so"]
    libraries = [subprocess.check_output([find[0], each], text=True).strip() for each in find[1:]]
    options = "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096"
    return {"LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": options}


def run_batch(
    target: str, seed: int, examples: int, limit_s: float, environment: dict[str, str] | None = None
) -> Batch:
    """One child process, killed after `limit_s`."""
    with tempfile.TemporaryDirectory(prefix="qwisp-fuzz-") as name:
        folder = Path(name)
        command = [sys.executable, str(HERE / "worker.py"), target, str(seed), str(examples), name]
        with (folder / "output").open("wb") as output:
            variables = os.environ | (environment or {})
            child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=variables)
            found = _wait(child, limit_s)
        counted = folder / "counted"  # not where a signal ended it
        count, cpu_s = counted.read_text().split() if counted.exists() else ("0", "0")
        report = ""
        if found:
            journal = folder / "journal"
            report = f"{target}: {found}\nrepeat: {' '.join([*_repeat(target, seed, examples)])}\n"
            report += (folder / "output").read_text(errors="replace")
            report += "\nwhat the last example did:\n" + (
                journal.read_text(errors="replace") if journal.exists() else ""
            )
        return Batch(target, seed, int(count), float(cpu_s), found, report)


def _wait(child: subprocess.Popen[bytes], limit_s: float) -> str:
    try:
        status = child.wait(limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return f"not done after {limit_s:.0f} s"
    except BaseException:
        child.kill()
        raise
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}" if status else ""


def _repeat(target: str, seed: int, examples: int) -> list[str]:
    return ["python", "tests/fuzz/run.py", "--only", target, "--seed", str(seed), "--examples", str(examples)]


def fuzz(
    targets: list[str],
    minutes: float,
    jobs: int,
    examples: int,
    out: Path,
    seed: int | None,
    limit_s: float,
    environment: dict[str, str] | None = None,
) -> int:
    """Runs batches in turn until the time is over, or one a target with `seed`; returns the findings."""
    end = time.monotonic() + 60 * minutes
    numbers = random.SystemRandom()
    batches, done, cpu, findings = Counter[str](), Counter[str](), dict.fromkeys(targets, 0.0), 0

    def work(number: int) -> Batch:
        target = targets[number % len(targets)]
        return run_batch(
            target, numbers.getrandbits(32) if seed is None else seed, examples, limit_s, environment
        )

    def over(number: int) -> bool:
        return number >= len(targets) and (seed is not None or time.monotonic() >= end)

    bar = tqdm(total=round(60 * minutes) if seed is None else None, unit=" s", disable=None)
    with ThreadPoolExecutor(jobs) as pool, bar:
        number, running = 0, []
        while running or not over(number):
            while len(running) < jobs and not over(number):
                running.append(pool.submit(work, number))
                number += 1
            batch = running.pop(0).result()
            batches[batch.target] += 1
            done[batch.target] += batch.examples
            cpu[batch.target] += batch.cpu_s
            if batch.found:
                findings += 1
                out.mkdir(parents=True, exist_ok=True)
                file = out / f"{batch.target}-{batch.seed}.txt"
                file.write_text(batch.report)
                tqdm.write(f"{batch.target}, seed {batch.seed}: {batch.found}; see {file}", file=sys.stdout)
            bar.set_postfix_str(f"{sum(done.values())} examples, {findings} findings")
            bar.update(max(0, round(60 * minutes - max(0, end - time.monotonic())) - bar.n))
            if bar.disable:  # no terminal: a line a batch instead
                print(
                    f"{batch.target} {batch.seed}: {batch.examples} examples, {batch.cpu_s:.0f} s", flush=True
                )
    for target in targets:
        minutes = cpu[target] / 60
        print(f"{target}: {batches[target]} batches, {done[target]} examples, {minutes:.2f} CPU minutes")
    print(f"{sum(cpu.values()) / 60:.1f} CPU minutes, {findings} findings", flush=True)
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--minutes", type=float, default=10, metavar="M", help="how long (10); batches are ended"
    )
    listed = "\n".join(f"  {name}: {what}" for name, what in TARGETS.items())
    parser.add_argument("--only", default=",".join(TARGETS), metavar="A,B", help=f"these targets\n{listed}")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="batches at a time (1)")
    parser.add_argument("--examples", type=int, default=100, metavar="N", help="in a batch (100)")
    parser.add_argument("--seed", type=int, metavar="S", help="one batch of each target, with this seed")
    parser.add_argument("--limit", type=float, default=1800, metavar="S", help="seconds for a batch (1800)")
    parser.add_argument(
        "--out", type=Path, default=Path("fuzz-findings"), help="for findings (fuzz-findings)"
    )
    parser.add_argument("--sanitized", action="store_true", help="built with QWISP_SANITIZE=address, by g++")
    chosen = parser.parse_args()
    targets = chosen.only.split(",")
    for name in targets:
        if name not in TARGETS:
            parser.error(f"--only: {name!r} is not one of {', '.join(TARGETS)}")
    environment = sanitized() if chosen.sanitized else {}
    length = (chosen.minutes, chosen.jobs, chosen.examples)
    return bool(fuzz(targets, *length, chosen.out, chosen.seed, chosen.limit, environment))


if __name__ == "__main__":
    sys.exit(main())
