"""A conversation with an agent, whose tools are called without a CLI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from extraction_case import ExtractionCase, sql
from fieldmark.agents.document.agent import DOCUMENT
from fieldmark.agents.spec import AgentSpec
from fieldmark.identity.scope import Scope
from fieldmark.runs.lifecycle.context import run_context
from fieldmark.stores import runs, threads
from fieldmark.stores.runs import RunOptions, Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.ledger import StartedBy, ToolCall, ToolOutcome, execute

SCHEMA = {
    "type": "object",
    "required": ["total"],
    "properties": {"number": {"type": "string"}, "total": {"type": "number"}},
}


@dataclass(frozen=True)
class Chat:
    """A conversation about the document of the case, or with the library agent about all documents."""

    case: ExtractionCase
    thread_id: UUID
    agent: AgentSpec

    @property
    def scope(self) -> Scope:
        return self.case.scope

    async def turn(self, message: str = "Go on.", **task_input: Any) -> RunContext:
        """Start a turn, claim it as a worker does, and return its context."""
        async with self.case.database.as_user(self.scope) as conn:
            run_id = await runs.add(
                conn,
                self.scope,
                id=uuid4(),
                agent=self.agent.name,
                task="chat" if self.agent is DOCUMENT else "ask",
                task_input={"message": message, **task_input},
                subject=Subject(_subject_document(self.case, self.agent), None, self.thread_id),
                options=RunOptions(approval="auto"),
            )
            claimed = await runs.claim(conn, run_id)
        assert claimed is not None
        return run_context(self.case.database, self.scope, claimed)

    async def call(self, context: RunContext, name: str, /, **arguments: Any) -> ToolOutcome:
        """Execute an approved tool call."""
        call_id = f"call-{uuid4()}"
        await self.case.record_call(context, name, arguments, call_id)
        return await execute(
            self.agent.create_tools(context), context, ToolCall(name, call_id, arguments), started_by=StartedBy.POLICY
        )

    async def preview(self, context: RunContext, name: str, /, **arguments: Any) -> Any:
        """Return the preview that the approver of a call sees."""
        action, args = self.agent.create_tools(context).actions[name], self.agent.toolset.check(name, arguments)
        if action.check is not None:
            await action.check(args)
        assert action.preview is not None
        async with self.case.database.as_user(self.scope) as conn:
            return await action.preview(conn, args)

    async def end(self, context: RunContext) -> None:
        """End a turn, so that the next can start."""
        self.case.sql("update public.runs set status = 'completed', finished_at = now() where id = %s", context.run_id)

    @property
    def state(self) -> dict[str, Any]:
        """The working state of the thread."""
        return sql(self.case.owner_url, "select working_state from public.threads where id = %s", self.thread_id)[0][
            "working_state"
        ]


async def start_chat(case: ExtractionCase, agent: AgentSpec = DOCUMENT) -> Chat:
    async with case.database.as_user(case.scope) as conn:
        document_id = _subject_document(case, agent)
        thread = await threads.add(conn, case.scope, agent=agent.name, document_id=document_id, title="Conversation")
    return Chat(case, thread.id, agent)


def _subject_document(case: ExtractionCase, agent: AgentSpec) -> UUID | None:
    return case.document_id if agent is DOCUMENT else None
