"""The worker's maintenance deletes expired records in batches, without reading records that are not due."""

from __future__ import annotations

import psycopg
import pytest

from extraction_case import ExtractionCase
from fieldmark.settings import Settings
from fieldmark.worker.maintenance import clear_up

pytestmark = pytest.mark.anyio

TABLES = ("run_events", "tool_calls")


def insert_ended_runs(case: ExtractionCase, number: int, ended_ago: str) -> None:
    case.sql(
        """with ended as (
             insert into public.runs (org_id, agent, task, document_id, extraction_id, created_by)
             select %s, 'extraction', 'extract', %s, %s, %s from generate_series(1, %s)
             returning *),
           called as (
             insert into public.tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, created_by)
             select id, 'c', org_id, 'update_field', '{}', repeat('0', 64), 'refused', created_by from ended)
           insert into public.run_events (run_id, number, org_id, body, created_by)
           select id, 1, org_id, '{}', created_by from ended""",
        *(case.scope.org_id, case.document_id, case.extraction_id, case.scope.user_id, number),
    )
    case.sql(
        "update public.runs set status = 'completed', finished_at = now() - %s::interval where status = 'queued'",
        ended_ago,
    )


def counts(case: ExtractionCase) -> list[int]:
    return [case.sql(f"select count(*) as n from public.{table}")[0]["n"] for table in TABLES]


async def run_maintenance(case: ExtractionCase, keep_days: float) -> None:
    await clear_up(case.database, Settings(_env_file=None, keep_days=keep_days))  # type: ignore[call-arg]


async def test_run_records_are_deleted_after_keep_days_and_0_keeps_them(case):
    insert_ended_runs(case, 60, "10 days")  # more than one batch
    insert_ended_runs(case, 1, "2 days")
    await run_maintenance(case, 0)
    assert counts(case) == [61, 61]
    await run_maintenance(case, 5)
    assert counts(case) == [1, 1]
    await run_maintenance(case, 1.5)
    assert counts(case) == [0, 0]


async def test_failed_jobs_are_deleted_and_waiting_jobs_are_kept(case):
    jobs = "insert into queue.procrastinate_jobs (queue_name, task_name, status) values ('q', %s, %s::queue.{}) "
    status = "procrastinate_job_status"
    with psycopg.connect(case.owner_url, options="-csearch_path=queue", autocommit=True) as owner:
        owner.execute("delete from procrastinate_jobs")
        for name, state in (("old", "failed"), ("young", "failed"), ("waits", "todo"), ("works", "doing")):
            owner.execute(jobs.format(status).encode(), [name, state])
        owner.execute(
            "insert into procrastinate_events (job_id, type, at) select id, 'failed', "
            "now() - case task_name when 'young' then interval '1 hour' else interval '9 days' end "
            "from procrastinate_jobs where status = 'failed'"
        )
        # The events of their insertion are old too.
        owner.execute("update procrastinate_events set at = now() - interval '9 days' where type = 'deferred'")
    for keep, expected in ((0, ["old", "young", "waits", "works"]), (7, ["young", "waits", "works"])):
        await run_maintenance(case, keep)
        left = case.sql("select task_name from queue.procrastinate_jobs order by id")
        assert [row["task_name"] for row in left] == expected


async def test_ended_jobs_are_found_by_an_index(case):
    with psycopg.connect(case.owner_url) as owner:
        owner.execute("set enable_seqscan = off")
        plan = owner.execute(
            "explain select id from queue.procrastinate_jobs "
            "where status in ('succeeded', 'failed', 'cancelled', 'aborted') order by id limit 500"
        ).fetchall()
    assert "fieldmark_ended" in str(plan)
