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


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "cuda" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cuda)
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


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda"):
        _skip_without("cuda")


def _skip_without(kind: str) -> None:
    import qwisp_native as qn

    asked = os.environ.get("QWISP_DEVICE", kind)
    if asked != kind:
        pytest.skip(f"{kind}: the device under test is {asked}")
    found = [each for each in qn.devices() if each.kind == kind]
    if not any(each.available for each in found):
        pytest.skip(f"{kind}: {found[0].why}")


@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda), "metal"])
def each_device(request: pytest.FixtureRequest) -> qn.Device:
    """Every kind of device that is here and, where one was asked for, only that."""
    import qwisp_native as qn

    _skip_without(request.param)
    return qn.Device(request.param)


@pytest.fixture
def context(device: qn.Device) -> Context:
    """What a gate is given."""
    from qwisp_native.gates import Context

    return Context(device)
