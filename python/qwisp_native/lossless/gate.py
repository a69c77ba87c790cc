"""The gate: whatever the route, the decoding and the telemetry, the same tokens by the same routing."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import qwisp_native as qn

from .decode import MIN_WIDTH, Decoded, greedy, speculative
from .memo import Memo, MemoEngine
from .model import Config, Model, load_model
from .plan import Case, cases
from .regimes import REGIMES
from .report import Failure, Report, Run
from .residency import Residency
from .routing import MAX_ROWS, DeviceRouting
from .ties import counterfactual
from .trace import Difference, DiffersError, other_call

TOKENS = 512
PERIOD = 64

MakeRouting = Callable[[Sequence[qn.Gate], Config, Case, Residency, int], DeviceRouting]
"""Gates, config, case, residency, capacity."""


def device_routing(
    gates: Sequence[qn.Gate], config: Config, case: Case, residency: Residency, capacity: int
) -> DeviceRouting:
    """What a case asks for, on the gates' device."""
    return DeviceRouting(
        gates, config, case.setting, residency, case.fuse, telemetry=case.telemetry, capacity=capacity
    )


def widths(seed: int) -> Callable[[], int]:
    """Widths of verification, 2 to 25, the small ones more often, as their logarithm is spread evenly."""
    rng = random.Random(seed)
    return lambda: int(math.exp(rng.uniform(math.log(MIN_WIDTH), math.log(MAX_ROWS + 1))))


@dataclass(frozen=True)
class _Done:
    """A run: what it routed and wrote, what it found within itself, the positions that it routed wholly."""

    case: Case
    routing: DeviceRouting
    decoded: Decoded
    difference: Difference | None
    known: int
    seconds: float


