"""The checks of tests/chaos.py, which `.ci/run --full` runs, detect faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import uuid4

import psycopg
import pytest

import chaos
from fieldmark.domain.events import CompleteEvent, RunStartedEvent
from fieldmark.stores import runs

pytestmark = pytest.mark.anyio


@pytest.fixture
async def find_faults(case) -> Callable[[], set[str]]:
    """Return a function that runs the checks of tests/chaos.py on a successful run and returns the faults found."""
    key = str(uuid4())
    run_id = await case.queue_run(idempotency_key=key)
    context = await case.context(run_id)
    async with case.database.as_user(case.scope) as conn:
        await runs.append_event(conn, run_id, RunStartedEvent(run_id=run_id, extraction_id=case.extraction_id))
    for n in range(2):
        await case.call(context, "update_field", path=f"items[{n}]", value=f"r-{n}-x", confidence=1.0)
    await case.call(context, "complete_extraction")
    async with case.database.as_user(case.scope) as conn:
        await runs.finish(conn, run_id, "completed", answer="Done.", error=None, error_code=None)
        ended = await runs.find(conn, run_id)
        await runs.append_event(conn, run_id, CompleteEvent(cost=ended.cost_usd, usage=ended.usage))
    # The queue's triggers need its schema in the search path.
    with psycopg.connect(case.owner_url, options="-c search_path=queue", autocommit=True) as owner:
        owner.execute("delete from procrastinate_jobs")
    seen = {number: json.dumps(event) for number, event in enumerate(case.events(run_id), 1)}
    followed = chaos.ClientRun(key, "r", 2, False, str(run_id), seen, len(seen), ended=True)

    def faults_of_followed_runs() -> set[str]:
        counts = chaos.Counts()
        chaos.check_runs(case.owner_url, [followed], counts)
        return {what for what, details in counts.faults.items() if details}

    return faults_of_followed_runs


@pytest.mark.parametrize(
    ("tampering", "fault"),
    [
        ("update public.extractions set extracted_fields = '{\"items\": []}'", "lost"),
        ("update public.runs set status = 'running', finished_at = null", "stuck"),
        ("update public.extraction_journal set path = '{items,0}'", "duplicated"),
    ],
)
async def test_chaos_checks_find_faults(case, find_faults, tampering, fault):
    assert find_faults() == set()
    case.sql(f"{tampering} returning 1")
    assert fault in find_faults()
