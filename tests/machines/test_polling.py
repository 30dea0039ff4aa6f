"""Without a LISTEN connection: events and cancellations arrive by polling, within a second."""

from __future__ import annotations

import asyncio

import pytest

from extraction_case import document_with_pages, until
from fieldmark.db.pool import Database
from fieldmark.offline_model.messages import call, text
from fieldmark.runs.events.follow import follow
from fieldmark.runs.lifecycle import decisions
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


async def test_stream_works_by_polling(on_hosts, clone):
    may_continue = asyncio.Event()

    async def answer_slowly(body):
        await may_continue.wait()
        return [text("Done.")]

    pooler = f"{clone.app_url}&pgbouncer=true"
    async with on_hosts(Script([[call("update_field", TOTAL)], answer_slowly])) as hosts:
        without_direct, unreachable, _ = await asyncio.gather(
            hosts.api(DATABASE_URL=pooler),
            hosts.api(DATABASE_URL=pooler, DATABASE_DIRECT_URL="postgresql://fieldmark_app@127.0.0.1:1/postgres"),
            hosts.worker(),
        )
        run_id = await without_direct.start_extraction((await without_direct.document())["id"])

        async def follow(api) -> list:
            # Deltas are sent by NOTIFY only, so there are none.
            async with api.stream(f"/api/runs/{run_id}/events?deltas=true") as events:
                seen = []
                async for event in events:
                    seen.append(event)
                    if event[1].get("status") == "complete":
                        may_continue.set()
                return seen

        for seen in await asyncio.gather(follow(without_direct), follow(unreachable)):
            assert [event for _, event in seen] == hosts.events(run_id) and seen[-1][1]["complete"] is True


async def test_cancelling_works_by_polling(clone, make_user):
    was_asked = asyncio.Event()

    async def never_answer(body):
        was_asked.set()
        await asyncio.sleep(600)
        return [text("Done.")]

    async with (
        Database(f"{clone.app_url}&pgbouncer=true") as database,
        document_with_pages(database, clone.owner_url, await make_user(), ["Total: 10"]) as case,
    ):
        run_id = await case.queue_run()
        executing = asyncio.create_task(case.execute_run(never_answer, run_id))
        # A reader that polls only if LISTEN is unavailable.
        reading = asyncio.create_task(_last_event_type(follow(database, case.scope, run_id, poll_seconds=600)))
        await until(was_asked.is_set)
        await decisions.cancel(database, case.scope, run_id)
        assert (await executing).events[-1]["code"] == "cancelled"
        await until(reading.done)
        assert '"cancelled"' in reading.result()


async def _last_event_type(events) -> str:
    return [event async for event in events][-1][1]


async def test_worker_without_a_direct_connection_reports_misconfiguration(on_hosts, clone):
    async with on_hosts(Script([[text("Done.")]])) as hosts:
        without_direct = hosts.start("worker", DATABASE_URL=f"{clone.app_url}&pgbouncer=true")
        unreachable = hosts.start("worker", DATABASE_DIRECT_URL="postgresql://fieldmark_app@127.0.0.1:1/postgres")
        assert await without_direct.wait_ended() == 3 and "Set DATABASE_DIRECT_URL" in without_direct.log_text
        assert await unreachable.wait_ended() == 3 and "(DATABASE_DIRECT_URL) cannot be reached" in unreachable.log_text
