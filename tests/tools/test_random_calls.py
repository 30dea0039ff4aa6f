"""A short run of tests/random_calls.py, and what it would find."""

from __future__ import annotations

import pytest

import random_calls
from extraction_case import sql

pytestmark = pytest.mark.anyio


async def test_no_acknowledged_write_is_lost(clone):
    report = await random_calls.make_calls(clone.owner_url, clone.app_url, calls=67, seed=1)
    assert report.calls >= 67, report.lines()
    assert not report.faults, "\n".join(report.lines())


# Each makes of the database one that does what must not be.
BROKEN = {
    "lost": """create or replace function private.write_fields(
        p_was public.extractions, p_fields jsonb, p_confidences jsonb default '{}', p_evidence jsonb default '{}',
        p_removed text[] default null, p_set jsonb default null,
        p_decided text[] default null, p_back integer default null) returns jsonb
        language sql as $$
          select jsonb_build_object('value', p_fields, 'version', p_was.version, 'changed', '[]'::jsonb) $$""",
    "unexplained": "drop trigger keep_journal_of_update on public.extractions",
    "unlocked": """create or replace function private.binding_locks(p_locks jsonb) returns text[]
        language sql as $$ select '{}'::text[] $$""",
}


@pytest.mark.parametrize("what", BROKEN)
async def test_fault_checker_detects_faults(clone, what):
    sql(clone.owner_url, BROKEN[what])
    written = ("update_field", {"path": "number", "value": "B", "confidence": 0.5})
    acts = [("set", "number", "A", "well"), ("agent", written, "well")]
    report = await random_calls.make_calls(clone.owner_url, clone.app_url, calls=len(acts), plans=[(False, acts)])
    assert what in {found for found, _, _ in report.faults}, report.lines()
