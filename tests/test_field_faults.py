"""Each kind of fault that other projects met, by name. The inputs stand in qwisp_native/gates/field_*.py."""

from __future__ import annotations

import pytest

from qwisp_native.gates import Context
from qwisp_native.gates.faults import FAULTS
from qwisp_native.gates.orders import all_equal_launches


@pytest.mark.parametrize("name", FAULTS)
def test_field_fault(name: str, context: Context) -> None:
    checks = list(FAULTS[name](context))
    told = [f"{check}: {text}" for check, text in checks if text is not None]
    assert checks
    assert not told, "\n".join(told[:20])


def test_every_section_of_the_reports_has_kinds() -> None:
    assert sorted({name[0] for name in FAULTS}) == list("ABCDEF")


@pytest.mark.slow
def test_ten_thousand_launches_on_equal_logits(context: Context) -> None:
    """A: a multi-block top-k gave different sets in 9 of 10 runs on tied logits."""
    assert all_equal_launches(context, 10_000, rows=1, experts=256) is None
