"""Workers killed during a second reading: nothing is lost, done twice or charged twice."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from test_killed_document_workers import count_rows, kill_worker
from test_killed_library_workers import HangsOnce, is_blocked

from extraction_case import until
from fieldmark.offline_model.messages import call
from fieldmark.offline_model.server import OfflineModel
from fieldmark.testing.script import Script

pytestmark = [pytest.mark.anyio, pytest.mark.long]

BLOCK = [
    """create function public.waits() returns trigger language plpgsql security definer as
       $$ begin perform pg_advisory_xact_lock(77); return new; end $$""",
    """create trigger waits before update of evidence on public.extractions for each row
       when (new.evidence::text like '%second_reading%') execute function public.waits()""",
]


async def test_second_reading_survives_workers_killed_while_it_reads_and_while_it_is_compared(on_hosts):
    first = Script([[call("extract_fields", {"fields": {"number": "1", "total": 12}, "summary": "Done."})]])
    reads = HangsOnce([call("submit_reading", {"fields": {"number": "1", "total": 10}})])
    async with on_hosts(first) as hosts, OfflineModel(Script([reads])) as other:
        second = {
            "FIELDMARK_SECOND_MODEL": "gpt-6",
            "FIELDMARK_SECOND_BASE_URL": other.base_url,
            "FIELDMARK_SECOND_API_KEY": "second-key",
            "FIELDMARK_SECOND_MODEL_PRICE": "1/2",
        }
        for statement in BLOCK:
            hosts.sql(statement)
        api, worker = await asyncio.gather(hosts.api(), hosts.worker(**second))
        document = await api.document()
        with psycopg.connect(hosts.clone.owner_url, autocommit=True) as conn:
            conn.execute("select pg_advisory_lock(77)")
            run_id = await api.start_extraction(document["id"], second_reading="all")
            await asyncio.wait_for(reads.reached.wait(), 120)
            worker = await kill_worker(hosts, worker, **second)  # while the second model reads
            await until(lambda: is_blocked(hosts), 120, lambda: str(hosts.run(run_id)))
            worker.kill()  # while the readings are compared
        await kill_worker(hosts, worker, **second)
        run = await hosts.wait_for_run(run_id, "completed")
    result = run["result"]
    assert (run["answer"], result["code"], result["agrees"], result["differs"]) == ("Done.", None, 1, 1)
    (extraction,) = hosts.sql("select * from public.extractions")
    assert extraction["extracted_fields"] == {"number": "1", "total": 12}
    assert extraction["evidence"]["total"]["second_reading"]["value"] == 10
    assert (len(hosts.model.requests), len(other.requests)) == (1, 2)
    calls = ("extract_fields", "submit_reading", "second_reading")
    done = {tool: count_rows(hosts, f"tool_calls where tool = '{tool}' and status = 'done'") for tool in calls}
    assert done == dict.fromkeys(calls, 1)
    assert count_rows(hosts, "runs") == 2
    usage = hosts.sql("select agent, count(*) as n from public.usage group by agent order by agent")
    assert usage == [{"agent": "extraction", "n": 1}, {"agent": "second_reading", "n": 1}]
