"""What programs that draw requests or calls at random find in the database: a document, extractions, runs that wait."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.db.pool import Database
from fieldmark.domain.changes import Preview
from fieldmark.domain.statuses import CallStatus
from fieldmark.identity.scope import Scope
from fieldmark.runs.events.approvals import approval_event
from fieldmark.runs.lifecycle.context import run_context
from fieldmark.stores import documents, extractions, runs, tool_calls
from fieldmark.stores.rows import NewPage
from fieldmark.stores.runs import Subject
from fieldmark.tools.context import RunContext
from fieldmark.tools.ledger import By, ToolCall, ToolOutcome, execute
from fieldmark.tools.toolset import hash_of

TEXT = "Invoice number: 1\nVendor: Acme GmbH\nA 2 x 3.50 7.00\nB 1 x 3.00 3.00\nTotal: 10.00 EUR\n"


@dataclass(frozen=True)
class Desk:
    """One user's document, and what happens to its extractions."""

    database: Database
    scope: Scope
    document_id: UUID

    async def extraction(self, schema: dict[str, Any] | None = None) -> UUID:
        async with self.database.as_user(self.scope) as conn:
            return await extractions.add(conn, org_id=self.scope.org_id, document_id=self.document_id, schema=schema)

    async def run(self, extraction_id: UUID, task: str = "extract", **columns: Any) -> UUID:
        """A run that waits for a worker."""
        given = {"message": "The vendor is Acme."} if task == "correct" else {}
        async with self.database.as_user(self.scope) as conn:
            return await runs.add(
                conn,
                self.scope,
                id=uuid4(),
                agent=EXTRACTION.name,
                task=task,
                task_input=given,
                subject=Subject(self.document_id, extraction_id),
                **columns,
            )

    async def claimed(self, run_id: UUID) -> RunContext:
        """The context of a run that a worker has just taken up."""
        async with self.database.as_user(self.scope) as conn:
            run = await runs.claim(conn, run_id)
        assert run is not None
        return run_context(self.database, self.scope, run)

    async def enter(
        self, context: RunContext, name: str, call_id: str, arguments: dict[str, Any], *, ask: bool = False
    ) -> None:
        """Enter a call in the ledger as the permission hook does: admitted, or waiting for a person."""
        show = EXTRACTION.create_tools(context).actions[name].preview
        async with self.database.as_user(self.scope) as conn:
            preview = Preview()
            if ask and show is not None:
                preview = await show(conn, EXTRACTION.toolset.check(name, arguments))
            await tool_calls.enter(
                conn,
                run_id=context.run_id,
                fencing_token=context.fencing_token,
                org_id=self.scope.org_id,
                call_id=call_id,
                tool=name,
                arguments=arguments,
                arguments_hash=hash_of(arguments),
                status=CallStatus.PENDING if ask else CallStatus.ADMITTED,
                preview=preview if ask else None,
            )
            if ask:
                shown = [one.as_json() for one in preview.changes]
                event = approval_event(context.run_id, call_id, name, arguments, "It asks.", shown)
                await runs.await_approval(
                    conn, context.run_id, context.fencing_token, call_id, attached=False, event=event
                )

    async def call(self, context: RunContext, name: str, call_id: str, arguments: dict[str, Any]) -> ToolOutcome:
        """A call that was admitted."""
        await self.enter(context, name, call_id, arguments)
        return await execute(
            EXTRACTION.create_tools(context), context, ToolCall(name, call_id, arguments), by=By.POLICY
        )


async def a_desk(database: Database, scope: Scope, document_id: UUID | None = None, text: str = TEXT) -> Desk:
    """A desk with a document that was read: a new one, or one that was uploaded."""
    async with database.as_user(scope) as conn:
        if document_id is None:
            document_id = uuid4()
            await documents.add(
                conn,
                document_id=document_id,
                org_id=scope.org_id,
                filename="invoice.txt",
                storage_path=f"{scope.org_id}/{document_id}/invoice.txt",
                byte_size=len(text),
            )
        page = NewPage(number=1, width=600, height=800, text=text, words=_words(text), engine="text")
        await documents.add_pages(conn, document_id, scope.org_id, [page])
        await documents.finish_reading(conn, document_id, media_type="text/plain", page_count=1)
    return Desk(database, scope, document_id)


def _words(text: str) -> list[list[Any]]:
    """In a fixed pitch."""
    return [
        [word[0], word.start() / 100, row / 30, word.end() / 100, (row + 0.6) / 30]
        for row, line in enumerate(text.split("\n"))
        for word in re.finditer(r"\S+", line)
    ]
