"""`qwisp-native adversary`: the shipped kernels against seeds of the executor (faults: test_planted.py)."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest

import qwisp_native as qn
from qwisp_native import cli
from qwisp_native.cli import adversary
from qwisp_native.gates.adversary import Attack

CPU_ONLY = pytest.mark.skipif(os.environ.get("QWISP_DEVICE", "cpu") != "cpu", reason="the software device's")


@CPU_ONLY
def test_a_thousand_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["adversary"]) == 0
    out = capsys.readouterr().out
    assert re.fullmatch(
        r"1000 seeds from 0 in [\d.]+ s by \d+ process(es)?: none of them found anything\n", out
    )


@CPU_ONLY
@pytest.mark.slow
@pytest.mark.timeout(2 * 3600)
def test_a_hundred_thousand_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    """Half an hour on one core, less on more."""
    code = cli.main(["adversary", "--seeds", "100000", "--first", "1000"])
    assert code == 0, capsys.readouterr().out


@CPU_ONLY
def test_what_a_seed_finds_is_told_with_the_way_to_have_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        adversary, "_attack", lambda: lambda seed: f"seed {seed}: lost" if seed == 7 else None
    )
    assert cli.main(["adversary", "--seeds", "5", "--first", "5", "--jobs", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["FOUND seed 7: lost", "  again: qwisp-native adversary --seeds 1 --first 7"]
    assert lines[2].endswith("1 of them found something")
    assert cli.main(["adversary", "--seeds", "5", "--first", "5", "--jobs", "1", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["found"] == [{"seed": 7, "found": "seed 7: lost"}]
    assert (found["seeds"], found["first"], found["jobs"]) == (5, 5, 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--seeds", "0"], "--seeds: '0', but it must be from 1 to 9223372036854775807"),
        (["--first", "-1"], "--first: '-1', but it must be from 0"),
        (["--jobs", "x"], "--jobs: 'x', but it must be from 1"),
        (["--seeds", "2", "--first", str(2**63 - 1)], "the last seed is 9223372036854775807"),
    ],
)
def test_wrong_usage(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["adversary", *words])
    assert left.value.code == 2
    assert told in capsys.readouterr().err


@CPU_ONLY
def test_a_wrong_result_is_found() -> None:
    attack = Attack(qn.Device("cpu"), np.random.default_rng(0))
    assert attack(0) is None
    attack.targets[0].wanted[()]["inds"][0, 0] ^= 1
    told = attack(0)
    assert told is not None
    assert told.startswith("seed 0: pair with no extras: inds: row 0 slot 0: ")
