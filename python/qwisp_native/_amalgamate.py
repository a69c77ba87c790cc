"""All shader files as one text: what is embedded at build time and what `QWISP_SHADER_DIR` reads at run time.

The build runs this file by its path, before the package exists: it imports nothing of the package.
"""

from __future__ import annotations

import re
from pathlib import Path

KERNEL_FILES = (
    "qmm8_rows.metal",
    "route_top8_rows.metal",
    "route_fused_rows.metal",
    "route_split_rows.metal",
    "route_aux.metal",
)

_INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"\s*')
_PRAGMA_ONCE = re.compile(r"\s*#\s*pragma\s+once\s*")


def amalgamate(folder: Path) -> str:
    """Return the kernel files of `folder` in order, each file they include inlined where it first stands.

    An include of a file that is not in `folder` stays: each compiler brings its own. Lines end in LF, so
    that the text and its hash are the same on every machine.
    """
    done: set[str] = set()
    return "".join(_inlined(Path(folder), name, done) for name in KERNEL_FILES)


def _inlined(folder: Path, name: str, done: set[str]) -> str:
    if name in done:
        return ""
    done.add(name)
    parts = [f"// {name}\n"]
    for line in (folder / name).read_text(encoding="utf-8").splitlines():
        include = _INCLUDE.fullmatch(line)
        if include and (folder / include[1]).is_file():
            parts.append(_inlined(folder, include[1], done))
        elif not _PRAGMA_ONCE.fullmatch(line):
            parts.append(line + "\n")
    return "".join(parts)
