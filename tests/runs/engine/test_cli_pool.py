"""CLIs that live on between runs: who gets which, what of a run another one sees (nothing), and when one is kept."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from uuid import uuid4

import pytest
from claude_agent_sdk import ResultMessage

from desk import laid_out, until
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.agents.library.agent import AskRequest
from fieldmark.errors import Unavailable
from fieldmark.offline_model.messages import Turn, call, text
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.engine.options import CliKind
from fieldmark.runs.lifecycle import launch
from fieldmark.runs.lifecycle.decisions import cancel
from fieldmark.testing.script import Script, answers_so_far, endless
from kept import MODEL, in_folder, kept, lies_in, prefix, the_cli
from living import clis

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli("its processes are lent, cleared and ended")]

UPDATE = call("update_field", {"path": "total", "value": 1, "confidence": 1.0})
DONE = [text("Done.")]
READ = [call("get_document_text")]


@pytest.fixture
async def desks(database, clone, make_user):
    """Two documents of one organisation, then one of another, each with a word of its own."""
    async with AsyncExitStack() as stack:
        ours, theirs = await make_user(), await make_user()
        yield [
            await stack.enter_async_context(laid_out(database, clone.owner_url, scope, [f"{word} is the vendor."]))
            for scope, word in ((ours, "Canary-one"), (ours, "Canary-two"), (theirs, "Canary-three"))
        ]


WORDS = ("Canary-one", "Canary-two", "Canary-three")


def told_in_folders() -> list[str]:
    """What runs were told and still lies in the folder of a CLI."""
    lying = "".join(lies_in(cli) for cli in clis())
    return [word for word in (*WORDS, "/model") if word in lying]


def kept_of(desk, run_id) -> str:
    """All entries of a run's conversation."""
    rows = desk.sql(
        "select s.entry::text as entry from public.agent_sessions s join public.runs r "
        "on r.session_id::text = s.session_id where r.id = %s",
        run_id,
    )
    return "\n".join(row["entry"] for row in rows)


