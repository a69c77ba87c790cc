"""Devices against each other."""

from __future__ import annotations

from collections.abc import Sequence

from .report import Report


def across(reports: Sequence[Report]) -> list[str]:
    """What differs between devices that add as the contract does: all but Apple's (contract, section 2)."""
    exact = [report for report in reports if not report.device.startswith("metal")]
    told = []
    for other in exact[1:]:
        for name, sha256 in exact[0].references.items():
            if other.references.get(name) != sha256:
                what = "routing" if other.texts.get(name) == exact[0].texts[name] else "tokens and routing"
                told.append(f"{name}: {what} of {other.device} not as on {exact[0].device}")
    return told
