"""Writes the baseline migration from supabase/schemas: only until a release has applied it somewhere."""

from __future__ import annotations

import tomllib
from pathlib import Path

_HERE = Path(__file__).parent
_BASELINE = _HERE.parent / "migrations" / "20261122000000_baseline.sql"

_HEADER = """\
-- The baseline: supabase/schemas in their order, written by supabase/make_baseline.py. Change those, not this file.

-- Keys and policies lock tables of Supabase's that are in use: rather give up than let everybody wait.
set local lock_timeout = '10s';
set local statement_timeout = '60s';
"""


def schema_files() -> list[Path]:
    """The files of the schema, in the order in which they are applied."""
    config = tomllib.loads((_HERE / "config.toml").read_text("utf-8"))
    return [_HERE / path for path in config["db"]["migrations"]["schema_paths"]]


def baseline() -> str:
    """The text of the baseline migration."""
    return "\n".join([_HEADER, *(f"-- {file.name}\n\n{file.read_text('utf-8')}" for file in schema_files())])


if __name__ == "__main__":
    _BASELINE.write_text(baseline(), "utf-8")
