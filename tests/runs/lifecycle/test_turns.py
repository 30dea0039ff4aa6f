"""The turns of a thread: a call that an earlier one stopped at is never made by a later one, and its CLI stays for the
next turn as long as nobody else goes on with the conversation."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from uuid import uuid4

import pytest

from fieldmark.agents.registry import agent_rows, registered
from fieldmark.db.migrate import migrate
from fieldmark.offline_model.messages import call, text
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.claim import claim
from fieldmark.runs.lifecycle import launch
from fieldmark.runs.lifecycle.decisions import Decision, decide
from fieldmark.stores.runs import RunOptions
from fieldmark.testing.script import Script, endless
from kept import Kept, kept
from living import clis, is_alive
from toy_agent.agent import TOY, CompareRequest

pytestmark = pytest.mark.anyio

PRICES = Prices("claude-sonnet-5", None, offline=False)


@pytest.fixture(autouse=True)
def _toy(desk):
    asyncio.run(migrate(desk.owner_url, agents=agent_rows([TOY])))
    with registered(TOY):
        yield


async def ask(desk, message: str, approval: str, thread_id=None):
    request = CompareRequest(documents=(desk.document_id, desk.document_id), message=message, thread_id=thread_id)
    options = RunOptions(approval=approval)
    return await launch.start(desk.database, desk.scope, "compare", request, prices=PRICES, options=options)


@pytest.mark.parametrize(("approval", "is_broken_off"), [("auto", False), ("ask", True)])
async def test_what_a_turn_stopped_at_is_not_made_by_the_next(desk, approval, is_broken_off):
    first = await desk.work(lambda body: [call("note", {"text": "Stale."})], run_id=await ask(desk, "One.", "ask"))
    assert first.state["status"] == "awaiting_approval"
    second = await ask(desk, "Two.", approval, first.state["thread_id"])
    assert first.state["status"] == "cancelled"
    if is_broken_off:
        await desk.context(second)  # a first worker took it up and died
    worked = await desk.work(lambda body: [text("Done.")], run_id=second)
    assert (worked.state["status"], worked.state["answer"]) == ("completed", "Done.")
    # It goes on with the conversation, past the call, without a word of the model's about that.
    assert worked.state["session_id"] == first.state["session_id"]
    (request,) = worked.requests
    assert "One." in json.dumps(request["messages"]) and "Two." in json.dumps(request["messages"])
    # It is told that the call was not done, where the CLI would say that nobody knows.
    assert "(refused): A newer run took its place." in json.dumps(request["messages"][-3:])
    (thread,) = desk.sql("select working_state from public.threads")
    assert thread["working_state"] == {} and worked.ledger == []
    assert [entry["status"] for entry in first.ledger] == ["refused"]
    assert not [event for event in worked.events if event["type"] == "tool"]


REFUSES = """
create function private.refuse() returns trigger language plpgsql as $$ begin raise 'The disk is full.'; end $$;
create trigger refuse before insert on public.agent_sessions for each row execute function private.refuse();
"""


async def test_a_turn_whose_conversation_cannot_be_kept_fails(desk):
    desk.sql(REFUSES)
    worked = await desk.work(lambda body: [text("Done.")], run_id=await ask(desk, "One.", "auto"))
    assert (worked.state["status"], worked.state["error_code"]) == ("failed", "session")


async def test_a_turn_that_begins_anew_does_not_continue_the_last_one_after_a_crash(desk):
    tasks = {name: replace(task, begins_anew=True) for name, task in TOY.tasks.items()}
    with registered(replace(TOY, tasks=tasks)):
        first = await desk.work(lambda body: [text("Done.")], run_id=await ask(desk, "One.", "auto"))
        second = await ask(desk, "Two.", "auto", first.state["thread_id"])
        assert await claim(desk.database, desk.scope, second, PRICES, "claude-sonnet-5")  # its worker dies at once
        worked = await desk.work(lambda body: [text("Done.")], run_id=second)
    assert (worked.state["status"], worked.state["fencing_token"]) == ("completed", 2)
    assert "Two." in worked.sent and "One." not in worked.sent


def talked(answer=None, **chosen) -> AbstractAsyncContextManager[Kept]:
    """CLIs that live on, for turns of the toy agent's threads."""
    return kept(answer or Script([endless([text("Done.")])]), **chosen)


