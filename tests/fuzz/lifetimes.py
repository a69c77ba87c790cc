"""Objects of the Python API that come and go in any order, also while they are in use, and from threads."""

from __future__ import annotations

import gc
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import journal
import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from odd import REFUSALS

import qwisp_native as qn
from qwisp_native.settings import VARIANTS
from small import EXPERTS, TOP_K, layer, rows, same

ROWS = 5
FUSES = st.sampled_from([None, False, True, "auto", *VARIANTS])
SMALL = st.integers(0, 7)


@lru_cache
def wanted(gate: int, x: int, count: int, bias: bool) -> tuple[np.ndarray, ...]:
    """What a route gives, from a device on which nothing else happens."""
    router = qn.Router(layer(gate).gate(qn.Device("cpu")), TOP_K, fuse="pair")
    return router(rows(ROWS, x)[:count], return_logits=True, bias=make_bias() if bias else None)


def make_bias() -> qn.RouteBias:
    return qn.RouteBias(np.arange(EXPERTS, dtype=np.int32) % 2, 0.5)


@dataclass
class Scratch:
    """Its views outlive it."""

    scratch: qn.RouteScratch | None
    views: tuple[np.ndarray, ...]
    writer: object = None  # the last committed command buffer that writes it


@dataclass
class Commands:
    commands: Any
    encoder: Any = None
    writes: list[tuple[Scratch, tuple[np.ndarray, ...], bool]] = field(default_factory=list)


