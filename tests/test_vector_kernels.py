"""The vector kernels of the software device: choice of target, threads, and bits against the executor."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import qwisp_native as qn
from qwisp_native.gates import targets
from qwisp_native.gates.inputs import dense
from qwisp_native.gates.registry import Context


@pytest.fixture
def cpu() -> qn.Device:
    return qn.Device("cpu")


def test_names(cpu: qn.Device) -> None:
    assert cpu.kernels in cpu.kernel_names
    assert cpu.kernel_names[-2:] == ["portable", "simt"]


def test_wrong_choices(cpu: qn.Device) -> None:
    for value in ("", "sse", "AVX2"):
        with pytest.raises(ValueError, match="kernels"):
            cpu.kernels = value
    for count in (0, -1, 65):
        with pytest.raises(ValueError, match="threads"):
            cpu.threads = count
    with pytest.raises(TypeError):
        cpu.kernels = 3  # type: ignore[assignment]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_random_rows(cpu: qn.Device, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(cpu, "threads", threads)
    told = list(targets.random_rows(Context(cpu, 0), 35_000, part=threads))
    assert not [text for text in told if text]


@pytest.mark.slow
def test_a_million_random_rows(cpu: qn.Device) -> None:
    assert not [text for text in targets.random_rows(Context(cpu, 0), 1_000_000, part=99) if text]


def test_routers_in_parallel(cpu: qn.Device) -> None:
    rng = np.random.default_rng(5)
    cases = [dense(rng, 9, 64, 512) for _ in range(6)]
    routers = [qn.Router(case.gate(cpu), top_k=8, fuse="single") for case in cases]
    want = [router(case.x) for router, case in zip(routers, cases, strict=True)]

    def again(i: int) -> bool:
        got = routers[i](cases[i].x)
        return all((a == b).all() for a, b in zip(got, want[i], strict=True))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(again, [i % 6 for i in range(600)]))
