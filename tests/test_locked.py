"""The gates and tests that may not change unseen. After a wanted change: `python tests/lock.py`."""

from __future__ import annotations

import json

import pytest

import lock
from qwisp_native.gates import GATES

LOCKED = json.loads(lock.LOCK.read_text())


@pytest.mark.parametrize("group", ["tests", "parts", "files"])
def test_sources_are_the_locked_ones(group: str) -> None:
    found, locked = lock.sources()[group], LOCKED[group]
    missing = sorted(locked.keys() - found.keys())
    added = sorted(found.keys() - locked.keys())
    changed = sorted(name for name in locked.keys() & found.keys() if locked[name] != found[name])
    told = {"missing": missing, "added": added, "changed": changed}
    assert not any(told.values()), f"{told}: python tests/lock.py, if that is wanted"


def test_gates_are_the_locked_ones() -> None:
    assert sorted(GATES) == sorted(LOCKED["gates"])


def test_totals() -> None:
    assert LOCKED["total"] == {
        "gates": len(LOCKED["gates"]),
        "checks": sum(gate["checks"] for gate in LOCKED["gates"].values()),
        "tests": len(LOCKED["tests"]),
    }
