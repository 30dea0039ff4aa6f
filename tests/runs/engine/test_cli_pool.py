"""Reuse of CLIs by several runs: assignment, isolation between runs, and when a CLI is ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from uuid import uuid4

import pytest
from claude_agent_sdk import Message, ResultMessage

from child_processes import cli_processes
from extraction_case import document_with_pages, run_handlers, until
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.agents.library.agent import AskRequest
from fieldmark.errors import Unavailable
from fieldmark.offline_model.messages import Block, Body, Turn, call, text
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.engine.options import CliKind
from fieldmark.runs.engine.process import CliProcess
from fieldmark.runs.lifecycle import launch
from fieldmark.runs.lifecycle.decisions import cancel
from fieldmark.testing.script import Script, count_model_answers, repeat_forever
from warm_pool import MODEL, copy_briefs, only_cli, request_prefix, text_in_home, warm_pool

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli("its processes are reused, cleared and ended")]

UPDATE = call("update_field", {"path": "total", "value": 1, "confidence": 1.0})
DONE = [text("Done.")]
READ = [call("get_document_text")]


@pytest.fixture
async def cases(database, clone, make_user):
    """Two documents of one organisation and one of another, each with a unique word."""
    async with AsyncExitStack() as stack:
        scope, other_scope = await make_user(), await make_user()
        yield [
            await stack.enter_async_context(
                document_with_pages(database, clone.owner_url, scope, [f"{word} is the vendor."])
            )
            for scope, word in ((scope, "Canary-one"), (scope, "Canary-two"), (other_scope, "Canary-three"))
        ]


CANARIES = ("Canary-one", "Canary-two", "Canary-three")


def run_texts_left_in_cli_folders() -> list[str]:
    content = "".join(text_in_home(cli) for cli in cli_processes())
    return [word for word in (*CANARIES, "/model") if word in content]


def stored_conversation(case, run_id) -> str:
    rows = case.sql(
        "select s.entry::text as entry from public.agent_sessions s join public.runs r "
        "on r.session_id::text = s.session_id where r.id = %s",
        run_id,
    )
    return "\n".join(row["entry"] for row in rows)


async def test_runs_of_an_organisation_share_a_cli_but_no_text(cases):
    used = {"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 5_000}
    script = Script([Turn([call("get_document_text")], usage=used), Turn([UPDATE], usage=used), Turn(DONE, usage=used)])
    one, two, three = cases
    # max_turns counts per run: a CLI that counted all its runs would end the second one.
    async with warm_pool(script, max_turns=3) as warm:
        finished, pids = [], []
        for case in (one, two, three, one):
            finished.append(await warm.execute_run(await case.another_extraction(), instructions=f"/model {uuid4()}"))
            pids.append({cli.pid for cli in cli_processes()})
            await until(lambda: not run_texts_left_in_cli_folders())  # cleared before the next run
        assert [len(found) for found in pids] == [1, 1, 2, 2] and pids[0] == pids[1] < pids[2] == pids[3]
        assert warm.cli_sources == {"new": 2, "used_before": 2}
    sessions = {json.loads(run.requests[0]["metadata"]["user_id"])["session_id"] for run in finished}
    assert len(sessions) == 4 and len({request_prefix(request) for run in finished for request in run.requests}) == 1
    for run, own in zip(finished, ("Canary-one", "Canary-two", "Canary-three", "Canary-one"), strict=True):
        assert run.state["status"] == "completed" and len(run.requests) == 3
        assert own in run.sent and not [word for word in CANARIES if word != own and word in run.sent]
        asked = [other.state["input"]["instructions"] in run.sent for other in finished]
        assert asked == [other is run for other in finished]
        usage = run.events[-1]["usage"]
        assert (usage["turns"], usage["input_tokens"], usage["cache_read_input_tokens"]) == (3, 300, 15_000)
        charged = run.case.sql("select count(*) as n from public.usage where run_id = %s", run.run_id)
        assert charged == [{"n": 3}]
    assert cli_processes() == []


async def test_cli_of_an_incomplete_run_is_ended(cases):
    case, asked = cases[0], asyncio.Event()

    async def silent(body):
        asked.set()
        await asyncio.sleep(600)
        return DONE

    async with warm_pool(Script([])) as warm:
        assert (await warm.execute_run(case)).state["status"] == "failed"
        assert warm.end_reasons == {"run": 1} and cli_processes() == []
    async with warm_pool(silent) as warm:
        run_id = await case.queue_run()
        working = asyncio.create_task(warm.execute_run(case, run_id))
        await until(asked.is_set)
        await cancel(case.database, case.scope, run_id)
        assert (await working).state["status"] == "cancelled"
        assert warm.end_reasons == {"run": 1} and cli_processes() == []


async def test_run_interrupted_before_its_message_was_stored_starts_over(cases):
    """The CLI stores notes about `/clear` first. They look like user messages."""
    one, two, _ = cases
    asked = asyncio.Event()
    is_blocking = False

    async def answer(body):
        if is_blocking and count_model_answers(body):
            asked.set()
            await asyncio.sleep(600)
        return READ if count_model_answers(body) == 0 else DONE

    async with warm_pool(answer) as warm:
        await warm.execute_run(one)
        is_blocking, run_id = True, await two.queue_run()
        working = asyncio.create_task(warm.execute_run(two, run_id))
        await until(asked.is_set)
        await until(lambda: "Extract all" in stored_conversation(two, run_id))
        only_cli().kill()
        with pytest.raises(Unavailable):
            await working
        is_blocking = False
        notes = """delete from public.agent_sessions where session_id = %s and number >= (
            select min(number) from public.agent_sessions where session_id = %s and entry::text like '%%Extract all%%')
            returning number"""
        conversation = two.state(run_id)["session_id"]
        assert two.sql(notes, str(conversation), str(conversation)) and "/clear" in stored_conversation(two, run_id)
        finished = await warm.execute_run(two, run_id)
        sent = json.dumps(finished.requests[0]["messages"])
        assert sent.count("Extract all fields") == 1 and "interrupted" in sent


async def test_interrupted_run_continues_in_a_new_cli(cases):
    one, two, _ = cases
    script, asked = Script([READ, repeat_forever(DONE)]), asyncio.Event()
    is_blocking = False

    async def answer(body):
        if is_blocking and count_model_answers(body) == 1:
            asked.set()
            await asyncio.sleep(600)
        return await script(body)

    async with warm_pool(answer) as warm:
        await warm.execute_run(one)
        is_blocking, run_id = True, await two.queue_run()
        working = asyncio.create_task(warm.execute_run(two, run_id))
        await until(asked.is_set)
        assert warm.cli_sources == {"new": 1, "used_before": 1}  # a cleared CLI was reused
        await until(lambda: "Canary-two" in stored_conversation(two, run_id))
        conversation = two.state(run_id)["session_id"]
        only_cli().kill()
        with pytest.raises(Unavailable):
            await working
        is_blocking = False
        finished = await warm.execute_run(two, run_id)
        assert finished.state["status"] == "completed", finished.events
        assert finished.state["session_id"] == conversation
        assert warm.cli_sources == {"new": 2, "used_before": 1} and cli_processes() == []
        # The conversation continues, without text of the earlier run.
        sent = json.dumps(finished.requests[0]["messages"])
        assert sent.count("Extract all fields") == 1 and "Canary-two" in sent and "interrupted" in sent
        assert "Canary-one" not in finished.sent


async def test_questions_to_the_library_reuse_a_cli(cases):
    case, prices = cases[0], Prices(MODEL, None, offline=False)
    async with warm_pool(Script([repeat_forever(DONE)])) as warm:
        for _ in range(2):
            request = AskRequest(message="Who is the vendor?")
            run_id = await launch.start(case.database, case.scope, "ask", request, prices=prices)
            assert (await warm.execute_run(case, run_id)).state["status"] == "completed"
        assert warm.cli_sources["new"] == 1


@pytest.mark.parametrize(("reason", "settings"), [("idle", {"idle_seconds": 0}), ("runs", {"runs": 1})])
async def test_idle_or_old_cli_is_ended(cases, reason, settings):
    async with warm_pool(Script([DONE]), **settings) as warm:
        await warm.execute_run(cases[0])
        await until(lambda: warm.end_reasons == {reason: 1})
        await until(lambda: cli_processes() == [])


async def test_unusable_spare_is_not_replaced_until_a_run_asks(cases):
    async with warm_pool(Script([DONE]), spares=1, max_mb=1) as warm:
        await until(lambda: warm.end_reasons == {"memory": 1} and not cli_processes())
        await asyncio.sleep(0.1)
        assert cli_processes() == []
        assert (await warm.execute_run(cases[0])).state["status"] == "completed" and warm.cli_sources == {"new": 1}


async def test_run_waits_for_a_spare_that_is_being_connected(cases):
    async with warm_pool(Script([DONE]), spares=1, replaces_spares=False) as warm:
        await until(lambda: warm.pool._available)
        assert not warm.pool._available[0].clearing.done()
        await warm.execute_run(cases[0])
        assert warm.cli_sources == {"spare": 1}
        await asyncio.sleep(0.1)  # it is not replaced
        assert len(cli_processes()) == 1


async def test_spare_that_is_being_connected_ends_with_the_pool():
    async with warm_pool(Script([DONE]), spares=1) as warm:
        await until(cli_processes)
        assert not warm.pool._available[0].clearing.done()
    assert warm.end_reasons == {"closed": 1} and cli_processes() == []


async def test_number_of_clis_is_limited(cases):
    ours, _, theirs = cases
    async with warm_pool(Script([DONE]), processes=1) as warm:
        for case in (ours, theirs):
            await warm.execute_run(case)
        assert warm.end_reasons == {"room": 1}
        await until(lambda: len(cli_processes()) == 1)


async def test_run_waits_for_a_cli_that_is_being_cleared(cases):
    async with warm_pool(Script([DONE]), processes=1) as warm:
        async with warm.acquire(cases[0]) as client:
            assert [message async for message in client.converse("Go on.")]
            slow = only_cli()
            slow.suspend()
        working = asyncio.create_task(warm.execute_run(cases[0]))
        await until(lambda: not warm.pool._available)
        assert warm.cli_sources == {"new": 1}
        slow.resume()
        await working
        assert warm.cli_sources == {"new": 1, "used_before": 1}


async def test_dead_cli_is_not_reused(cases):
    async with warm_pool(Script([DONE])) as warm:
        await warm.execute_run(cases[0])
        await until(lambda: warm.pool._available[0].clearing.done())
        only_cli().kill()
        await until(lambda: cli_processes() == [])
        finished = await warm.execute_run(await cases[0].another_extraction())
        assert finished.state["status"] == "completed" and finished.state["fencing_token"] == 1
        assert warm.end_reasons == {"died": 1}


def test_prompt_model_and_limits_determine_the_cli_kind(memory_path):
    copy_briefs(memory_path)
    with (memory_path / "prompt.md").open("a") as prompt:
        prompt.write("Say banana.")
    kind = CliKind.of(EXTRACTION, MODEL, 5)
    assert kind == CliKind.of(EXTRACTION, MODEL, 5)
    assert kind not in (
        CliKind.of(replace(EXTRACTION, briefs=memory_path), MODEL, 5),
        CliKind.of(EXTRACTION, "claude-opus-5", 5),
        CliKind.of(EXTRACTION, MODEL, 3),
        CliKind.of(EXTRACTION, MODEL, 5, one_at_a_time=True),
    )


async def test_cli_that_acts_between_runs_is_not_reused(cases):
    async with warm_pool(Script([DONE])) as warm:
        await warm.execute_run(cases[0])
        (idle,) = warm.pool._available
        await idle.clearing
        asking = asyncio.create_task(idle.binding.call_tool("get_document_text", "call", {}))
        await until(lambda: idle.binding.tainted)
        await warm.execute_run(await cases[0].another_extraction())
        assert warm.end_reasons == {"tainted": 1} and warm.cli_sources == {"new": 2} and not asking.done()
        asking.cancel()


COMMANDS = ["/model opus", "/clear", "/anything", "!ls /", "@/etc/passwd", "@/etc/hostname"]


async def test_foreign_text_is_never_a_command(cases):
    async with warm_pool(Script([DONE])) as warm:
        for command in COMMANDS:
            talk = await warm.talk(cases[0], command)
            (request,) = talk.requests
            said = request["messages"][0]["content"]
            assert (said if isinstance(said, str) else said[-1]["text"]) == command
            assert request["model"] == "claude-sonnet-5" and "root:x:0:0" not in str(request)
            assert isinstance(talk.messages[-1], ResultMessage)
        assert warm.cli_sources == {"new": 1, "used_before": len(COMMANDS) - 1}


async def test_background_slots_follow_the_runs_that_do_not_wait_for_the_model(cases):
    asked, released = asyncio.Event(), asyncio.Event()

    async def answer(body: Body) -> list[Block]:
        asked.set()
        await released.wait()
        return [text("Done.")]

    case, *_ = cases
    async with warm_pool(answer, busy=3) as warm:

        @asynccontextmanager
        async def run(background: bool) -> AsyncIterator[CliProcess]:
            other = await case.another_extraction()
            context = await other.context(await other.queue_run(background=background))
            _, handlers = run_handlers(other, EXTRACTION.create_tools(context), context)
            async with warm.pool.acquire(
                EXTRACTION, case.scope, handlers, model=MODEL, max_turns=50, session_id=uuid4()
            ) as cli:
                yield cli

        assert warm.pool.background_slots == 3
        async with run(background=True) as cli:
            assert warm.pool.background_slots == 3
            talk = asyncio.create_task(_messages(cli))
            await asked.wait()
            await until(lambda: warm.pool.background_slots == 4)
            async with run(background=False):
                assert warm.pool.background_slots == 3
            released.set()
            await talk
        assert warm.pool.background_slots == 3


async def _messages(cli: CliProcess) -> list[Message]:
    return [message async for message in cli.converse("Hello.")]
