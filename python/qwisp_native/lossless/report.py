"""What a run of the gate found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .decode import Decoded
from .model import Model
from .plan import Case
from .ties import NearTies
from .trace import Difference


@dataclass(frozen=True)
class Failure:
    """A run that was red."""

    case: Case
    detail: str
    difference: Difference | None = None
    """The first place, where there is one."""


@dataclass(frozen=True)
class Run:
    """One decoding: how many tokens are the reference's, and what it took."""

    case: Case
    equal: int
    decoded: Decoded
    routed_rows: int
    """Rows of all layers held against the reference bit for bit."""
    seconds: float


@dataclass
class Report:
    """Everything, of one device."""

    device: str
    kernels: str
    seed: int
    tokens: int
    period: int
    full: bool
    model: Model
    prompts: dict[str, int]
    runs: list[Run] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    references: dict[str, str] = field(default_factory=dict)
    """Regime and setting -> SHA-256 of experts, scores and logits of every layer and position."""
    texts: dict[str, str] = field(default_factory=dict)
    """Regime and setting -> the tokens, as Latin-1."""
    near_ties: dict[str, NearTies] = field(default_factory=dict)
    computed: int = 0
    found: int = 0
    seconds: float = 0.0

    @property
    def red(self) -> set[Case]:
        """Runs that failed."""
        return {failure.case for failure in self.failures}

    @property
    def passed(self) -> int:
        """How many did not."""
        return sum(run.case not in self.red for run in self.runs)

    @property
    def widths(self) -> Counter[int]:
        """Steps of speculative runs by their number of rows."""
        total: Counter[int] = Counter()
        for run in self.runs:
            if run.case.speculative:
                total += run.decoded.widths
        return total

    def as_json(self) -> dict[str, Any]:
        """Ready for json.dumps."""
        config = self.model.config
        return {
            "device": self.device,
            "kernels": self.kernels,
            "seed": self.seed,
            "tokens": self.tokens,
            "period": self.period,
            "full": self.full,
            "model": {"sha256": self.model.sha256, **vars(config)},
            "prompts": self.prompts,
            "passed": self.passed,
            "failed": len(self.red),
            "failures": [
                {
                    **_case(failure.case),
                    "detail": failure.detail,
                    "first": vars(failure.difference) if failure.difference else None,
                }
                for failure in self.failures
            ],
            "runs": [
                {
                    **_case(run.case),
                    "equal": run.equal,
                    "steps": run.decoded.steps,
                    "rows": run.decoded.rows,
                    "accepted": run.decoded.accepted,
                    "routed_rows": run.routed_rows,
                    "seconds": round(run.seconds, 3),
                }
                for run in self.runs
            ],
            "widths": {str(width): count for width, count in sorted(self.widths.items())},
            "references": self.references,
            "texts": self.texts,
            "near_ties": {name: ties.as_json() for name, ties in self.near_ties.items()},
            "rows_computed": self.computed,
            "rows_found": self.found,
            "seconds": round(self.seconds, 1),
        }


def _case(case: Case) -> dict[str, Any]:
    return {
        "regime": case.regime,
        "setting": case.setting.name,
        "route": case.route,
        "decoding": case.decoding,
        "telemetry": case.telemetry,
    }
