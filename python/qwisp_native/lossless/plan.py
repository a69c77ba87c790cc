"""Which runs the gate makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..settings import VARIANTS, Fuse
from .residency import SETTINGS, Setting

OFF: Fuse = False
"""The flag as it is by default: the reference of everything else."""


@dataclass(frozen=True)
class Case:
    """One decoding of one text."""

    regime: str
    setting: Setting
    fuse: Fuse
    speculative: bool
    telemetry: bool

    @property
    def route(self) -> str:
        """The flag, as reports spell it."""
        return "off" if self.fuse is OFF else str(self.fuse)

    @property
    def decoding(self) -> str:
        """As reports spell it."""
        return "speculative" if self.speculative else "greedy"

    @property
    def name(self) -> str:
        """Regime, setting, route, decoding, telemetry."""
        seen = "telemetry" if self.telemetry else "no telemetry"
        return f"{self.regime}, {self.setting.name}, {self.route}, {self.decoding}, {seen}"


def cases(regimes: Sequence[str], *, full: bool) -> list[list[Case]]:
    """Runs by (regime, setting), each list led by its reference: greedy, flag off, with telemetry.

    Full: every route by every decoding, with and without telemetry, in every setting. Reduced: each regime in
    the first setting and in one of the others, in turn; there every variant speculatively and one of them
    greedily, telemetry in turn.
    """
    groups = []
    for i, regime in enumerate(regimes):
        for j, setting in enumerate(SETTINGS):
            if not full and j not in {0, 1 + i % (len(SETTINGS) - 1)}:
                continue
            group = [Case(regime, setting, OFF, speculative=False, telemetry=True)]
            if full:
                group += [
                    case
                    for speculative in (False, True)
                    for fuse in (OFF, *VARIANTS)
                    for telemetry in (False, True)
                    if (case := Case(regime, setting, fuse, speculative, telemetry)) != group[0]
                ]
            else:
                turn = (i + j) % len(VARIANTS)
                group.append(Case(regime, setting, VARIANTS[turn], speculative=False, telemetry=bool(j % 2)))
                group += [
                    Case(regime, setting, fuse, speculative=True, telemetry=bool((n + i + j) % 2))
                    for n, fuse in enumerate(VARIANTS)
                ]
            groups.append(group)
    return groups
