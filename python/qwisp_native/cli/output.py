"""What the commands share: JSON, tables, bars, the words of an error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")


def print_json(value: Any) -> None:
    """Print one JSON object; NaN and infinities, which JSON lacks, become the strings that float() reads."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def print_table(rows: Iterable[Sequence[object]], indent: str = "  ") -> None:
    """Print rows of cells in columns, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    numbers = [all(cell.isdigit() for cell in column[1:]) for column in zip(*cells, strict=True)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numbers, strict=True)
        )
        print((indent + "  ".join(padded)).rstrip())


def progress(items: Sequence[Item], label: str) -> Iterable[Item]:
    """Show a bar while the items are used, on a terminal only."""
    from tqdm import tqdm

    return tqdm(items, desc=label, leave=False, file=sys.stderr, disable=not sys.stderr.isatty())


def failure(error: BaseException) -> str:
    """Say what went wrong in one line."""
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    return str(error) or type(error).__name__