class Gate:
    """One run of the gate on one device; `run` makes it."""

    def __init__(
        self,
        device: qn.Device,
        model: Model,
        *,
        full: bool = False,
        tokens: int = TOKENS,
        seed: int = 0,
        period: int = PERIOD,
        prompts: dict[str, bytes] | None = None,
        make_routing: MakeRouting = device_routing,
    ) -> None:
        self.model = model
        self.prompts = REGIMES if prompts is None else prompts
        self.groups = cases(list(self.prompts), full=full)
        self.make_routing = make_routing
        self.gates = [qn.Gate.from_weights(device, weights) for weights in model.gates.values()]
        self.report = Report(
            f"{device.kind} ({device.name})",
            device.kernels,
            seed,
            tokens,
            period,
            full,
            model,
            {name: len(prompt) for name, prompt in self.prompts.items()},
        )

    @property
    def total(self) -> int:
        """Runs to come."""
        return sum(map(len, self.groups))

    def run(self, step: Callable[[str], object] = lambda name: None) -> Report:
        """Makes all runs; `step` is told the name of each that has ended."""
        start = time.perf_counter()
        for group in self.groups:
            self._group(group, step)
        self.report.seconds = time.perf_counter() - start
        return self.report

    def _group(self, group: list[Case], step: Callable[[str], object]) -> None:
        # In full, the reference and the first speculative run each compute all of their rows.
        memos = {False: Memo()}
        memos[True] = Memo() if self.report.full else memos[False]
        first: dict[bool, _Done] = {}
        for case in group:
            done = self._decode(case, memos[case.speculative])
            step(case.name)
            if done is not None and self._holds(done, first.get(False), first.get(case.speculative)):
                first.setdefault(case.speculative, done)
            if not first:
                return  # no reference, nothing to hold against it
        for memo in {id(memo): memo for memo in memos.values()}.values():
            self.report.computed += memo.computed
            self.report.found += memo.found
        self._reference(first[False], memos[False])

    def _decode(self, case: Case, memo: Memo) -> _Done | None:
        """One run; None where the device failed."""
        report, prompt = self.report, self.prompts[case.regime]
        capacity = len(prompt) + report.tokens
        residency = Residency(self.model.config.experts, case.setting.bolt, report.period, report.seed)
        routing = self.make_routing(self.gates, self.model.config, case, residency, capacity)
        engine = MemoEngine(self.model, routing, capacity, memo)
        start = time.perf_counter()
        decoded, told, known = Decoded(), None, capacity - 1  # the last token is not routed
        try:
            if case.speculative:
                decoded = speculative(engine, prompt, report.tokens, residency, widths(report.seed))
            else:
                decoded = greedy(engine, prompt, report.tokens)
        except DiffersError as error:
            told, known = error.difference, engine.length
        except qn.DeviceError as error:
            report.failures.append(Failure(case, f"DeviceError: {error}"))
            return None
        return _Done(case, routing, decoded, told, known, time.perf_counter() - start)

    def _holds(self, done: _Done, reference: _Done | None, sibling: _Done | None) -> bool:
        """Holds a run against the reference, and against the first run that decodes like it."""
        report, prompt = self.report, self.prompts[done.case.regime]
        told = done.difference
        if reference is not None:
            told = reference.routing.trace.difference(done.routing.trace, done.known) or told
        reference = reference or done
        expected, got = reference.decoded.tokens, done.decoded.tokens
        equal = sum(a == b for a, b in zip(expected, got, strict=False))
        if told is None and equal < report.tokens:
            told = _other_token(expected, got, len(prompt))
        if told is None and sibling is not None:
            told = other_call(sibling.routing.calls, done.routing.calls)
        if told is not None:
            detail = f"{equal} of {report.tokens} tokens equal; {told}"
            report.failures.append(Failure(done.case, detail, told))
        rows = done.known * self.model.config.layers
        report.runs.append(Run(done.case, equal, done.decoded, rows, done.seconds))
        return told is None

    def _reference(self, done: _Done, memo: Memo) -> None:
        """What the report says of a reference."""
        case, report = done.case, self.report
        name = f"{case.regime}, {case.setting.name}"
        report.references[name] = done.routing.trace.sha256(done.known)
        report.texts[name] = done.decoded.tokens.decode("latin-1")
        self._slots(case)
        if case.setting.eps or case.setting.bolt:
            return
        prompt = self.prompts[case.regime]
        try:
            report.near_ties[case.regime] = counterfactual(
                self.model, done.routing, prompt, done.decoded.tokens, memo=memo
            )
        except ValueError as error:  # the reference's choices are not the contract's
            report.failures.append(Failure(case, str(error)))

    def _slots(self, reference: Case) -> None:
        """Without a bias, experts named by slot are the experts."""
        setting = reference.setting
        plain = self.report.references.get(f"{reference.regime}, {replace(setting, bolt=False).name}")
        mine = self.report.references.get(f"{reference.regime}, {setting.name}")
        if setting.bolt and not setting.eps and plain and mine != plain:
            self.report.failures.append(Failure(reference, "routing is not that of the run without slots"))


def _other_token(expected: bytes, got: bytes, start: int) -> Difference:
    """Tokens that differ though their routing does not: the engine itself."""
    at = next(
        (i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b),
        min(len(expected), len(got)),
    )
    return Difference("token", start + at, None, 0, 1, repr(expected[at : at + 1]), repr(got[at : at + 1]))


def run(
    device: qn.Device | None = None,
    model: Model | None = None,
    *,
    full: bool = False,
    tokens: int = TOKENS,
    seed: int = 0,
    step: Callable[[str], object] = lambda name: None,
) -> Report:
    """Runs the gate on one device.

    Args:
        device: default Device().
        model: default the one of this package.
        full: all runs, not the reduced set.
        tokens: to decode in each run, at least 2.
        seed: of tables of residency and of widths.
        step: called with the name of each run that has ended.

    Raises:
        ValueError: too few tokens.
        OSError, ValueError: the package's model is not there or not whole.

    """
    if tokens < 2:
        raise ValueError(f"tokens: {tokens}, but it must be at least 2")
    gate = Gate(
        qn.Device() if device is None else device,
        load_model() if model is None else model,
        full=full,
        tokens=tokens,
        seed=seed,
    )
    return gate.run(step)
