"""Leaving an organisation, or becoming a viewer in it, cancels one's open runs."""

from __future__ import annotations

from uuid import uuid4

import pytest

from fieldmark.errors import Conflict
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


async def inbox(desk, scope: Scope) -> list:
    async with desk.database.as_user(scope) as conn:
        return [one.id for one in await runs.list_runs(conn, scope, status="awaiting_approval", limit=10, after=None)]


@pytest.mark.parametrize("how", ["removed", "made a viewer"])
async def test_leaving_cancels_one_s_open_runs_and_those_of_one_s_keys(desk, how):
    run_id, call_id, _ = await waiting(desk)
    ended = await (await desk.beside()).work(Script([[text("Done.")]]))
    other, *_ = await waiting(await desk.beside())
    colleague, key = await joined(desk), uuid4()
    desk.sql(
        "insert into public.api_keys (id, org_id, created_by, name, prefix, hash, scopes) "
        "values (%s, %s, %s, 'k', 'fm_00000000', sha256('k'), '{runs:write}')",
        *(key, desk.scope.org_id, desk.scope.user_id),
    )
    of_key, *_ = await waiting(await desk.beside())
    desk.sql("update public.runs set created_by = %s where id = %s", colleague.user_id, other)
    desk.sql("update public.runs set created_by = %s where id = %s", key, of_key)
    desk.sql("update public.memberships set role = 'owner' where org_id = %s", desk.scope.org_id)
    if how == "removed":
        desk.sql("delete from public.memberships where user_id = %s", desk.scope.user_id)
    else:
        desk.sql("update public.memberships set role = 'viewer' where user_id = %s", desk.scope.user_id)
    states = [desk.state(run)["status"] for run in (run_id, of_key, other, ended.run_id)]
    assert states == ["cancelled", "cancelled", "awaiting_approval", "completed"]
    assert await inbox(desk, colleague) == [other]
    with pytest.raises(Conflict):
        await decisions.decide(desk.database, colleague, run_id, Decision(call_id, True))
