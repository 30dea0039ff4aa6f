"""Conversations in Postgres: the SDK's conformance tests, and isolation of organisations and runs."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from claude_agent_sdk.testing import run_session_store_conformance

from extraction_case import until, update_call
from fieldmark.errors import Fenced
from fieldmark.identity.scope import Scope
from fieldmark.offline_model.messages import text
from fieldmark.runs.engine.session_store import ConversationStore, SessionWriteFailed
from fieldmark.runs.lifecycle.decisions import ApprovalDecision, decide
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

KEY = {"project_key": "shared", "session_id": "s"}

WAITING_LOCKS = """select 1 from pg_locks where not granted
           and database = (select oid from pg_database where datname = current_database())"""


class ProjectStore(ConversationStore):
    """Includes the project in the session id: the conformance tests use several projects, Fieldmark only one."""

    async def append(self, key, entries):
        await super().append(_with_project(key), entries)

    async def load(self, key):
        return await super().load(_with_project(key))

    async def list_subkeys(self, key):
        return await super().list_subkeys(_with_project(key))


def _with_project(key):
    return {**key, "session_id": f"{key['project_key']}/{key['session_id']}"}


async def test_sdk_conformance_tests_pass(database, make_user):
    async def create_store() -> ConversationStore:
        return ProjectStore(database, await make_user())  # a new, empty organisation

    await run_session_store_conformance(create_store)


async def test_organisation_sees_only_its_own_conversations(database, make_user):
    scope, other_scope = await make_user(), await make_user()
    await ConversationStore(database, scope).append(KEY, [{"type": "user", "uuid": "1", "text": "ours"}])
    assert await ConversationStore(database, other_scope).load(KEY) is None
    # Naming another organisation's id gives no access.
    assert await ConversationStore(database, Scope(other_scope.user_id, scope.org_id)).load(KEY) is None
    assert await ConversationStore(database, scope).load({**KEY, "project_key": "elsewhere"}) == [
        {"type": "user", "uuid": "1", "text": "ours"}
    ]


async def test_entries_that_jsonb_rejects_are_stored(database, make_user):
    store = ConversationStore(database, await make_user())
    entry = {"type": "user", "uuid": "1", "text": "NUL \0 and half \ud800 a pair"}
    await store.append(KEY, [entry])
    assert await store.load(KEY) == [entry]


async def test_repeated_batch_is_stored_once(database, make_user):
    store = ConversationStore(database, await make_user())
    batch = [{"type": "user", "uuid": "1"}, {"type": "assistant", "uuid": "2"}]
    await store.append(KEY, batch)
    await store.append(KEY, [*batch, {"type": "user", "uuid": "3"}])
    assert [entry["uuid"] for entry in await store.load(KEY)] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "query",
    [
        "update public.runs set fencing_token = fencing_token + 1 where id = %s",
        "update public.runs set status = 'cancelled' where id = %s",
    ],
)
async def test_worker_that_lost_the_run_cannot_append(case, query):
    context = await case.context()
    store = ConversationStore(case.database, case.scope, run=(context.run_id, context.fencing_token))
    await store.append(KEY, [{"type": "user", "uuid": "1"}])
    store.check()
    case.sql(query, context.run_id)
    await store.append(KEY, [{"type": "user", "uuid": "2"}])
    assert await store.load(KEY) == [{"type": "user", "uuid": "1"}]
    with pytest.raises(Fenced):
        store.check()


async def test_run_cannot_be_claimed_during_an_append(case):
    context = await case.context()
    store = ConversationStore(case.database, case.scope, run=(context.run_id, context.fencing_token))
    with psycopg.connect(case.owner_url) as conn:
        # The lock holds the append within its transaction.
        conn.execute("lock table public.agent_sessions in share mode")
        appending = asyncio.create_task(store.append(KEY, [{"type": "user", "uuid": "1"}]))
        await until(lambda: case.sql(WAITING_LOCKS))
        with pytest.raises(psycopg.errors.LockNotAvailable):
            case.sql("select 1 from public.runs where id = %s for no key update nowait", context.run_id)
    await appending
    case.sql("select 1 from public.runs where id = %s for no key update nowait", context.run_id)
    assert await store.load(KEY) == [{"type": "user", "uuid": "1"}]


REFUSE_INSERTS = """
create function private.refuse() returns trigger language plpgsql as $$ begin raise 'The disk is full.'; end $$;
create trigger refuse before insert on public.agent_sessions for each row execute function private.refuse();
"""


async def test_waiting_run_without_stored_conversation_starts_a_new_one(case):
    case.sql(REFUSE_INSERTS)
    waiting = await case.execute_run(Script([[update_call("total")]]), approval="ask")
    assert waiting.state["status"] == "awaiting_approval" and case.sql("select 1 from public.agent_sessions") == []
    case.sql("drop trigger refuse on public.agent_sessions")
    await decide(case.database, case.scope, waiting.run_id, ApprovalDecision(waiting.state["waiting_call"], True))
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=waiting.run_id)
    assert finished.state["status"] == "completed" and case.extraction()["extracted_fields"] == {"total": 1}
    assert "(done): " in finished.sent


async def test_buffered_entries_are_stored_in_one_transaction(case):
    store = ConversationStore(case.database, case.scope)
    batches = [[{"type": kind, "uuid": kind}] for kind in ("user", "assistant", "attachment")]
    for batch in batches:
        store.buffer(KEY, batch)
    assert await store.load(KEY) is None
    await until(lambda: case.sql("select 1 from public.agent_sessions"))
    assert await store.load(KEY) == [entry for batch in batches for entry in batch]
    assert len(case.sql("select distinct xmin::text from public.agent_sessions")) == 1


async def test_discarded_entries_are_not_stored(database, make_user):
    store = ConversationStore(database, await make_user())
    store.buffer(KEY, [{"type": "user", "uuid": "1"}])
    store.discard()
    store.buffer(KEY, [{"type": "user", "uuid": "2"}])
    await store.flush()
    assert await store.load(KEY) == [{"type": "user", "uuid": "2"}]


async def test_failed_append_is_raised_by_check_after_later_success(case):
    store = ConversationStore(case.database, case.scope)
    case.sql(REFUSE_INSERTS)
    with pytest.raises(psycopg.Error):
        await store.append(KEY, [{"type": "user", "uuid": "1"}])
    case.sql("drop trigger refuse on public.agent_sessions")
    store.buffer(KEY, [{"type": "user", "uuid": "2"}])
    await store.flush()
    with pytest.raises(SessionWriteFailed):
        store.check()


async def test_append_cancelled_by_the_sdk_counts_as_failed(case):
    store = ConversationStore(case.database, case.scope)
    with psycopg.connect(case.owner_url) as conn:
        conn.execute("lock table public.agent_sessions in exclusive mode")
        appending = asyncio.create_task(store.append(KEY, [{"type": "user", "uuid": "1"}]))
        await until(lambda: case.sql(WAITING_LOCKS))
        appending.cancel()  # as the SDK does after a minute
        await asyncio.wait({appending})
    assert appending.cancelled()
    with pytest.raises(SessionWriteFailed):
        store.check()
