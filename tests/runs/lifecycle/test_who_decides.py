"""Who decides a call, as the organisation has set it: over the service, and in SQL below it."""

from __future__ import annotations

from uuid import uuid4

import pytest

from fieldmark.errors import Invalid, NotApprover, NotFound, ReadOnly, SecondPersonNeeded
from fieldmark.identity.scope import Scope
from fieldmark.offline_model.messages import call, text
from fieldmark.runs.lifecycle import decisions
from fieldmark.runs.lifecycle.decisions import ApprovalDecision
from fieldmark.stores import runs
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


def joined(case, role: str) -> Scope:
    user = uuid4()
    case.sql("insert into auth.users (id) values (%s)", user)
    query = "insert into public.memberships (org_id, user_id, role) values (%s, %s, %s)"
    case.sql(query, case.scope.org_id, user, role)
    return Scope(user, case.scope.org_id)


def key_of(case, person: Scope) -> Scope:
    (row,) = case.sql(
        "insert into public.api_keys (org_id, created_by, name, prefix, hash, scopes) "
        "values (%s, %s, 'k', 'fm_00000000', sha256(%s::text::bytea), '{runs:approve,runs:write}') returning id",
        case.scope.org_id,
        person.user_id,
        str(uuid4()),
    )
    return Scope(row["id"], case.scope.org_id)


def settings(case, approvers: str, *, second_person: bool) -> None:
    query = "update public.organisations set approvers = %s, second_person = %s where id = %s"
    case.sql(query, approvers, second_person, case.scope.org_id)


async def waiting(case, starter: Scope, **columns) -> tuple:
    """A run of the starter's that waits, and its call."""
    run_id = await case.queue_run(**columns)
    case.sql("update public.runs set created_by = %s where id = %s", starter.user_id, run_id)
    case.sql(
        "insert into public.tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, created_by) "
        "values (%s, 'c', %s, 'update_field', '{}', repeat('0', 64), 'pending', %s)",
        run_id,
        starter.org_id,
        starter.user_id,
    )
    case.sql("update public.runs set status = 'awaiting_approval', waiting_call = 'c' where id = %s", run_id)
    return run_id


async def decided(case, who: Scope, run_id) -> object:
    """None where they can; else what they are told. In SQL below the service it is the same."""
    error_type = None
    try:
        await decisions.decide(
            case.database, who, run_id, ApprovalDecision("c", False, {})
        )  # a rejection takes no input
    except Invalid:
        pass
    except (NotFound, ReadOnly, NotApprover, SecondPersonNeeded) as error:
        error_type = type(error)
    begun = None
    with pytest.raises(ZeroDivisionError):
        async with case.database.as_user(who) as conn:
            cursor = await conn.execute(
                "select private.start_decision(%s, 'c', repeat('0', 64), false, null, null, null) as begun", (run_id,)
            )
            row = await cursor.fetchone()
            begun = row["begun"]
            raise ZeroDivisionError  # undo it: the next is to be asked too
    assert (begun is None) == (error_type is not None)
    async with case.database.as_user(who) as conn:
        inbox = await runs.list_runs(conn, who, status="awaiting_approval", limit=10)
    own = who.user_id == case.state(run_id)["created_by"]
    assert (run_id in [one.id for one in inbox.items]) == (error_type is None or own)
    return error_type


async def test_who_may_decide_a_members_run(case):
    owner, member, colleague, viewer = (
        case.scope,
        joined(case, "member"),
        joined(case, "member"),
        joined(case, "viewer"),
    )
    robot, boss = key_of(case, member), key_of(case, owner)
    run_id = await waiting(case, member)
    expected = {
        # owner, who started it, their key, a colleague, a viewer, an owner's key
        ("members", False): (NotFound, None, None, NotFound, ReadOnly, NotFound),
        ("owners", False): (None, NotApprover, NotApprover, NotApprover, ReadOnly, None),
        ("members", True): (None, SecondPersonNeeded, SecondPersonNeeded, None, ReadOnly, None),
        ("owners", True): (None, NotApprover, NotApprover, NotApprover, ReadOnly, None),
    }
    for (approvers, second), error_type in expected.items():
        settings(case, approvers, second_person=second)
        asked = [await decided(case, who, run_id) for who in (owner, member, robot, colleague, viewer, boss)]
        assert tuple(asked) == error_type, (approvers, second)


