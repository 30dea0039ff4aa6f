"""The baseline migration equals the files of supabase/schemas."""

from __future__ import annotations

import runpy
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_baseline_migration_contains_all_schema_files() -> None:
    (migration,) = (_ROOT / "migrations").glob("*.sql")
    baseline = runpy.run_path(str(_ROOT / "supabase/make_baseline.py"))["baseline"]()
    assert migration.read_text("utf-8") == baseline
    for file in (_ROOT / "supabase/schemas").glob("*.sql"):
        text = file.read_text("utf-8")
        assert text.startswith("-- ") and text.endswith(";\n") and text in baseline, file.name
