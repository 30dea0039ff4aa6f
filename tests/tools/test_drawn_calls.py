"""A short run of bench/tool_calls.py, and what it would find."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from desk import sql

pytestmark = pytest.mark.anyio

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module("tool_calls")


async def play(drawn, clone, calls: int = 400, wanted=None):
    return await drawn.play(clone.owner_url, clone.app_url, calls=calls, seed=1, deadline=240, wanted=wanted)


async def test_no_acknowledged_write_is_lost(drawn, clone):
    report = await play(drawn, clone, calls=200)
    assert report.calls >= 200, report.lines()
    assert not report.faults, "\n".join(report.lines())


# Each makes of the database one that does what must not be.
BROKEN = {
    "lost": """create or replace function private.written(
        p_was public.extractions, p_fields jsonb, p_confidences jsonb default '{}', p_evidence jsonb default '{}',
        p_removed text[] default null, p_set jsonb default null) returns public.extractions
        language sql as 'select p_was'""",
    "unexplained": "drop trigger keep_journal_of_update on public.extractions",
    "unlocked": """create or replace function private.binding(p_locks jsonb) returns text[]
        language sql as $$ select '{}'::text[] $$""",
    "unrecorded": """create or replace function private.finish_call(
        p_run_id uuid, p_call_id text, p_result text, p_failed boolean, p_code text default null,
        p_data jsonb default null, p_events json default null) returns void language sql as 'select'""",
}


@pytest.mark.parametrize("what", BROKEN)
async def test_what_is_wrong_would_be_found(drawn, clone, what):
    sql(clone.owner_url, BROKEN[what])
    report = await play(drawn, clone, wanted=what)
    assert what in {found for found, _, _ in report.faults}, report.lines()