async def say(warm, desk, message: str, thread_id=None, approval="auto", **columns):
    run_id = await ask(desk, message, approval, thread_id)
    if columns:
        desk.sql(
            f"update public.runs set {', '.join(f'{name} = %s' for name in columns)} where id = %s",
            *columns.values(),
            run_id,
        )
    return await warm.work(desk, run_id)


def said(worked) -> str:
    return json.dumps(worked.requests[-1]["messages"])


@pytest.mark.real_cli("its process stays for the next turn")
async def test_the_next_turn_of_a_thread_is_said_to_the_cli_of_the_last(desk):
    # Two turns a run are all that is allowed: a CLI that counted them over its life would end the second run.
    async with talked(max_turns=2) as warm:
        first = await say(warm, desk, "One.")
        (cli,) = clis()
        second = await say(warm, desk, "Two.", first.state["thread_id"])
        third = await say(warm, desk, "Three.", first.state["thread_id"])
        assert [one.state["status"] for one in (first, second, third)] == ["completed"] * 3
        assert clis() == [cli] and warm.taken == {"new": 1, "thread": 2}
        assert len({one.state["session_id"] for one in (first, second, third)}) == 1
        assert all(word in said(third) for word in ("One.", "Two.", "Three.")) and len(third.requests) == 1
        # What is stored is the same whole conversation: another worker goes on with it.
        async with talked() as elsewhere:
            fourth = await say(elsewhere, desk, "Four.", first.state["thread_id"])
            assert elsewhere.taken == {"new": 1}
            assert all(said(fourth).count(word) == 1 for word in ("One.", "Two.", "Three.", "Four."))
            # And so does this one, in another CLI: its own has not heard of that.
            fifth = await say(warm, desk, "Five.", first.state["thread_id"])
            assert "Four." in said(fifth) and warm.taken == {"new": 2, "thread": 2}
            assert not is_alive(cli)
    assert clis() == []


@pytest.mark.real_cli("its process stays for the next turn")
async def test_the_cli_of_a_thread_is_for_nothing_else(desk):
    """Not even for another thread of the same person."""
    async with talked() as warm:
        first = await say(warm, desk, "One.")
        other = await say(warm, desk, "Two.")
        assert "One." not in other.sent and other.state["session_id"] != first.state["session_id"]
        assert warm.taken == {"new": 2}


@pytest.mark.real_cli("its process stays for the next turn")
async def test_somebody_else_s_turn_has_another_cli(desk):
    """As where a thread was handed on: whose words a CLI holds is not asked of the thread."""
    async with talked() as warm:
        first = await say(warm, desk, "One.")
        (stayed,) = warm.pool._kept
        stayed.thread = (first.state["thread_id"], uuid4())
        await say(warm, desk, "Two.", first.state["thread_id"])
        assert warm.taken == {"new": 2}


@pytest.mark.real_cli("its process stays for the next turn")
async def test_a_turn_that_went_on_after_a_decision_leaves_its_cli(desk):
    async with talked(Script([[call("note", {"text": "Mine."})], endless([text("Done.")])])) as warm:
        waiting = await say(warm, desk, "One.", approval="ask")
        await decide(desk.database, desk.scope, waiting.run_id, Decision(waiting.state["waiting_call"], approved=True))
        assert (await warm.work(desk, waiting.run_id)).state["status"] == "completed"
        second = await say(warm, desk, "Two.", waiting.state["thread_id"], "ask")
        assert second.state["status"] == "completed" and warm.taken == {"new": 2, "thread": 1}
        assert "One." in said(second) and "Mine." in said(second)


@pytest.mark.real_cli("its process stays for the next turn")
async def test_a_cli_that_lost_something_says_no_more(desk):
    async with talked() as warm:
        first = await say(warm, desk, "One.")
        (stayed,) = warm.pool._kept
        # Something that it says too late: nobody has the conversation then.
        sessions, session_id = stayed.binding._left, str(first.state["session_id"])
        await sessions.append({"project_key": "p", "session_id": session_id}, [{"type": "user", "uuid": "late"}])
        second = await say(warm, desk, "Two.", first.state["thread_id"])
        assert second.state["status"] == "completed" and "One." in said(second)
        assert warm.taken == {"new": 2}
