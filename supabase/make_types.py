"""Writes database.types.ts, the types of the tables, views and functions for @supabase/supabase-js."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from fieldmark.db.embedded import embedded_postgres
from fieldmark.db.migrate import migrate

_HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE.parent / "tests"))

from supabase_cli import generate_types  # noqa: E402

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="fieldmark-types-") as home, embedded_postgres(Path(home), 18) as server:
        asyncio.run(migrate(server.owner_url))
        (_HERE / "database.types.ts").write_text(generate_types(server.owner_url), "utf-8")
