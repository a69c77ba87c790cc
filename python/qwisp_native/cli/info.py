"""`qwisp-native info`: what a bug report needs."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import failure, print_json, print_table

if TYPE_CHECKING:
    from .. import Device

SUMMARY = "print devices, versions, limits and settings: what a bug report needs"
DESCRIPTION = (
    "Print devices, versions, limits and settings. Exit code 1 if a setting is wrong or no device works."
)

PACKAGES = ("numpy", "safetensors", "tqdm", "mlx", "mlx-lm", "torch")
# docs/contract.md section 1; the fused kernels keep one winner a lane.
LIMITS: dict[str, int | str] = {
    "hidden_multiple": 512,
    "experts_multiple": 8,
    "max_experts": 256,
    "max_top_k": "experts",
    "max_fused_top_k": 32,
    "bits": 8,
    "group_size": 64,
}
HIDDEN, EXPERTS, TOP_K = 2048, 256, 8  # of the seed model
CPU_FEATURES = {
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512_fp16",
    "asimd",
    "asimdhp",
    "fphp",
    "sve",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `info`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Gather, print."""
    found = gather()
    if options.json:
        print_json(found)
    else:
        _print(found)
    healthy = not any(setting["error"] for setting in found["settings"])
    return 0 if healthy and not found["device"].get("error") else 1


def gather() -> dict[str, Any]:
    """Collect everything in JSON's types; whatever is wrong is part of it."""
    from .. import __version__, _core, devices, shader_sha256

    return {
        "qwisp_native": __version__,
        "compiler": _core.compiler,
        "shader_sha256": shader_sha256(),
        "devices": [
            {"kind": d.kind, "name": d.name, "available": d.available, "why": d.why} for d in devices()
        ],
        "device": _device(),
        "limits": LIMITS,
        "settings": _settings(),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "cpu": _cpu(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _device() -> dict[str, Any]:
    """Make the default device and plan the seed model on it, or say why that fails."""
    from .. import Device, plan
    from ..settings import VARIANTS
    from .route import plan_as_json

    try:
        device = Device()
        variants = {
            name: plan_as_json(plan(device, 1, HIDDEN, EXPERTS, TOP_K, fuse=name)) for name in VARIANTS
        }
        return {
            "kind": device.kind,
            "name": device.name,
            "contract": device.contract,
            "shader_sha256": device.shader_sha256,
            "variants": variants,
            "default": plan_as_json(plan(device, 1, HIDDEN, EXPERTS, TOP_K)),
            "verdicts": _verdicts(device),
        }
    except (ValueError, RuntimeError, MemoryError) as error:
        return {"error": failure(error)}


def _verdicts(device: Device) -> dict[str, Any]:
    """What `fuse="auto"` goes by on a device, and where it is kept."""
    from .. import verdicts

    here = verdicts.machine(device.kind, device.name, device.contract, device.shader_sha256)
    return {"file": str(verdicts.path()), "found": [asdict(verdict) for verdict in verdicts.load(here)]}


def _settings() -> list[dict[str, Any]]:
    """List the environment variables: value, where it comes from, what is wrong with it."""
    from ..settings import VARIABLES, given, read

    rows = []
    for variable in VARIABLES:
        value = given(variable)
        try:
            read({variable.name: value} if value else {})
            error = None
        except ValueError as wrong:
            error = str(wrong)
        rows.append(
            {
                "name": variable.name,
                "value": value or variable.default or None,
                "source": "environment" if value else "default",
                "values": variable.values,
                "used_by": variable.used_by,
                "effect": variable.effect,
                "error": error,
            }
        )
    return rows


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> dict[str, Any]:
    """Name the processor, and its features that matter to arithmetic."""
    from ..verdicts import processor

    words: dict[str, str] = {}
    if sys.platform == "linux":
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        words = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    features = (words.get("flags") or words.get("Features") or "").split()
    return {
        "name": processor(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "features": sorted(CPU_FEATURES.intersection(features)),
    }


def _print(found: dict[str, Any]) -> None:
    cpu, device = found["cpu"], found["device"]
    print(f"qwisp_native {found['qwisp_native']}, Python {found['python']}, {found['platform']}")
    print(f"compiler     {found['compiler']}")
    print(f"shaders      sha256 {found['shader_sha256']}")
    print(f"cpu          {cpu['name']}, {cpu['cores']} cores, {' '.join(cpu['features']) or cpu['machine']}")
    print(f"packages     {', '.join(f'{k} {v}' for k, v in found['packages'].items() if v)}")
    print("devices")
    print_table(
        (d["kind"], d["name"] if d["available"] else f"not here: {d['why']}") for d in found["devices"]
    )
    if "error" in device:
        print(f"default device: {device['error']}")
    else:
        print(f"default device: {device['kind']} ({device['name']}), contract {device['contract']}")
        if device["shader_sha256"] != found["shader_sha256"]:
            print(f"  its shaders are others, from QWISP_SHADER_DIR: sha256 {device['shader_sha256']}")
        print(f"  one token, {HIDDEN} columns, {EXPERTS} experts, top {TOP_K}:")
        for name, plan in device["variants"].items():
            print(f"    {name:6} {' + '.join(plan['kernels'])}")
        print(f"    by default {device['default']['variant']}: {device['default']['reason']}")
        _print_verdicts(**device["verdicts"])
    print(f"limits       {', '.join(f'{key} {value}' for key, value in found['limits'].items())}")
    print("settings")
    settings = found["settings"]
    print_table((s["name"], s["value"] or "unset", f"({s['source']})", s["effect"]) for s in settings)
    for setting in settings:
        if setting["error"]:
            print(f"  WRONG {setting['error']}")


def _print_verdicts(file: str, found: list[dict[str, Any]]) -> None:
    if not found:
        print(f"  auto is the pair: `qwisp-native tune` has left nothing about this device in {file}")
        return
    print(f"  auto, by {file}:")
    rows = []
    for each in found:
        m, hidden, experts, top_k = each["shape"]
        rows.append(
            (
                f"M={m} H={hidden} E={experts} K={top_k}",
                each["variant"],
                f"{each['decision']}: {each['candidate']} is {each['speed_up']:.3f} times as fast as the pair"
                f" ({each['low']:.3f} to {each['high']:.3f})",
            )
        )
    print_table(rows)
