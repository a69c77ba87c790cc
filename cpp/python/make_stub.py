"""Write python/qwisp_native/_core.pyi from the built module, or check that it is up to date.

    python cpp/python/make_stub.py [--check]

Needs an importable qwisp_native, pybind11-stubgen and ruff.
"""

from __future__ import annotations

import argparse
import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULE = "qwisp_native._core"
STUB = ROOT / "python" / "qwisp_native" / "_core.pyi"
HEADER = "# Written by cpp/python/make_stub.py.\n# ruff: noqa\n"


def generate() -> str:
    """The stub, as pybind11-stubgen and ruff write it, but for what the former gets wrong."""
    python = [sys.executable, "-m"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*python, "pybind11_stubgen", "--exit-code", "-o", folder, MODULE], check=True)
        path = Path(folder, *MODULE.split(".")).with_suffix(".pyi")
        text = path.read_text(encoding="utf-8")
        # It takes our Buffer for Python's.
        text = text.replace("typing_extensions.Buffer", "Buffer").replace("import typing_extensions\n", "")
        text = re.sub(r"^(__version__|compiler): str = .*$", r"\1: str", text, flags=re.MULTILINE)
        text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
        path.write_text(HEADER + text, encoding="utf-8")
        settings = ["--config", str(ROOT / "pyproject.toml")]
        subprocess.run([*python, "ruff", "format", "-q", *settings, str(path)], check=True)
        return path.read_text(encoding="utf-8")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    text = generate()
    if not check:
        STUB.write_text(text, encoding="utf-8")
        return 0
    committed = STUB.read_text(encoding="utf-8") if STUB.exists() else ""
    lines = [committed.splitlines(keepends=True), text.splitlines(keepends=True)]
    changes = list(difflib.unified_diff(*lines, "committed", "generated"))
    print("".join(changes), end="")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
