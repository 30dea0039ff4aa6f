from __future__ import annotations

import os
import time
from uuid import UUID


def as_uuid(text: str) -> UUID | None:
    """Return the UUID that a text is, or None."""
    try:
        return UUID(text)
    except ValueError:
        return None


def new_id() -> UUID:
    """Return a new time-ordered id (UUID version 7), like `private.new_id` in SQL. Rows created together are then
    adjacent in every index."""
    bits = int.from_bytes(os.urandom(10)) | time.time_ns() // 1_000_000 << 80
    return UUID(int=bits & ~(0xF << 76 | 0x3 << 62) | 0x7 << 76 | 0x2 << 62)
