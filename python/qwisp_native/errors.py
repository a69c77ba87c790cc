"""The package's own exception. Arguments raise TypeError and ValueError, a lack of memory MemoryError."""

from __future__ import annotations


class DeviceError(RuntimeError):
    """The device said no: it is not here, its shaders do not compile, its commands failed.

    The message is the device's own.
    """
