"""The turns of a thread: a call that an earlier one stopped at is never made by a later one, and each has its
own CLI."""

from __future__ import annotations

import json

import pytest

from fieldmark.agents.registry import registered
from fieldmark.offline_model.messages import call, text
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.lifecycle import launch
from fieldmark.runs.lifecycle.launch import RunOptions
from fieldmark.testing.script import Script
from kept import kept
from living import clis
from toy_agent.agent import ROWS, TOY, CompareRequest

pytestmark = pytest.mark.anyio

PRICES = Prices("claude-sonnet-5", None, offline=False)


@pytest.fixture(autouse=True)
def _rows(desk):
    for statement in ROWS.strip().splitlines():
        desk.sql(statement)


async def ask(desk, message: str, approval: str, thread_id=None):
    request = CompareRequest(documents=(desk.document_id, desk.document_id), message=message, thread_id=thread_id)
    options = RunOptions(approval=approval)
    return await launch.start(desk.database, desk.scope, "compare", request, prices=PRICES, options=options)


@pytest.mark.parametrize("is_broken_off", [False, True])
@pytest.mark.parametrize("approval", ["auto", "ask"])
async def test_what_a_turn_stopped_at_is_not_made_by_the_next(desk, approval, is_broken_off):
    with registered(TOY):
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


async def test_a_turn_has_a_cli_of_its_own(desk):
    """What is said in a thread may be for its maker alone."""
    with registered(TOY):
        async with kept(Script([[text("Done.")]])) as warm:
            worked = await warm.work(desk, await ask(desk, "One.", "auto"))
            assert worked.state["status"] == "completed" and worked.state["thread_id"]
            assert warm.counted()["clis_taken_total", "own"] == 1 and clis() == []
