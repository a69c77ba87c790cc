"""One batch of one target, in a process of its own: `python worker.py TARGET SEED EXAMPLES FOLDER`.

Ends with 0, with 1 and Hypothesis' report of the smallest failing example, or by a signal. FOLDER gets
`journal` (what the last example did) and `counted` (how many there
were, and CPU seconds).
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
MEMORY = 4 << 30  # bytes of addresses: an absurd size must fail here, not fill the machine

import journal  # noqa: E402
from hypothesis import HealthCheck, seed, settings  # noqa: E402
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test  # noqa: E402


def run(test: Callable[..., Any] | type[RuleBasedStateMachine], number: int, examples: int) -> None:
    """Runs a test or a state machine with this seed."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    if isinstance(test, type):
        run_state_machine_as_test(seed(number)(test), settings=chosen)
    else:
        chosen(seed(number)(test))()


def main(target: str, number: int, examples: int, folder: Path) -> None:
    faulthandler.enable()
    sanitized = "libasan" in os.environ.get("LD_PRELOAD", "")  # its shadow memory needs more addresses
    if sys.platform == "linux" and not sanitized:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ["QWISP_CACHE_DIR"] = str(folder / "cache")
    journal.keep(str(folder / "journal"))
    tests = importlib.import_module(target).TESTS
    try:
        for test in tests:
            run(test, number, max(1, examples // len(tests)))
    finally:
        used = resource.getrusage(resource.RUSAGE_SELF)
        (folder / "counted").write_text(f"{journal.examples} {used.ru_utime + used.ru_stime}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
