"""What every test may ask for. The device comes from outside: `pytest --device metal`, or QWISP_DEVICE."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import qwisp_native as qn
    from qwisp_native.gates import Context


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default=None, metavar="KIND", help="the device under test (QWISP_DEVICE)")


def pytest_configure(config: pytest.Config) -> None:
    kind = config.getoption("--device")
    if kind:
        os.environ["QWISP_DEVICE"] = kind
    # What was tuned on this machine must not decide what "auto" means in a test.
    os.environ["QWISP_CACHE_DIR"] = tempfile.mkdtemp(prefix="qwisp-native-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(os.environ["QWISP_CACHE_DIR"], ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for name in ("slow", "qemu"):
        if name in (config.getoption("-m") or ""):
            continue
        skip = pytest.mark.skip(reason=f"{name}: runs with -m {name}")
        for item in items:
            if name in item.keywords:
                item.add_marker(skip)


@pytest.fixture(scope="session")
def device() -> qn.Device:
    import qwisp_native as qn

    return qn.Device()


@pytest.fixture
def context(device: qn.Device) -> Context:
    """What a gate is given."""
    from qwisp_native.gates import Context

    return Context(device)
