"""Workers killed while the library agent runs: another worker completes the run, with one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from test_killed_document_workers import count_rows, kill_worker

from agents.library.test_asking import INTENT, READ, SURVEY, cite, submit_answer
from child_processes import is_alive
from extraction_case import until
from fieldmark.offline_model.messages import call
from fieldmark.testing.script import Script, repeat_forever

pytestmark = [pytest.mark.anyio, pytest.mark.long]


class HangsOnce:
    """A model step that hangs at its first request and answers all later ones."""

    def __init__(self, step: Any) -> None:
        self.step = step
        self.reached = asyncio.Event()

    async def __call__(self, body: Any) -> Any:
        if not self.reached.is_set():
            self.reached.set()
            await asyncio.Event().wait()
        return self.step(body) if callable(self.step) else self.step


async def upload_survey(api: Any) -> None:
    file = {"file": ("survey.txt", SURVEY.encode())}
    assert (await api.http.post("/api/documents", files=file)).status_code == 201

    async def is_found() -> bool:
        return bool((await api.http.get("/api/search?q=roof")).json()["hits"])

    await until(is_found)


async def ask(api: Any, message: str) -> dict[str, Any]:
    answer = await api.http.post("/api/agent/ask", json={"message": message, "wait": False})
    assert answer.status_code == 202, answer.text
    return answer.json()


async def result_reported_once(hosts: Any, api: Any, started: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a run that another worker completed. Its answer is once in the events, the thread and the
    thread's state."""
    run = await hosts.wait_for_run(started["run_id"], "completed")
    assert run["fencing_token"] > 1
    texts = [event["text"] for event in hosts.events(started["run_id"]) if event["type"] == "text"]
    assert texts.count(run["answer"]) == 1 and texts[-1] == run["answer"]
    thread = (await api.http.get(f"/api/threads/{started['thread_id']}")).json()
    assert [turn["answer"] for turn in thread["turns"]] == [run["answer"]]
    state = thread["working_state"]
    assert state["turns"] == 1
    (turn,) = state["conversation"]
    assert run["answer"].startswith(turn["answered"].rstrip("…"))
    return run["result"]


async def test_run_continues_after_its_recorded_citations(on_hosts):
    end = HangsOnce([submit_answer("It leaks [1].")])
    async with on_hosts(Script([[INTENT, READ], cite(1, "The roof leaks"), repeat_forever(end)])) as hosts:
        api, worker = await asyncio.gather(hosts.api(), hosts.worker())
        await upload_survey(api)
        started = await ask(api, "Does the roof leak?")
        await until(end.reached.is_set)
        await until(lambda: count_rows(hosts, "agent_sessions where entry::text like '%tool_result%'") == 3)
        await kill_worker(hosts, worker)
        result = await result_reported_once(hosts, api, started)
        assert result["fallback"] is None and [one["quote"] for one in result["sources"]] == ["The roof leaks"]
        tools = ("read_document", "cite_source", "submit_answer")
        done = {tool: count_rows(hosts, f"tool_calls where tool = '{tool}' and status = 'done'") for tool in tools}
        assert done == dict.fromkeys(tools, 1)


@contextmanager
def block_completion(hosts: Any) -> Iterator[None]:
    """Make every transaction that completes a run wait until the block ends."""
    hosts.sql(
        """create function public.waits() returns trigger language plpgsql security definer as
           $$ begin perform pg_advisory_xact_lock(77); return new; end $$"""
    )
    hosts.sql(
        """create trigger waits before update of status on public.runs for each row
           when (new.status = 'completed') execute function public.waits()"""
    )
    with psycopg.connect(hosts.clone.owner_url, autocommit=True) as conn:
        conn.execute("select pg_advisory_lock(77)")
        yield


def is_blocked(hosts: Any) -> bool:
    # Only in this database: other tests run on the same server.
    return bool(
        hosts.sql(
            """select 1 from pg_locks where locktype = 'advisory' and objid = 77 and not granted
               and database = (select oid from pg_database where datname = current_database())"""
        )
    )


NO_HITS_ANSWER = submit_answer("No dragons.", nothing_found=True)
SEARCH_STEP = [INTENT, call("search_documents", {"query": "dragons"})]


async def test_answer_stored_before_a_crash_is_the_only_answer(on_hosts):
    async with on_hosts(Script([SEARCH_STEP, [NO_HITS_ANSWER]])) as hosts:
        api, worker = await asyncio.gather(hosts.api(), hosts.worker())
        await upload_survey(api)
        with block_completion(hosts):
            started = await ask(api, "Does the roof leak?")
            await until(lambda: is_blocked(hosts), 60, lambda: str(hosts.run(started["run_id"])))
            cli_processes = worker.cli_processes()
            worker.kill()
            await until(lambda: not any(map(is_alive, cli_processes)))
        asked = len(hosts.model.requests)
        await kill_worker(hosts, worker)
        result = await result_reported_once(hosts, api, started)
        # A run that its last call ended needs no further model request.
        assert result["fallback"] is None and (asked, len(hosts.model.requests)) == (2, 2)