async def test_owner_cannot_decide_own_run_if_a_second_person_is_required(case):
    owner, other = case.scope, joined(case, "owner")
    robot = key_of(case, owner)
    for starter in (owner, robot):
        run_id = await waiting(case, starter)
        settings(case, "owners", second_person=True)
        asked = [await decided(case, who, run_id) for who in (owner, robot, other)]
        assert asked == [SecondPersonNeeded, SecondPersonNeeded, None]
        settings(case, "owners", second_person=False)
        assert [await decided(case, who, run_id) for who in (owner, robot, other)] == [None, None, None]


async def test_calls_that_others_decide_cannot_be_approved_in_advance(case):
    asks, approves = ("ask", []), ("auto", ["update_field"])
    member = joined(case, "member")
    expected = {
        # an owner's run, their key's, a member's, their key's
        ("members", True): (asks, asks, asks, asks),
        ("owners", False): (approves, approves, asks, asks),
        ("members", False): (approves, approves, approves, approves),
    }
    for (approvers, second_person), wanted in expected.items():
        settings(case, approvers, second_person=second_person)
        for starter, approved in zip(
            (case.scope, key_of(case, case.scope), member, key_of(case, member)), wanted, strict=True
        ):
            async with case.database.as_user(starter) as conn:
                cursor = await conn.execute(
                    "insert into public.runs (org_id, agent, task, document_id, extraction_id, approval, "
                    "auto_approved_tools) values (%s, 'extraction', 'extract', %s, %s, 'auto', '{update_field}') "
                    "returning approval, auto_approved_tools",
                    (case.scope.org_id, case.document_id, case.extraction_id),
                )
                row = await cursor.fetchone()
            assert (row["approval"], row["auto_approved_tools"]) == approved, (approvers, second_person)


async def test_second_persons_decision_is_executed_and_the_run_keeps_its_owner(case):
    settings(case, "members", second_person=True)
    colleague = joined(case, "member")
    finished = await case.execute_run(Script([[call("update_field", TOTAL)], [text("Done.")]]))
    call_id = finished.state["waiting_call"]
    for who, approve_rest in ((case.scope, None), (colleague, "tool")):  # nor does the second one approve what follows
        with pytest.raises(SecondPersonNeeded):
            await decisions.decide(
                case.database, who, finished.run_id, ApprovalDecision(call_id, True, approve_rest=approve_rest)
            )
    await decisions.decide(case.database, colleague, finished.run_id, ApprovalDecision(call_id, True))
    assert case.extraction()["extracted_fields"] == {"total": 10}
    (entry,) = finished.ledger
    assert (entry["decided_by"], entry["status"]) == (colleague.user_id, "done")
    assert (finished.state["created_by"], finished.state["status"]) == (case.scope.user_id, "queued")


@pytest.mark.parametrize(
    "leaves",
    [
        "delete from public.memberships where user_id = %s",
        "update public.memberships set role = 'viewer' where user_id = %s",
    ],
    ids=["removed", "made a viewer"],
)
async def test_leaving_cancels_the_members_open_runs_and_those_of_their_keys(case, leaves):
    member = joined(case, "member")
    own, of_key, other = [
        await waiting(await case.another_extraction(), who) for who in (member, key_of(case, member), case.scope)
    ]
    ended = await waiting(await case.another_extraction(), member)
    case.sql("update public.runs set status = 'completed', waiting_call = null where id = %s", ended)
    case.sql(leaves, member.user_id)
    states = [case.state(run_id)["status"] for run_id in (own, of_key, other, ended)]
    assert states == ["cancelled", "cancelled", "awaiting_approval", "completed"]
