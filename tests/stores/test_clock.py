"""Times that several machines compare are the database's."""

from __future__ import annotations

import re
from pathlib import Path

import fieldmark

PACKAGE = Path(fieldmark.__file__).parent
# Tokens and signed requests, which are checked against others' clocks; texts of commands; the date of a backup.
OWN_CLOCK = {
    "api/auth.py",
    "backup/archive.py",
    "backup/writing.py",
    "identity/tokens.py",
    "services/sources/buckets.py",
    "stores/clock.py",
}


def test_only_listed_modules_read_the_clock_of_this_machine() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"datetime\.(?:now|utcnow)\(|date\.today\(", path.read_text("utf-8"))
    }
    assert found == OWN_CLOCK
