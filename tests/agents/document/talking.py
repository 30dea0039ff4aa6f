"""A conversation on a document, whose tools are called without a CLI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from desk import Desk, sql
from fieldmark.agents.document.agent import DOCUMENT
from fieldmark.identity.scope import Scope
from fieldmark.runs.lifecycle.context import run_context
from fieldmark.stores import runs, threads
from fieldmark.stores.runs import Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.ledger import By, ToolCall, ToolOutcome, execute

SCHEMA = {
    "type": "object",
    "required": ["total"],
    "properties": {"number": {"type": "string"}, "total": {"type": "number"}},
}


@dataclass(frozen=True)
class Talk:
    """One person's conversation on the desk's document."""

    desk: Desk
    thread_id: UUID

    @property
    def scope(self) -> Scope:
        return self.desk.scope

    async def turn(self, message: str = "Go on.", **given: Any) -> RunContext:
        """The context of a turn that a worker has just claimed."""
        async with self.desk.database.as_user(self.scope) as conn:
            run_id = await runs.add(
                conn,
                self.scope,
                id=uuid4(),
                agent=DOCUMENT.name,
                task="chat",
                task_input={"message": message, **given},
                subject=Subject(self.desk.document_id, None, self.thread_id),
                approval="auto",
            )
            claimed = await runs.claim(conn, run_id)
        assert claimed is not None
        return run_context(self.desk.database, self.scope, claimed)

    async def call(self, context: RunContext, name: str, /, **arguments: Any) -> ToolOutcome:
        """A call that was admitted."""
        call_id = f"call-{uuid4()}"
        await self.desk.admit(context, name, arguments, call_id)
        return await execute(DOCUMENT.create_tools(context), context, ToolCall(name, call_id, arguments), by=By.POLICY)

    async def preview(self, context: RunContext, name: str, /, **arguments: Any) -> Any:
        """What a call would change, as the person is shown it who is asked."""
        action, args = DOCUMENT.create_tools(context).actions[name], DOCUMENT.toolset.check(name, arguments)
        if action.check is not None:
            await action.check(args)
        assert action.preview is not None
        async with self.desk.database.as_user(self.scope) as conn:
            return await action.preview(conn, args)

    async def end(self, context: RunContext) -> None:
        """The turn is over, and the thread free for the next."""
        self.desk.sql("update public.runs set status = 'completed', finished_at = now() where id = %s", context.run_id)

    @property
    def state(self) -> dict[str, Any]:
        """What the thread's tools remember."""
        return sql(self.desk.owner_url, "select working_state from public.threads where id = %s", self.thread_id)[0][
            "working_state"
        ]


async def talk_at(desk: Desk) -> Talk:
    """A new conversation on a desk's document."""
    async with desk.database.as_user(desk.scope) as conn:
        thread = await threads.add(conn, desk.scope, agent=DOCUMENT.name, document_id=desk.document_id, title="Talk")
    return Talk(desk, thread.id)
