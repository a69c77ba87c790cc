"""The fuzzers of tests/fuzz for some seconds, always on the same examples; and that they see what they must.

For minutes or hours, with examples of their own: `python tests/fuzz/run.py --minutes M` (CONTRIBUTING.md).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import run

EXAMPLES = {"api": 45, "checkpoints": 30, "stored": 45, "values": 6}
WORKER = Path(run.__file__).with_name("worker.py")


@pytest.mark.parametrize("target", run.TARGETS)
def test_a_short_batch(target: str) -> None:
    batch = run.run_batch(target, seed=1, examples=EXAMPLES[target], limit_s=300)
    assert not batch.found, batch.report
    assert batch.examples >= EXAMPLES[target] // 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_minutes(tmp_path: Path) -> None:
    """The nightly form: `pytest -m slow -k ten_minutes`."""
    command = [sys.executable, str(WORKER.with_name("run.py")), "--minutes", "10", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    reports = "\n".join(path.read_text() for path in tmp_path.iterdir())
    assert done.returncode == 0, f"{done.stdout}\n{reports}"


PLANTED = {
    "abort": ("os.abort()", "ended by SIGABRT"),
    "segv": ("ctypes.string_at(8)", "ended by SIGSEGV"),
    "wrong": ("assert n < 50", "exit status 1"),
    "exit": ("os._exit(3)", "exit status 3"),
    "hang": ("time.sleep(60)", "not done after 4 s"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends with status 1, and the stored report says what the child did last and how to repeat it."""
    statement, found = PLANTED[fault]
    (tmp_path / "faulty.py").write_text(f"""
import ctypes, os, time
from hypothesis import given, strategies as st
import journal

@given(st.integers(0, 1000))
def test(n):
    journal.begin(f"planted with {{n}}")
    if n > 40: {statement}

TESTS = [test]
""")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    out = tmp_path / "out"
    limit_s = 4 if fault == "hang" else 60
    assert run.fuzz(["faulty"], 0, 1, 100, out, 7, limit_s) == 1
    report = (out / "faulty-7.txt").read_text()
    assert f"faulty: {found}" in report
    assert "--only faulty --seed 7 --examples 100" in report
    assert "planted with " in report


def test_the_run_says_what_there_is() -> None:
    done = subprocess.run(
        [sys.executable, str(WORKER.with_name("run.py")), "--only", "apis"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "'apis' is not one of api, checkpoints, stored, values" in done.stderr