async def test_runs_of_one_organisation_share_a_cli_and_nothing_of_each_other(desks):
    used = {"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 5_000}
    script = Script([Turn([call("get_document_text")], usage=used), Turn([UPDATE], usage=used), Turn(DONE, usage=used)])
    one, two, three = desks
    # Three turns a run are all that is allowed: a CLI that counted them over its life would end the second run.
    async with kept(script, max_turns=3) as warm:
        worked, pids = [], []
        for desk in (one, two, three, one):
            worked.append(await warm.work(await desk.beside(), instructions=f"/model {uuid4()}"))
            pids.append({cli.pid for cli in clis()})
            await until(lambda: not told_in_folders())  # nothing of a run is there when the next one may begin
        assert [len(found) for found in pids] == [1, 1, 2, 2] and pids[0] == pids[1] < pids[2] == pids[3]
        assert warm.taken == {"new": 2, "used_before": 2}
    sessions = {json.loads(run.requests[0]["metadata"]["user_id"])["session_id"] for run in worked}
    assert len(sessions) == 4 and len({prefix(request) for run in worked for request in run.requests}) == 1
    for run, own in zip(worked, ("Canary-one", "Canary-two", "Canary-three", "Canary-one"), strict=True):
        assert run.state["status"] == "completed" and len(run.requests) == 3
        assert own in run.sent and not [word for word in WORDS if word != own and word in run.sent]
        asked = [other.state["input"]["instructions"] in run.sent for other in worked]
        assert asked == [other is run for other in worked]
        usage = run.events[-1]["usage"]
        assert (usage["turns"], usage["input_tokens"], usage["cache_read_input_tokens"]) == (3, 300, 15_000)
        charged = run.desk.sql("select count(*) as n from public.usage where run_id = %s", run.run_id)
        assert charged == [{"n": 3}]
    assert clis() == []


async def test_a_run_that_does_not_complete_leaves_no_cli(desks):
    desk, asked = desks[0], asyncio.Event()

    async def silent(body):
        asked.set()
        await asyncio.sleep(600)
        return DONE

    async with kept(Script([])) as warm:
        assert (await warm.work(desk)).state["status"] == "failed"
        assert warm.ended == {"run": 1} and clis() == []
    async with kept(silent) as warm:
        run_id = await desk.run()
        working = asyncio.create_task(warm.work(desk, run_id))
        await until(asked.is_set)
        await cancel(desk.database, desk.scope, run_id)
        assert (await working).state["status"] == "cancelled"
        assert warm.ended == {"run": 1} and clis() == []


async def test_a_run_that_was_broken_off_before_its_message_was_kept_begins_anew(desks):
    """What the CLI notes of the `/clear` is kept ahead of it, and looks like messages of the user."""
    one, two, _ = desks
    asked = asyncio.Event()
    breaks = False

    async def answer(body):
        if breaks and answers_so_far(body):
            asked.set()
            await asyncio.sleep(600)
        return READ if answers_so_far(body) == 0 else DONE

    async with kept(answer) as warm:
        await warm.work(one)
        breaks, run_id = True, await two.run()
        working = asyncio.create_task(warm.work(two, run_id))
        await until(asked.is_set)
        await until(lambda: "Extract all" in kept_of(two, run_id))
        the_cli().kill()
        with pytest.raises(Unavailable):
            await working
        breaks = False
        notes = """delete from public.agent_sessions where session_id = %s and number >= (
            select min(number) from public.agent_sessions where session_id = %s and entry::text like '%%Extract all%%')
            returning number"""
        conversation = two.state(run_id)["session_id"]
        assert two.sql(notes, str(conversation), str(conversation)) and "/clear" in kept_of(two, run_id)
        worked = await warm.work(two, run_id)
        sent = json.dumps(worked.requests[0]["messages"])
        assert sent.count("Extract all fields") == 1 and "broken off" in sent


async def test_a_run_that_was_broken_off_goes_on_in_a_cli_of_its_own(desks):
    one, two, _ = desks
    script, asked = Script([READ, endless(DONE)]), asyncio.Event()
    breaks = False

    async def answer(body):
        if breaks and answers_so_far(body) == 1:
            asked.set()
            await asyncio.sleep(600)
        return await script(body)

    async with kept(answer) as warm:
        await warm.work(one)
        breaks, run_id = True, await two.run()
        working = asyncio.create_task(warm.work(two, run_id))
        await until(asked.is_set)
        assert warm.taken == {"new": 1, "used_before": 1}  # its conversation began where one was cleared
        await until(lambda: "Canary-two" in kept_of(two, run_id))
        conversation = two.state(run_id)["session_id"]
        the_cli().kill()
        with pytest.raises(Unavailable):
            await working
        breaks = False
        worked = await warm.work(two, run_id)
        assert worked.state["status"] == "completed", worked.events
        assert worked.state["session_id"] == conversation
        assert warm.taken == {"new": 2, "used_before": 1} and clis() == []
        # It went on: what was read before is known, and nothing of the run before it.
        sent = json.dumps(worked.requests[0]["messages"])
        assert sent.count("Extract all fields") == 1 and "Canary-two" in sent and "broken off" in sent
        assert "Canary-one" not in worked.sent


async def test_questions_to_the_library_share_a_cli(desks):
    desk, prices = desks[0], Prices(MODEL, None, offline=False)
    async with kept(Script([endless(DONE)])) as warm:
        for _ in range(2):
            request = AskRequest(message="Who is the vendor?")
            run_id = await launch.start(desk.database, desk.scope, "ask", request, prices=prices)
            assert (await warm.work(desk, run_id)).state["status"] == "completed"
        assert warm.taken["new"] == 1


@pytest.mark.parametrize(
    ("reason", "chosen"), [("memory", {"max_mb": 1}), ("idle", {"idle_seconds": 0}), ("runs", {"runs": 1})]
)
async def test_a_cli_that_holds_much_memory_has_nothing_to_do_or_served_many_runs_ends(desks, reason, chosen):
    async with kept(Script([DONE]), **chosen) as warm:
        await warm.work(desks[0])
        await until(lambda: warm.ended == {reason: 1})
        await until(lambda: clis() == [])


async def test_a_spare_that_is_not_fit_for_a_run_is_not_replaced_at_once(desks):
    async with kept(Script([DONE]), spares=1, max_mb=1) as warm:
        await until(lambda: warm.ended == {"memory": 1} and not clis())
        await asyncio.sleep(0.1)
        assert clis() == []
        assert (await warm.work(desks[0])).state["status"] == "completed" and warm.taken == {"new": 1}


async def test_there_is_room_for_so_many(desks):
    ours, _, theirs = desks
    async with kept(Script([DONE]), processes=1) as warm:
        for desk in (ours, theirs):
            await warm.work(desk)
        assert warm.ended == {"room": 1}
        await until(lambda: len(clis()) == 1)


async def test_a_run_waits_for_a_cli_that_is_being_cleared(desks):
    async with kept(Script([DONE]), processes=1) as warm:
        async with warm.acquired(desks[0]) as client:
            assert [message async for message in client.converse("Go on.")]
            slow = the_cli()
            slow.suspend()
        working = asyncio.create_task(warm.work(desks[0]))
        await until(lambda: not warm.pool._kept)
        assert warm.taken == {"new": 1}
        slow.resume()
        await working
        assert warm.taken == {"new": 1, "used_before": 1}


async def test_a_cli_that_has_died_meanwhile_is_given_to_nobody(desks):
    async with kept(Script([DONE])) as warm:
        await warm.work(desks[0])
        await until(lambda: warm.pool._kept[0].clearing.done())
        the_cli().kill()
        await until(lambda: clis() == [])
        worked = await warm.work(await desks[0].beside())
        assert worked.state["status"] == "completed" and worked.state["fencing_token"] == 1
        assert warm.ended == {"died": 1}


def test_a_cli_with_other_words_another_model_or_other_limits_is_of_another_kind(quick_path):
    in_folder(quick_path)
    with (quick_path / "prompt.md").open("a") as prompt:
        prompt.write("Say banana.")
    kind = CliKind.of(EXTRACTION, MODEL, 5)
    assert kind == CliKind.of(EXTRACTION, MODEL, 5)
    assert kind not in (
        CliKind.of(replace(EXTRACTION, briefs=quick_path), MODEL, 5),
        CliKind.of(EXTRACTION, "claude-opus-5", 5),
        CliKind.of(EXTRACTION, MODEL, 3),
        CliKind.of(EXTRACTION, MODEL, 5, one_at_a_time=True),
    )


async def test_a_cli_that_does_something_without_a_run_is_used_no_more(desks):
    async with kept(Script([DONE])) as warm:
        await warm.work(desks[0])
        (idle,) = warm.pool._kept
        await idle.clearing
        asking = asyncio.create_task(idle.binding.answer("get_document_text", "call", {}))
        await until(lambda: idle.binding.spoilt)
        await warm.work(await desks[0].beside())
        assert warm.ended == {"spoilt": 1} and warm.taken == {"new": 2} and not asking.done()
        asking.cancel()


COMMANDS = ["/model opus", "/clear", "/anything", "!ls /", "@/etc/passwd", "@/etc/hostname"]


async def test_what_is_not_ours_is_text_where_commands_are_on(desks):
    """The control is in every one of these tests: our own `/clear` does clear."""
    async with kept(Script([DONE])) as warm:
        for command in COMMANDS:
            talk = await warm.talk(desks[0], command)
            (request,) = talk.requests
            said = request["messages"][0]["content"]
            assert (said if isinstance(said, str) else said[-1]["text"]) == command
            assert request["model"] == "claude-sonnet-5" and "root:x:0:0" not in str(request)
            assert isinstance(talk.messages[-1], ResultMessage)
        assert warm.taken == {"new": 1, "used_before": len(COMMANDS) - 1}
