"""Killed writers, a full disk, a read-only home, two that tune: nothing is lost, and the next call works."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import qwisp_native as qn
from qwisp_native import verdicts

HEAD = """
import ctypes, os, resource, sys
import numpy as np
import qwisp_native as qn
from qwisp_native import verdicts
from qwisp_native.cli import main
from qwisp_native.verdicts import Machine, Verdict
from small import TOP_K, layer, rows, same

HERE = Machine(*"abcdefg")

def verdict(number):
    return Verdict((number, 512, 16, 4), "single", "GO", "single", 2.0, 1.9, 2.1)

def works():
    gate = layer().gate(qn.Device("cpu"))
    x = rows(2)
    return same(qn.Router(gate, TOP_K, fuse="auto")(x), qn.Router(gate, TOP_K, fuse=False)(x))

def tune():
    small = "--rows 1 --hidden 512 --experts 8 --top-k 2 --layers 2 --repeats 3".split()
    return main(["tune", "--device", "cpu", *small])
"""


def start(code: str, folder: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + code],
        env=os.environ | {"PYTHONPATH": path, "QWISP_CACHE_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, folder: Path) -> tuple[str, str]:
    child = start(code, folder)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, f"exit status {child.returncode}\n{out}\n{err}"
    return out, err


def test_killed_while_storing(tmp_path: Path) -> None:
    """A reader sees a whole file, nothing that was stored goes, no lock or half-written file is left."""
    code = """
for number in range(1, 100_000):
    verdicts.store(HERE, [verdict(number)] + [verdict(100_000 + i) for i in range(200)])
    print(number, flush=True)
"""
    seconds, stored = random.Random(0), 0
    for _ in range(5):
        child = start(code, tmp_path)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(seconds.uniform(0, 0.1))
        child.send_signal(signal.SIGKILL)
        said = [int(word) for word in child.communicate()[0].split()]
        stored = max([stored, *said])
        content = json.loads((tmp_path / "verdicts.json").read_text())
        assert {entry["shape"][0] for entry in content["verdicts"]} >= set(range(1, stored + 1))
    (tmp_path / "verdicts.jsonx.new").write_text("half")  # what a kill may leave
    run("verdicts.store(HERE, [verdict(7)])", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["verdicts.json", "verdicts.lock"]


def test_a_full_disk(tmp_path: Path) -> None:
    """No file may grow beyond some bytes: what was there stays, and `tune` shows what it measured."""
    code = """
verdicts.store(HERE, [verdict(1)])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
try:
    verdicts.store(HERE, [verdict(2)])
except OSError as error:
    print(error)
assert verdicts.load(HERE) == [verdict(1)]
assert works()
assert tune() == 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
verdicts.store(HERE, [verdict(2)])
assert verdicts.load(HERE) == [verdict(1), verdict(2)]
"""
    out, err = run(code, tmp_path)
    assert "File too large" in out
    assert "| 1 | pair |" in out, "the report is lost"
    assert "qwisp-native tune: " in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["verdicts.json", "verdicts.lock"]


# Root may write anywhere, unless it gives that up (CAP_DAC_OVERRIDE, by capset(2)).
READ_ONLY = """
if os.getuid() == 0:
    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
    data = (ctypes.c_uint32 * 6)()
    head = Header(0x20080522, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(ctypes.byref(head), data) == 0
    data[0] &= ~0b10
    assert libc.capset(ctypes.byref(head), data) == 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="capset is Linux's")
@pytest.mark.parametrize("there", [True, False])
def test_a_read_only_home(tmp_path: Path, there: bool) -> None:
    """Routing needs no home; `tune` says which file it cannot write, and shows what it measured."""
    folder = tmp_path / "cache"
    if there:
        folder.mkdir()
    code = """
assert works()
try:
    verdicts.store(HERE, [verdict(1)])
except OSError as error:
    print(error)
assert tune() == 1
assert works()
"""
    (folder if there else tmp_path).chmod(0o555)
    try:
        out, err = run(READ_ONLY + code, folder)
    finally:
        (folder if there else tmp_path).chmod(0o755)
    assert "Permission denied" in out
    assert str(folder) in out
    assert "| 1 | pair |" in out, "the report is lost"
    assert "qwisp-native tune: " in err
    assert "Permission denied" in err
    assert not there or not list(folder.iterdir())


def test_no_home_at_all(tmp_path: Path) -> None:
    code = "assert works(); assert qn.plan(qn.Device('cpu'), 2, 512, 16, 4, fuse='auto').variant == 'pair'"
    run(code, tmp_path / "is" / "not" / "there")
    assert not list(tmp_path.iterdir())


def test_two_processes_tune(tmp_path: Path) -> None:
    """Both end well and the file holds what the last of them found."""
    children = [start("sys.exit(tune() not in {0, 3})", tmp_path) for _ in range(2)]
    ended = [(*child.communicate(timeout=120), child.returncode) for child in children]
    assert [code for _, _, code in ended] == [0, 0], ended
    device = qn.Device("cpu")
    here = verdicts.machine(device.kind, device.name, device.contract, device.shader_sha256)
    content = (
        json.loads((tmp_path / "verdicts.json").read_text()) if (tmp_path / "verdicts.json").exists() else {}
    )
    shapes = [
        tuple(entry["shape"])
        for entry in content.get("verdicts", [])
        if entry["machine"]["name"] == here.name
    ]
    assert len(shapes) == len(set(shapes)) <= 1
