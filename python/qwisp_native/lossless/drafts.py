"""Drafts by suffix lookup: what followed the last time that the text ended like this."""

from __future__ import annotations

LONGEST = 8


def draft(text: bytes, count: int) -> bytes:
    """Exactly `count` bytes that may come next.

    The longest suffix of at most 8 bytes that occurs earlier is looked up, its latest occurrence first, and
    what follows it is copied, the copy itself included. Text that never ended like this is copied from its
    beginning: a draft that will be rejected, which a gate wants too.
    """
    start = 0
    for length in range(min(LONGEST, len(text) - 1), 0, -1):
        at = text.rfind(text[-length:], 0, len(text) - 1)
        if at >= 0:
            start = at + length
            break
    known = bytearray(text)
    for at in range(start, start + count):
        known.append(known[at])
    return bytes(known[len(text) :])
