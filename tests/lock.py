"""Records the gates, with their number of checks and a hash of their source: `python tests/lock.py`.

tests/test_locked.py fails if one is missing or changed since, so that no gate is weakened unseen.
"""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = Path(__file__).parent / "locked_tests.json"
GATES = ROOT / "python" / "qwisp_native" / "gates"
LOSSLESS = ROOT / "python" / "qwisp_native" / "lossless"
TESTS = (
    "contract",
    "field_faults",
    "gates",
    "lossless",
    "lossless_planted",
    "planted",
    "planted_host",
    "planted_vector",
    "properties",
)


def sha(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


def definitions(path: Path) -> dict[str, str]:
    """Top-level functions and classes, each with the hash of its source, and one hash of all the rest."""
    text = path.read_text()
    lines = text.splitlines()
    found: dict[str, str] = {}
    rest = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found[node.name] = sha("\n".join(lines[first - 1 : node.end_lineno]))
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            rest += lines[node.lineno - 1 : node.end_lineno]
    return found | {"(rest)": sha("\n".join(rest))}


def sources() -> dict[str, dict[str, str]]:
    """What must not change unseen: test functions, what gates are made of, golden arrays, faults."""
    here = Path(__file__).parent
    tests = {
        f"{path.name}::{name}": value
        for path in (here / f"test_{word}.py" for word in TESTS)
        for name, value in definitions(path).items()
        if name.startswith("test_")
    }
    parts = {
        f"{path.relative_to(ROOT)}::{name}": value
        for path in [
            *sorted(GATES.rglob("*.py")),
            *(LOSSLESS / f"{name}.py" for name in ("decode", "gate", "plan", "routing", "trace")),
            *(here / f"{name}.py" for name in ("contract", "planted", "planted_lossless")),
        ]
        for name, value in definitions(path).items()
    }
    data = [
        *sorted(GATES.glob("data/*")),
        *sorted(here.glob("faults/**/*.toml")),
    ]
    files = {str(path.relative_to(ROOT)): sha(path.read_bytes()) for path in data}
    return {"tests": tests, "parts": parts, "files": files}


def record() -> dict[str, object]:
    import qwisp_native as qn
    from qwisp_native.gates import GATES as REGISTRY
    from qwisp_native.gates import Context
    from qwisp_native.gates.command import run_gate

    context = Context(qn.Device("cpu"))
    gates = {}
    for name, gate in REGISTRY.items():
        count, failures = run_gate(gate, context)
        if failures:
            raise SystemExit(f"{name} is red, nothing was recorded: {failures[0]}")
        gates[name] = {"checks": count}
    locked = sources()
    total = {
        "gates": len(gates),
        "checks": sum(g["checks"] for g in gates.values()),
        "tests": len(locked["tests"]),
    }
    return {"total": total, "gates": gates, **locked}


if __name__ == "__main__":
    LOCK.write_text(json.dumps(record(), indent=1) + "\n")
    print(json.dumps(json.loads(LOCK.read_text())["total"]))
