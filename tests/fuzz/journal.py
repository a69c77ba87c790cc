"""What the running example has done so far, kept in a file: after a crash it says what led to it."""

from __future__ import annotations

from typing import TextIO

_file: TextIO | None = None
examples = 0


def keep(path: str) -> None:
    """From now on write to this file. What was written survives the process."""
    global _file  # noqa: PLW0603
    _file = open(path, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115, PTH123


def begin(what: str = "") -> None:
    """A new example: the last one went well."""
    global examples  # noqa: PLW0603
    examples += 1
    if _file:
        _file.seek(0)
        _file.truncate()
    step(what)


def step(what: str) -> None:
    """The next thing that is done."""
    if _file and what:
        _file.write(what[:2000] + "\n")
        _file.flush()
