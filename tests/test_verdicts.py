"""The stored verdicts of `qwisp-native tune`, and what `fuse="auto"` makes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qwisp_native as qn
import small
from qwisp_native import verdicts
from qwisp_native.verdicts import Machine, Verdict

SHAPE = (2, small.HIDDEN, small.EXPERTS, small.TOP_K)
WIN = Verdict(SHAPE, "single", "GO", "single", 1.4, 1.3, 1.5)
LOSS = replace(WIN, variant="pair", decision="NO-GO", speed_up=1.0, low=0.9, high=1.1)


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(verdicts, "path", lambda: tmp_path / "cache" / "verdicts.json")
    return tmp_path / "cache" / "verdicts.json"


def here(device: qn.Device) -> Machine:
    return verdicts.machine(device.kind, device.name, device.contract, device.shader_sha256)


def auto(device: qn.Device, rows: int = 2) -> qn.RoutePlan:
    """A fresh device: verdicts are read when one is made."""
    gate = small.layer().gate(qn.Device(device.kind))
    return qn.Router(gate, small.TOP_K, fuse="auto").plan(rows)


def test_auto_switches_on_and_off(device: qn.Device, file: Path) -> None:
    assert auto(device).variant == "pair"
    assert "no measurement" in auto(device).reason
    verdicts.store(here(device), [WIN])
    assert auto(device).variant == "single"
    assert "measured to win" in auto(device).reason
    assert auto(device, rows=3).variant == "pair"  # another shape
    verdicts.store(here(device), [LOSS])
    assert auto(device).variant == "pair"
    assert "nothing was measured to beat it" in auto(device).reason
    verdicts.store(here(device), [replace(WIN, variant="last", candidate="last")])
    assert auto(device).variant == "last"
    file.unlink()
    assert auto(device).variant == "pair"


def test_auto_routes_alike_with_and_without_a_verdict(device: qn.Device) -> None:
    x = small.rows(2)
    want = qn.Router(small.layer().gate(device), small.TOP_K, fuse=False)(x)
    verdicts.store(here(device), [WIN])
    fresh = qn.Device(device.kind)
    assert small.same(qn.Router(small.layer().gate(fresh), small.TOP_K, fuse="auto")(x), want)


def test_other_flags_do_not_ask(device: qn.Device) -> None:
    verdicts.store(here(device), [WIN])
    fresh = qn.Device(device.kind)
    for fuse, variant in ((False, "pair"), (True, "last"), ("pair", "pair"), ("last", "last")):
        assert qn.plan(fresh, *SHAPE, fuse=fuse).variant == variant


@pytest.mark.parametrize("part", list(Machine.__dataclass_fields__))
def test_a_verdict_of_another_machine_is_ignored(device: qn.Device, part: str) -> None:
    verdicts.store(replace(here(device), **{part: "another"}), [WIN])
    assert auto(device).variant == "pair"


def test_void_is_not_stored(device: qn.Device) -> None:
    verdicts.store(here(device), [WIN])
    verdicts.store(here(device), [replace(LOSS, decision="VOID")])
    assert verdicts.load(here(device)) == [WIN]


def test_the_same_key_is_replaced_and_others_stay(device: qn.Device) -> None:
    other, elsewhere = replace(WIN, shape=(4, *SHAPE[1:])), replace(here(device), name="another")
    verdicts.store(elsewhere, [WIN])
    verdicts.store(here(device), [WIN, other])
    verdicts.store(here(device), [LOSS])
    assert sorted(verdicts.load(here(device)), key=lambda v: v.shape) == [LOSS, other]
    assert verdicts.load(elsewhere) == [WIN]


ENTRY = {"machine": {}, "shape": [2, 512, 16, 4], "variant": "single"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 1}',
        '{"format": 2, "verdicts": []}',
        '{"format": 1, "verdicts": 7}',
        '{"format": 1, "verdicts": [7, null, {}, []]}',
        json.dumps({"format": 1, "verdicts": [ENTRY]}),
        "\0",
        "[" * 100_000,
    ],
    ids=lambda text: repr(text[:30]),
)
def test_a_broken_file_counts_as_empty_and_is_replaced(device: qn.Device, file: Path, content: str) -> None:
    file.parent.mkdir()
    file.write_text(content)
    assert auto(device).variant == "pair"
    verdicts.store(here(device), [WIN])
    assert auto(device).variant == "single"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shape", [2, 512, 16]),
        ("shape", [2, 512, 16, "4"]),
        ("shape", [2, 512, 16, -4]),
        ("shape", [2, 512, 16, 2**70]),
        ("shape", None),
        ("variant", "triple"),
        ("variant", None),
        ("surplus", 1),
        ("decision", ["GO"]),
        ("decision", "VOID"),
        ("candidate", 3),
        ("speed_up", None),
        ("low", "1.0"),
        ("high", 10**400),
    ],
)
def test_a_broken_entry_is_passed_over(device: qn.Device, file: Path, name: str, value: Any) -> None:
    verdicts.store(here(device), [replace(WIN, shape=(9, *SHAPE[1:])), WIN])
    content = json.loads(file.read_text())
    content["verdicts"][0][name] = value
    file.write_text(json.dumps(content))
    assert verdicts.load(here(device)) == [WIN]
    assert auto(device).variant == "single"


def test_another_format_is_ignored(device: qn.Device, file: Path) -> None:
    verdicts.store(here(device), [WIN])
    file.write_text(file.read_text().replace('"format": 1', '"format": 99'))
    assert auto(device).variant == "pair"


def test_processes_that_store_at_once_lose_nothing(device: qn.Device, file: Path) -> None:
    code = """
import sys
from pathlib import Path
from qwisp_native import verdicts
from qwisp_native.verdicts import Machine, Verdict
verdicts.path = lambda: Path(sys.argv[1])
for i in range(20):
    shape = (int(sys.argv[2]) * 100 + i + 1, 512, 16, 4)
    verdicts.store(Machine(*"abcdefg"), [Verdict(shape, "single", "GO", "single", 2.0, 1.9, 2.1)])
"""
    running = [subprocess.Popen([sys.executable, "-c", code, str(file), str(number)]) for number in range(3)]
    seen = 0
    while any(process.poll() is None for process in running):
        if file.exists():  # a reader sees a whole file, and it only grows
            found = len(json.loads(file.read_text())["verdicts"])
            assert found >= seen
            seen = found
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(verdicts.load(Machine(*"abcdefg"))) == 60
    assert sorted(path.name for path in file.parent.iterdir()) == ["verdicts.json", "verdicts.lock"]


def test_a_failed_write_leaves_the_old_file(
    device: qn.Device, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts.store(here(device), [WIN])
    before = file.read_bytes()

    def full(*args: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        verdicts.store(here(device), [LOSS])
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.iterdir()) == ["verdicts.json", "verdicts.lock"]


def test_the_folder_comes_from_the_environment(tmp_path: Path) -> None:
    code = "from qwisp_native import verdicts; print(verdicts.path())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "QWISP_CACHE_DIR": str(tmp_path / "new")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path / "new" / "verdicts.json")


def test_shapes_survive_the_way_through_json(device: qn.Device) -> None:
    verdicts.store(here(device), [replace(WIN, low=float(np.float64(1.25)))])
    (found,) = verdicts.load(here(device))
    assert found == replace(WIN, low=1.25)
