"""Verdict files, reports and settings. Broken ones count as empty, or are refused."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import journal
from checkpoints import INTEGERS, JSON, lie
from hypothesis import given
from hypothesis import strategies as st

import qwisp_native as qn
import small
from qwisp_native import settings, verdicts
from qwisp_native.cli import main
from qwisp_native.verdicts import Verdict

SHAPE = (2, small.HIDDEN, small.EXPERTS, small.TOP_K)
GOOD = Verdict(SHAPE, "single", "GO", "single", 1.4, 1.3, 1.5)


def here() -> verdicts.Machine:
    device = qn.Device("cpu")
    return verdicts.machine(device.kind, device.name, device.contract, device.shader_sha256)


@st.composite
def verdict_files(draw: st.DrawFn) -> bytes:
    """A file of `tune`, then lies and damage."""
    entry = {"machine": asdict(here()), **asdict(GOOD)}
    content: Any = {"format": 1, "verdicts": [entry, dict(entry, shape=[9, 512, 16, 4])]}
    for _ in range(draw(st.integers(0, 3))):
        content = lie(draw, content)
    whole = json.dumps(content).encode()
    how = draw(st.sampled_from(["", "", "", "cut", "flip", "bytes"]))
    if how == "cut":
        whole = whole[: draw(st.integers(0, len(whole)))]
    elif how == "flip":
        at = draw(st.integers(0, len(whole) - 1))
        whole = whole[:at] + bytes([whole[at] ^ 1 << draw(st.integers(0, 7))]) + whole[at + 1 :]
    elif how == "bytes":
        deep = [b"[" * 100_000, b'{"a":' * 50_000, b"9" * 5000, b"\xef\xbb\xbf{}", b"\xff\xfe"]
        whole = draw(st.one_of(st.binary(max_size=60), st.sampled_from(deep)))
    return whole


@given(whole=verdict_files())
def test_any_verdict_file(whole: bytes) -> None:
    """A device is made whatever it holds, `auto` routes on, and storing puts a good file in its place."""
    journal.begin(f"verdicts {whole[:1800]!r}")
    with tempfile.TemporaryDirectory(prefix="qwisp-fuzz-") as name:
        file = Path(name) / "verdicts.json"
        file.write_bytes(whole)
        verdicts.path = lambda: file
        device = qn.Device("cpu")
        plan = qn.plan(device, *SHAPE, fuse="auto")
        assert plan.variant in settings.VARIANTS
        journal.step("info")
        with tempfile.TemporaryFile("w+") as output:
            saved = os.dup(1)
            os.dup2(output.fileno(), 1)
            try:
                assert main(["info"]) in {None, 0}
            finally:
                os.dup2(saved, 1)
                os.close(saved)
        journal.step("store")
        before = verdicts.load(here())
        verdicts.store(here(), [GOOD])
        kept = [each for each in before if each.shape != SHAPE]
        assert sorted(repr(each) for each in verdicts.load(here())) == sorted(
            repr(each) for each in [*kept, GOOD]
        )
        assert qn.plan(qn.Device("cpu"), *SHAPE, fuse="auto").variant == "single"


@given(
    environment=st.dictionaries(
        st.sampled_from([variable.name for variable in settings.VARIABLES]),
        st.one_of(
            st.text(max_size=20),
            INTEGERS.map(str),
            st.sampled_from(
                [
                    "cpu",
                    "auto",
                    "pair",
                    "last",
                    "simt",
                    "/",
                    "/dev/null",
                    "/root/x",
                    "~",
                    "a" * 5000,
                    "\0",
                    "٣",
                ]
            ),
        ),
    )
)
def test_any_environment(environment: dict[str, str]) -> None:
    """Settings, or a ValueError that names the variable."""
    journal.begin(f"settings {environment!r}")
    try:
        read = settings.read(environment)
    except ValueError as error:
        assert any(f"{name}: " in str(error) for name in environment), error
    else:
        assert read.fuse in {False, True, "auto", *settings.VARIANTS}
        assert read.cpu_threads is None or 1 <= read.cpu_threads <= settings.MAX_THREADS
        assert read.simt_seed is None or 0 <= read.simt_seed < 2**63


@given(content=JSON, damage=st.one_of(st.binary(max_size=3), st.just(b"[" * 100_000)))
def test_any_report(content: Any, damage: bytes) -> None:
    """`bench compare` refuses what is no report with an exit status, not with a traceback."""
    journal.begin(f"report {content!r:.1000} {damage!r}")
    with tempfile.TemporaryDirectory(prefix="qwisp-fuzz-") as name:
        file = Path(name) / "results.json"
        file.write_bytes(damage if len(damage) > 3 else json.dumps(content).encode() + damage)
        try:
            status = main(["bench", "compare", str(file), str(file)])
        except SystemExit as error:
            status = error.code
        assert status, "a file that is no report was compared"


TESTS = [test_any_verdict_file, test_any_environment, test_any_report]