class Lifetimes(RuleBasedStateMachine):
    """One device, and objects of it that come and go in any order."""

    @initialize(seed=st.one_of(st.none(), st.integers(0, 2**63 - 1)))
    def start(self, seed: int | None) -> None:
        journal.begin()
        self.device = qn.Device("cpu")
        if seed is not None:
            self.device.kernels, self.device.simt_seed = "simt", seed
        self.gates: list[tuple[int, qn.Gate]] = []
        self.buffers: list[tuple[int, qn.Buffer]] = []
        self.scratches: list[Scratch] = []
        self.commands: list[Commands] = []
        self.step("start")

    def step(self, what: str) -> None:
        journal.step(what)

    @rule(seed=SMALL)
    def gate(self, seed: int) -> None:
        self.step(f"gate {seed}")
        self.gates = [*self.gates[-3:], (seed, layer(seed).gate(self.device))]

    @rule(seed=SMALL, private=st.booleans())
    def buffer(self, seed: int, private: bool) -> None:
        self.step(f"buffer {seed} {private}")
        self.buffers = [*self.buffers[-3:], (seed, self.device.buffer(rows(ROWS, seed), private=private))]

    @rule()
    def scratch(self) -> None:
        self.step("scratch")
        made = qn.RouteScratch(self.device, ROWS, EXPERTS, TOP_K)
        self.scratches = [*self.scratches[-5:], Scratch(made, (made.inds, made.scores, made.logits))]

    @rule()
    def command_buffer(self) -> None:
        self.step("command_buffer")
        if len(self.commands) < 8:
            self.commands.append(Commands(self.device.command_buffer()))

    @rule(which=SMALL, concurrent=st.booleans())
    def open(self, which: int, concurrent: bool) -> None:
        self.step(f"open {which} {concurrent}")
        if self.commands:
            each = self.commands[which % len(self.commands)]
            with suppress(RuntimeError):
                each.encoder = each.commands.compute_encoder(concurrent)

    @rule(
        which=SMALL,
        x=SMALL,
        gate=SMALL,
        scratch=SMALL,
        count=st.integers(0, ROWS),
        fuse=FUSES,
        bias=st.booleans(),
    )
    def encode(self, which: int, x: int, gate: int, scratch: int, count: int, fuse: Any, bias: bool) -> None:
        self.step(f"encode {which} {x} {gate} {scratch} {count} {fuse} {bias}")
        ready = [each for each in self.commands if each.encoder is not None]
        whole = [each for each in self.scratches if each.scratch is not None]
        if not (ready and self.buffers and self.gates and whole):
            return
        into = ready[which % len(ready)]
        (x_seed, buffer), (gate_seed, made) = (
            self.buffers[x % len(self.buffers)],
            self.gates[gate % len(self.gates)],
        )
        target = whole[scratch % len(whole)]
        try:
            qn.encode_moe_route_rows(
                into.encoder, buffer, made, target.scratch, rows=count, fuse=fuse, return_logits=True,
                bias=make_bias() if bias else None,
            )  # fmt: skip
        except REFUSALS as error:  # ended, or a barrier is missing: nothing was encoded
            self.step(f"refused: {error}")
        else:
            into.writes.append((target, wanted(gate_seed, x_seed, count, bias), count > 0))

    @rule(which=SMALL)
    def barrier(self, which: int) -> None:
        self.step(f"barrier {which}")
        ready = [each for each in self.commands if each.encoder is not None]
        if ready:
            with suppress(RuntimeError):
                ready[which % len(ready)].encoder.memory_barrier()

    @rule(which=SMALL)
    def end(self, which: int) -> None:
        self.step(f"end {which}")
        ready = [each for each in self.commands if each.encoder is not None]
        if ready:
            with suppress(RuntimeError):
                ready[which % len(ready)].encoder.end_encoding()

    @rule(which=SMALL)
    def commit(self, which: int) -> None:
        self.step(f"commit {which}")
        if self.commands:
            each = self.commands[which % len(self.commands)]
            try:
                each.commands.commit()
            except RuntimeError as error:
                self.step(f"refused: {error}")
                return
            for target, _, written in each.writes:
                if written:
                    target.writer = each

    @rule(which=SMALL)
    def wait(self, which: int) -> None:
        self.step(f"wait {which}")
        if not self.commands:
            return
        each = self.commands[which % len(self.commands)]
        try:
            each.commands.wait_until_completed()
        except RuntimeError as error:
            assert "commit" in str(error), error
            return
        assert each.commands.status == "completed", each.commands.status
        left = {id(target): (target, want) for target, want, written in each.writes if written}
        for target, want in left.values():
            if target.writer is each:
                got = tuple(view[: len(want[0])] for view in target.views)
                assert same(got, want), "a scratch holds something else than the last route into it"
        self.commands.remove(each)

    @rule(
        pool=st.sampled_from(["gates", "buffers", "scratches", "commands", "encoder", "scratch"]), which=SMALL
    )
    def drop(self, pool: str, which: int) -> None:
        self.step(f"drop {pool} {which}")
        held = getattr(self, {"encoder": "commands", "scratch": "scratches"}.get(pool, pool))
        if held and pool == "encoder":
            held[which % len(held)].encoder = None
        elif held and pool == "scratch":
            held[which % len(held)].scratch = None
        elif held:
            held.pop(which % len(held))

    @rule()
    def collect(self) -> None:
        self.step("collect")
        gc.collect()

    @rule(
        count=st.integers(2, 4),
        seeds=st.lists(st.tuples(SMALL, SMALL, st.integers(0, ROWS), FUSES), min_size=1, max_size=4),
    )
    def threads(self, count: int, seeds: list[tuple[int, int, int, Any]]) -> None:
        """Each thread routes, by routers of its own and shared ones, and drops what it made."""
        self.step(f"threads {count} {seeds}")
        shared = [(x, n, g, qn.Router(layer(g).gate(self.device), TOP_K, fuse)) for g, x, n, fuse in seeds]
        wrong: list[str] = []

        def work(number: int) -> None:
            for x, n, g, router in shared[number % len(shared) :] + shared:
                want = wanted(g, x, n, False)
                if not same(router(rows(ROWS, x)[:n], return_logits=True), want):
                    wrong.append(f"thread {number}: gate {g}, x {x}, rows {n}, {router}")
                made = qn.RouteScratch(self.device, ROWS, EXPERTS, TOP_K)
                commands = self.device.command_buffer()
                with commands.compute_encoder() as encoder:
                    x_buffer = self.device.buffer(rows(ROWS, x))
                    qn.encode_moe_route_rows(encoder, x_buffer, router.gate, made, rows=n, fuse="last")
                del x_buffer
                commands.commit()
                if number % 2:
                    commands.wait_until_completed()
                    if not same((made.inds[:n], made.scores[:n]), want[:2]):
                        wrong.append(f"thread {number}, encoded: gate {g}, x {x}, rows {n}")

        def guarded(number: int) -> None:
            try:
                work(number)
            except BaseException as error:  # a thread's error is a finding
                wrong.append(f"thread {number}: {error!r}")

        running = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
        for each in running:
            each.start()
        for each in running:
            each.join()
        assert not wrong, wrong
