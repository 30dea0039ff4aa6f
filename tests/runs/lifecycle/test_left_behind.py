"""A run whose user left the organisation: those who stay decide it, and it goes on as the decider's."""

from __future__ import annotations

from uuid import uuid4

import pytest

from fieldmark.errors import Conflict, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.offline_model.messages import call, text
from fieldmark.runs.lifecycle import decisions
from fieldmark.runs.lifecycle.decisions import Decision
from fieldmark.stores import runs
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}
SECOND = {"path": "second", "value": 2, "confidence": 0.9}


async def joined(desk) -> Scope:
    """Somebody else in the same organisation."""
    colleague = uuid4()
    desk.sql("insert into auth.users (id) values (%s) on conflict do nothing", colleague)
    desk.sql(
        "insert into public.memberships (org_id, user_id, role) values (%s, %s, 'member')",
        desk.scope.org_id,
        colleague,
    )
    return Scope(colleague, desk.scope.org_id)


async def waiting(desk, *then, **columns) -> tuple:
    """A run that waits, its call, and the script that goes on with `then`."""
    script = Script([[call("update_field", TOTAL)], *then])
    worked = await desk.work(script, approval="ask", **columns)
    assert worked.state["status"] == "awaiting_approval"
    return worked.run_id, worked.state["waiting_call"], script


def leave(desk) -> None:
    desk.sql("update public.memberships set role = 'owner' where org_id = %s", desk.scope.org_id)
    desk.sql("delete from public.memberships where user_id = %s", desk.scope.user_id)


async def inbox(desk, scope: Scope) -> list:
    async with desk.database.as_user(scope) as conn:
        return [one.id for one in await runs.list_runs(conn, scope, status="awaiting_approval", limit=10, after=None)]


async def test_nobody_else_decides_while_its_user_is_there(desk):
    run_id, call_id, _ = await waiting(desk)
    colleague = await joined(desk)
    assert await inbox(desk, colleague) == []
    for approved in (True, False):
        with pytest.raises(NotFound):
            await decisions.decide(desk.database, colleague, run_id, Decision(call_id, approved))
    with pytest.raises(NotFound):
        await decisions.pending_call(desk.database, colleague, run_id)
    # Nor does the statement below the service.
    async with desk.database.as_user(colleague) as conn:
        cursor = await conn.execute(
            "select private.begin_decision(%s, %s, arguments_hash, true, null, null, null) as begun "
            "from public.tool_calls where run_id = %s",
            (run_id, call_id, run_id),
        )
        assert await cursor.fetchone() == {"begun": None}
    assert desk.state(run_id)["created_by"] == desk.scope.user_id
    await decisions.decide(desk.database, desk.scope, run_id, Decision(call_id, True))
    assert desk.state(run_id)["started_by"] is None


async def test_whoever_stays_approves_and_the_run_goes_on_as_theirs(desk):
    then = [call("update_field", SECOND)], [text("Done.")]
    run_id, call_id, script = await waiting(desk, *then, idempotency_key="mine")
    colleague = await joined(desk)
    leave(desk)
    assert await inbox(desk, colleague) == [run_id]
    assert (await decisions.pending_call(desk.database, colleague, run_id)).call_id == call_id
    await decisions.decide(desk.database, colleague, run_id, Decision(call_id, True))
    state = desk.state(run_id)
    assert (state["status"], state["created_by"], state["started_by"]) == (
        *("queued", colleague.user_id),
        desk.scope.user_id,
    )
    assert state["idempotency_key"] is None
    assert desk.journal()[-1]["created_by"] == colleague.user_id
    with pytest.raises(Conflict):
        await decisions.decide(desk.database, colleague, run_id, Decision(call_id, False))
    worked = await desk.work(script, run_id=run_id)
    assert worked.state["status"] == "awaiting_approval"
    await decisions.decide(desk.database, colleague, run_id, Decision(worked.state["waiting_call"], False))
    worked = await desk.work(script, run_id=run_id)
    assert worked.state["status"] == "completed"
    assert desk.extraction()["extracted_fields"] == {"total": 10}


async def test_whoever_stays_rejects_or_cancels(desk):
    rejected, call_id, _ = await waiting(desk)
    cancelled, *_ = await waiting(await desk.beside())
    colleague = await joined(desk)
    leave(desk)
    await decisions.decide(desk.database, colleague, rejected, Decision(call_id, False))
    await decisions.cancel(desk.database, colleague, cancelled)
    assert (desk.state(rejected)["status"], desk.state(cancelled)["status"]) == ("queued", "cancelled")
    assert desk.extraction()["extracted_fields"] == {}


async def test_a_stranger_and_who_left_decide_nothing(desk, make_user):
    run_id, call_id, _ = await waiting(desk)
    await joined(desk)
    leave(desk)
    for scope in (await make_user(), desk.scope):
        with pytest.raises(NotFound):
            await decisions.decide(desk.database, scope, run_id, Decision(call_id, True))
    assert desk.state(run_id)["status"] == "awaiting_approval"


async def test_the_words_of_who_left_are_not_the_decider_s(desk):
    """A correction has its author's word for what it names. Whoever takes it over has not said it."""
    await desk.put({"total": 1, "second": 1})
    then = [call("update_field", SECOND)], [text("Done.")]
    said = "second is 2, total is 10"
    run_id, call_id, script = await waiting(desk, *then, task="correct", instructions=said)
    colleague = await joined(desk)
    async with desk.database.as_user(colleague) as conn:
        await conn.execute("select update_extraction_field(%s, '{second}', '7')", (desk.extraction_id,))
    assert desk.extraction()["locks"]["second"]["by"] == str(colleague.user_id)
    leave(desk)
    await decisions.decide(desk.database, colleague, run_id, Decision(call_id, True))
    desk.sql("update public.runs set approval = 'auto' where id = %s", run_id)
    worked = await desk.work(script, run_id=run_id)
    assert worked.state["status"] == "completed"
    assert desk.extraction()["extracted_fields"] == {"total": 10, "second": 7}
    assert len(desk.sql("select 1 from public.extraction_proposals")) == 1
