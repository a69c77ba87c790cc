"""The shaders of QWISP_SHADER_DIR, for development."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ._amalgamate import amalgamate


def load(folder: Path) -> tuple[str, str]:
    """The text of a shader folder as one library, as the build would embed it, and its SHA-256 in hex.

    Raises:
        ValueError: a shader is missing or cannot be read.
    """
    try:
        text = amalgamate(folder)
    except (OSError, UnicodeDecodeError) as error:
        where = f"QWISP_SHADER_DIR: {str(folder)!r}"
        raise ValueError(f"{where}, but its shaders cannot be read: {error}") from error
    return text, hashlib.sha256(text.encode()).hexdigest()
