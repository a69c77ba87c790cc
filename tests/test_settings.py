"""Environment variables: each defined once, read once, refused by name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qwisp_native import settings

DEFAULTS = settings.Settings(
    device=None,
    fuse=False,
    contract="off",
    shader_dir=None,
    simt_seed=None,
    cpu_kernels=None,
    cpu_threads=None,
    cache_dir=None,
)


def test_nothing_set() -> None:
    assert settings.read({}) == DEFAULTS


def test_empty_is_unset() -> None:
    assert settings.read({variable.name: "" for variable in settings.VARIABLES}) == DEFAULTS


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("QWISP_DEVICE", "cpu", "device", "cpu"),
        ("QWISP_DEVICE", "cuda", "device", "cuda"),
        ("QWISP_DEVICE", "metal", "device", "metal"),
        ("QWISP_FUSE_ROUTE", "0", "fuse", False),
        ("QWISP_FUSE_ROUTE", "1", "fuse", True),
        ("QWISP_FUSE_ROUTE", "auto", "fuse", "auto"),
        ("QWISP_FUSE_ROUTE", "single", "fuse", "single"),
        ("QWISP_FUSE_ROUTE", "last", "fuse", "last"),
        ("QWISP_CONTRACT", "compiler", "contract", "compiler"),
        ("QWISP_SIMT_SEED", "0", "simt_seed", 0),
        ("QWISP_CPU_KERNELS", "simt", "cpu_kernels", "simt"),
        ("QWISP_CPU_THREADS", "1", "cpu_threads", 1),
        ("QWISP_CPU_THREADS", "64", "cpu_threads", 64),
        ("QWISP_SIMT_SEED", str(2**63 - 1), "simt_seed", 2**63 - 1),
    ],
)
def test_values(name: str, text: str, field: str, value: object) -> None:
    assert getattr(settings.read({name: text}), field) == value


def test_shader_folder(tmp_path: Path) -> None:
    assert settings.read({"QWISP_SHADER_DIR": str(tmp_path)}).shader_dir == tmp_path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("QWISP_DEVICE", "gpu"),
        ("QWISP_DEVICE", "CPU"),
        ("QWISP_FUSE_ROUTE", "yes"),
        ("QWISP_FUSE_ROUTE", " 1"),
        ("QWISP_FUSE_ROUTE", "pair"),
        ("QWISP_CONTRACT", "on"),
        ("QWISP_SIMT_SEED", "-1"),
        ("QWISP_CPU_KERNELS", "sse"),
        ("QWISP_CPU_THREADS", "0"),
        ("QWISP_CPU_THREADS", "65"),
        ("QWISP_CPU_THREADS", "1.5"),
        ("QWISP_SIMT_SEED", "1e3"),
        ("QWISP_SIMT_SEED", "٣"),
        ("QWISP_SIMT_SEED", str(2**63)),
        ("QWISP_SIMT_SEED", "9" * 5000),
        ("QWISP_SHADER_DIR", "/no/such/folder"),
        ("QWISP_SHADER_DIR", "\0"),
        ("QWISP_CACHE_DIR", __file__),
        ("QWISP_CACHE_DIR", "\0"),
        ("QWISP_CACHE_DIR", "a" * 5000),
        ("QWISP_SHADER_DIR", "a" * 5000),
    ],
)
def test_bad_value_names_all_three(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        settings.read({name: text})
    (variable,) = (each for each in settings.VARIABLES if each.name == name)
    assert variable.values in str(caught.value)
    assert repr(text) in str(caught.value)


def test_defined_once() -> None:
    names = [variable.name for variable in settings.VARIABLES]
    assert len(set(names)) == len(names)
    fields = [variable.field for variable in settings.VARIABLES if variable.used_by == "package"]
    assert sorted(fields) == sorted(settings.Settings.__dataclass_fields__)


def test_nobody_else_reads_the_environment() -> None:
    package = Path(settings.__file__).parent
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"os\.environ|os\.getenv|from os import", path.read_text(encoding="utf-8"))
    }
    assert found == {"settings.py"}


def in_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("QWISP_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_read_once() -> None:
    code = """
import os, qwisp_native as qn
os.environ["QWISP_FUSE_ROUTE"] = "last"
first = qn.plan(qn.Device("cpu"), 1, 512, 8, 2).variant
os.environ["QWISP_FUSE_ROUTE"] = "0"
print(first, qn.plan(qn.Device("cpu"), 1, 512, 8, 2).variant)
"""
    done = in_process(code)
    assert done.stdout.split() == ["last", "last"], done.stderr


def test_fuse_from_the_environment_and_an_argument_over_it() -> None:
    code = """
import qwisp_native as qn
device = qn.Device("cpu")
print(qn.plan(device, 1, 512, 8, 2).variant, qn.plan(device, 1, 512, 8, 2, fuse=False).variant)
"""
    done = in_process(code, QWISP_FUSE_ROUTE="single")
    assert done.stdout.split() == ["single", "pair"], done.stderr


def test_import_survives_a_bad_value() -> None:
    code = "import qwisp_native as qn; print('imported'); qn.Device()"
    done = in_process(code, QWISP_DEVICE="gpu")
    assert done.stdout == "imported\n"
    assert "ValueError: QWISP_DEVICE: 'gpu', but it must be cpu, cuda, metal" in done.stderr


def test_seed_from_the_environment() -> None:
    done = in_process("import qwisp_native as qn; print(qn.Device('cpu').simt_seed)", QWISP_SIMT_SEED="42")
    assert done.stdout == "42\n", done.stderr


def test_contract_from_the_environment() -> None:
    done = in_process(
        "import qwisp_native as qn; print(qn.Device('cpu').contract)", QWISP_CONTRACT="compiler"
    )
    assert done.stdout == "compiler\n", done.stderr


def test_shader_folder_without_shaders(tmp_path: Path) -> None:
    done = in_process("import qwisp_native as qn; qn.Device('cpu')", QWISP_SHADER_DIR=str(tmp_path))
    assert "ValueError: QWISP_SHADER_DIR" in done.stderr
    assert "qmm8_rows.metal" in done.stderr


def test_the_software_device_takes_only_its_own_shaders(tmp_path: Path) -> None:
    """They are compiled into the module: another text would silently not be what runs."""
    source = Path(__file__).parent.parent / "shaders"
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    code = "import qwisp_native as qn; print(qn.Device('cpu').shader_sha256 == qn.shader_sha256())"
    assert in_process(code, QWISP_SHADER_DIR=str(tmp_path)).stdout == "True\n"
    with (tmp_path / "route_aux.metal").open("a") as changed:
        changed.write("// changed\n")
    done = in_process(code, QWISP_SHADER_DIR=str(tmp_path))
    assert "DeviceError" in done.stderr
