"""Who may decide a call by the organisation's settings, in the service and in SQL."""

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


def add_member(case, role: str) -> Scope:
    return Scope(case.add_member(role), case.scope.org_id)


def add_key(case, member: Scope) -> Scope:
    (row,) = case.sql(
        "insert into public.api_keys (org_id, created_by, name, prefix, hash, scopes) "
        "values (%s, %s, 'k', 'fm_00000000', sha256(%s::text::bytea), '{runs:approve,runs:write}') returning id",
        case.scope.org_id,
        member.user_id,
        str(uuid4()),
    )
    return Scope(row["id"], case.scope.org_id)


def set_approvers(case, approvers: str, *, second_person: bool) -> None:
    query = "update public.organisations set approvers = %s, second_person = %s where id = %s"
    case.sql(query, approvers, second_person, case.scope.org_id)


async def add_waiting_run(case, starter: Scope, **columns) -> tuple:
    """Add a run of this starter with a pending call."""
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


async def try_to_decide(case, who: Scope, run_id) -> object:
    """Return None if `who` may decide the call, else the type of the error. The SQL function below must agree."""
    error_type = None
    try:
        await decisions.decide(
            case.database, who, run_id, ApprovalDecision("c", False, {})
        )  # a rejection takes no input
    except Invalid:
        pass
    except (NotFound, ReadOnly, NotApprover, SecondPersonNeeded) as error:
        error_type = type(error)
    decision_id = None
    with pytest.raises(ZeroDivisionError):
        async with case.database.as_user(who) as conn:
            cursor = await conn.execute(
                "select private.start_decision(%s, 'c', repeat('0', 64), false, null, null, null) as started", (run_id,)
            )
            row = await cursor.fetchone()
            decision_id = row["started"]
            raise ZeroDivisionError  # roll back
    assert (decision_id is None) == (error_type is not None)
    async with case.database.as_user(who) as conn:
        inbox = await runs.list_runs(conn, who, status="awaiting_approval", limit=10)
    own = who.user_id == case.state(run_id)["created_by"]
    assert (run_id in [one.id for one in inbox.items]) == (error_type is None or own)
    return error_type


async def test_who_may_decide_a_members_run(case):
    owner, member, colleague, viewer = (
        case.scope,
        add_member(case, "member"),
        add_member(case, "member"),
        add_member(case, "viewer"),
    )
    robot, boss = add_key(case, member), add_key(case, owner)
    run_id = await add_waiting_run(case, member)
    expected = {
        # owner, starter, key of the starter, colleague, viewer, key of the owner
        ("members", False): (NotFound, None, None, NotFound, ReadOnly, NotFound),
        ("owners", False): (None, NotApprover, NotApprover, NotApprover, ReadOnly, None),
        ("members", True): (None, SecondPersonNeeded, SecondPersonNeeded, None, ReadOnly, None),
        ("owners", True): (None, NotApprover, NotApprover, NotApprover, ReadOnly, None),
    }
    for (approvers, second), error_type in expected.items():
        set_approvers(case, approvers, second_person=second)
        asked = [await try_to_decide(case, who, run_id) for who in (owner, member, robot, colleague, viewer, boss)]
        assert tuple(asked) == error_type, (approvers, second)


async def test_owner_cannot_decide_own_run_if_a_second_person_is_required(case):
    owner, other = case.scope, add_member(case, "owner")
    robot = add_key(case, owner)
    for starter in (owner, robot):
        run_id = await add_waiting_run(case, starter)
        set_approvers(case, "owners", second_person=True)
        asked = [await try_to_decide(case, who, run_id) for who in (owner, robot, other)]
        assert asked == [SecondPersonNeeded, SecondPersonNeeded, None]
        set_approvers(case, "owners", second_person=False)
        assert [await try_to_decide(case, who, run_id) for who in (owner, robot, other)] == [None, None, None]


async def test_calls_that_others_decide_cannot_be_approved_in_advance(case):
    must_ask, auto_approves = ("ask", []), ("auto", ["update_field"])
    member = add_member(case, "member")
    expected = {
        # run of: owner, key of the owner, member, key of the member
        ("members", True): (must_ask, must_ask, must_ask, must_ask),
        ("owners", False): (auto_approves, auto_approves, must_ask, must_ask),
        ("members", False): (auto_approves, auto_approves, auto_approves, auto_approves),
    }
    for (approvers, second_person), expected_by_starter in expected.items():
        set_approvers(case, approvers, second_person=second_person)
        for starter, approved in zip(
            (case.scope, add_key(case, case.scope), member, add_key(case, member)), expected_by_starter, strict=True
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


async def test_tools_of_the_organisation_are_approved_in_advance_unless_others_decide(case):
    query = "update public.organisations set auto_approved_tools = '{update_field,extract_fields}' where id = %s"
    case.sql(query, case.scope.org_id)
    member, all_tools = add_member(case, "member"), ["extract_fields", "remove_field", "update_field"]
    expected = {
        # run of: owner, member
        ("members", False): (all_tools, all_tools),
        ("owners", False): (all_tools, []),
        ("members", True): ([], []),
    }
    for (approvers, second_person), expected_by_starter in expected.items():
        set_approvers(case, approvers, second_person=second_person)
        for starter, approved in zip((case.scope, member), expected_by_starter, strict=True):
            async with case.database.as_user(starter) as conn:
                cursor = await conn.execute(
                    "insert into public.runs (org_id, agent, task, document_id, extraction_id, approval, "
                    "auto_approved_tools) values (%s, 'extraction', 'extract', %s, %s, 'ask', "
                    "'{remove_field,update_field}') returning approval, auto_approved_tools",
                    (case.scope.org_id, case.document_id, case.extraction_id),
                )
                row = await cursor.fetchone()
            assert (row["approval"], row["auto_approved_tools"]) == ("ask", approved), (approvers, second_person)


async def test_second_persons_decision_is_executed_and_the_run_keeps_its_owner(case):
    set_approvers(case, "members", second_person=True)
    colleague = add_member(case, "member")
    finished = await case.execute_run(Script([[call("update_field", TOTAL)], [text("Done.")]]))
    call_id = finished.state["waiting_call"]
    for who, approve_rest in ((case.scope, None), (colleague, "tool")):  # nor may the colleague approve further calls
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
    "query",
    [
        "delete from public.memberships where user_id = %s",
        "update public.memberships set role = 'viewer' where user_id = %s",
    ],
    ids=["removed", "made a viewer"],
)
async def test_leaving_cancels_the_members_open_runs_and_those_of_their_keys(case, query):
    member = add_member(case, "member")
    own, of_key, other = [
        await add_waiting_run(await case.another_extraction(), who)
        for who in (member, add_key(case, member), case.scope)
    ]
    ended = await add_waiting_run(await case.another_extraction(), member)
    case.sql("update public.runs set status = 'completed', waiting_call = null where id = %s", ended)
    case.sql(query, member.user_id)
    states = [case.state(run_id)["status"] for run_id in (own, of_key, other, ended)]
    assert states == ["cancelled", "cancelled", "awaiting_approval", "completed"]
