"""Write the shaders as one text, and as a C++ file that carries it.

embed_shaders.py AMALGAMATE SHADERS OUT    (AMALGAMATE: python/qwisp_native/_amalgamate.py)
"""

from __future__ import annotations

import hashlib
import runpy
import sys
from pathlib import Path

SOURCE = """// Made by cmake/embed_shaders.py.
#include "route/shader_text.h"

namespace qwisp {{

std::string_view shader_text() {{
    return R"{mark}({text}){mark}";
}}

std::string_view shader_sha256() {{
    return "{sha256}";
}}

}}  // namespace qwisp
"""
MARK = "qwisp_text"


def main(amalgamate: str, shaders: Path, out: Path) -> None:
    text: str = runpy.run_path(amalgamate)["amalgamate"](shaders)
    if f"){MARK}" in text or not text.isascii():
        raise SystemExit(f"the shaders must be ASCII and may not contain ){MARK}")
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    out.mkdir(parents=True, exist_ok=True)
    (out / "route_text.metal").write_bytes(text.encode())
    (out / "shader_text.cpp").write_bytes(SOURCE.format(mark=MARK, text=text, sha256=sha256).encode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
