"""Files that are whole or not there, whatever becomes of the process that writes them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

NEW = ".new"
"""How the names of files end that are not complete yet; a killed process leaves them."""


def replace(file: Path, text: str) -> None:
    """Put a new file in the place of an old one, if there is one.

    Raises:
        OSError: it cannot be written; the old one is as it was.
    """
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=file.name, suffix=NEW)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
