"""The floor: how long the machine takes to read the weights, with nothing done to them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

SETS, SET_BYTES = 40, 512 * 1024
READS = 8
"""Times that a call reads each set: enough to hide that Python's threads start tens of microseconds apart."""


def read_floor(threads: int) -> Callable[[], None]:
    """A function that reads SETS buffers of SET_BYTES in turn, READS times, with so many threads.

    By memchr for a byte that is not there: the C library's vector loop keeps nothing but a flag, and ctypes
    lets go of the interpreter lock. Where it was chosen, a BLAS dot product took half as long again and
    numpy's sum of int64 twice as long. Each thread reads its own part of all the buffers from end to end.
    """
    memory = np.ones(SETS * SET_BYTES, np.uint8)  # pages never written would all be the system's one of zeros
    part = memory.nbytes // threads
    memchr = ctypes.CDLL(None).memchr
    memchr.argtypes, memchr.restype = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t), ctypes.c_void_p

    def read(thread: int) -> None:
        for _ in range(READS):
            memchr(memory.ctypes.data + thread * part, 0, part)

    helpers = ThreadPoolExecutor(max(1, threads - 1))

    def read_all() -> None:
        others = [helpers.submit(read, thread) for thread in range(1, threads)]
        read(0)
        wait(others)

    return read_all
