"""The package's own exception. Arguments raise TypeError and ValueError, a lack of memory MemoryError."""

from __future__ import annotations

from ._core import DeviceError

__all__ = ["DeviceError"]
