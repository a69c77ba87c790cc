"""What the cuda device takes from Python: where NVRTC may be, and where compiled kernels are kept."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from . import settings


def set_up() -> tuple[list[str], str]:
    """(paths of NVRTC libraries, the folder for compiled kernels or "" for none).

    Called once, before the first look for a cuda device. It raises nothing: without a folder kernels are
    compiled by each process anew, and without NVRTC the device says that it needs one.
    """
    return nvrtc_in_wheels(), cubin_folder()


def nvrtc_in_wheels() -> list[str]:
    """The libraries of installed wheels, newest first; nothing is imported.

    Those of CUDA 13 (nvidia-cuda-nvrtc) hold nvidia/cu13/lib/libnvrtc.so.13, those of CUDA 12
    (nvidia-cuda-nvrtc-cu12) nvidia/cuda_nvrtc/lib/libnvrtc.so.12.
    """
    try:
        spec = importlib.util.find_spec("nvidia")
        folders = list((spec and spec.submodule_search_locations) or ())
        found = [
            path
            for folder in folders
            for path in Path(folder).glob("*/lib/libnvrtc.so.*")
            if path.suffix[1:].isdecimal()
        ]
    except (ImportError, OSError, ValueError):  # ValueError: a module of that name without a spec
        return []
    return [str(path) for path in sorted(found, key=lambda path: (-int(path.suffix[1:]), str(path)))]


def cubin_folder() -> str:
    """In the package's cache folder; "" where there is none, as for a user without a home."""
    try:
        return str(settings.cache_folder() / "cubins")
    except (ImportError, OSError, RuntimeError, ValueError):
        return ""
