"""Hosts with networks of their own: one is cut off in the middle of a run, the other takes it up, once."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest
from networks import Host, two_hosts, why_not

from desk import tool_results, until, update
from fieldmark.offline_model.messages import text

pytestmark = pytest.mark.anyio

POSTGRES, MODEL = 5432, 8000


class CutOff:
    """A model that keeps the host that is cut off waiting for its second answer, and gives it when all is over."""

    def __init__(self) -> None:
        self.kept_waiting = asyncio.Event()
        self.over = asyncio.Event()

    async def __call__(self, body):
        done = str(tool_results(body))
        if "first" not in done:
            return [update("first")]
        if not self.kept_waiting.is_set():
            self.kept_waiting.set()
            await self.over.wait()
            return [update("late")]
        return [text("Done.")] if "second" in done else [update("second")]


@pytest.mark.long
async def test_a_host_that_is_cut_off_loses_its_run_to_another(on_hosts, clone):
    if reason := why_not():
        pytest.skip(reason)
    model = CutOff()
    async with on_hosts(model) as hosts:
        postgres, endpoint = urlsplit(clone.app_url), urlsplit(hosts.model.base_url)
        ports = {
            POSTGRES: (postgres.hostname, postgres.port),
            MODEL: (endpoint.hostname, endpoint.port),
        }
        async with two_hosts(ports) as networks:

            async def worker_on(host: Host):
                return await hosts.worker(
                    before=host.inside,
                    DATABASE_URL=clone.app_url.replace(f"{postgres.hostname}:{postgres.port}", f"{host.to}:{POSTGRES}"),
                    ANTHROPIC_BASE_URL=f"http://{host.to}:{MODEL}{endpoint.path}",
                )

            api, *workers = await asyncio.gather(hosts.api(), *map(worker_on, networks))
            document_id = (await api.document())["id"]
            run_id = await api.begin(document_id)
            await until(model.kept_waiting.is_set)
            (at_work,) = [number for number, worker in enumerate(workers) if worker.clis()]
            lost, other = workers[at_work], workers[1 - at_work]

            networks[at_work].cut_off()
            run = await hosts.run_at(run_id, "completed", 120)
            assert (run["answer"], run["fencing_token"]) == ("Done.", 2)

            networks[at_work].connect()
            model.over.set()
            # It notices: its CLI goes, and it works again as one that the others count on.
            await until(lambda: lost.clis() == [], 120, lambda: lost.says)
            await other.stop()
            again = await api.begin(document_id)
            assert (await hosts.run_at(again, "completed", 120))["fencing_token"] == 1

            written = hosts.sql("select path::text as path from public.extraction_journal where run_id = %s", run_id)
            assert sorted(row["path"] for row in written) == ["{first}", "{second}"]
            # What was cut off before it was kept may have been done again, to no effect; the late call was not entered.
            ledger = hosts.sql(
                "select arguments ->> 'path' as path, status from public.tool_calls where run_id = %s", run_id
            )
            assert {(row["path"], row["status"]) for row in ledger} == {("first", "done"), ("second", "done")}
            events = hosts.events(run_id)
            assert [event for event in events if "complete" in event or "code" in event] == [events[-1]]
            assert hosts.run(run_id)["fencing_token"] == 2
            await lost.stop()
        await hosts.clear()
