"""Starting a run: the row is inserted, and that is all; triggers put it into the queue."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

from fieldmark.agents.registry import AGENTS
from fieldmark.db.pool import Connection, Database
from fieldmark.domain.schema import check_schema
from fieldmark.domain.values import problem_with
from fieldmark.errors import DocumentFailed, Invalid, NotFound
from fieldmark.scope import Scope
from fieldmark.stores import documents, extractions, runs


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person may ask of a run besides its task."""

    approval: str | None = None
    model: str | None = None
    max_cost_usd: Decimal | None = None
    auto_approved_tools: tuple[str, ...] = ()
    background: bool = False
    idempotency_key: str | None = None


async def extract(
    database: Database,
    scope: Scope,
    document_id: UUID,
    *,
    schema: dict[str, Any] | None = None,
    instructions: str | None = None,
    wish: Wish | None = None,
) -> UUID:
    """Start the extraction of a document; answers the run's id. The run waits if the document is still being read.

    Raises NotFound, DocumentFailed with the reason, or Invalid.
    """
    wish = wish or Wish()
    _check(wish)
    if schema is not None:
        if problem := problem_with(schema):
            raise Invalid(f"The schema cannot be used. {problem}")
        check_schema(schema)
    _check_text("instructions", instructions)
    try:
        async with database.as_user(scope) as conn:
            document = await documents.get(conn, document_id)
            if document is None:
                raise NotFound("There is no such document.")
            if document["status"] == "failed":
                raise DocumentFailed(document["error"])
            extraction_id = await extractions.add(conn, org_id=scope.org_id, document_id=document_id, schema=schema)
            return await _add(conn, scope, "extract", document_id, extraction_id, instructions, wish)
    except _StartedBefore as earlier:
        return earlier.run_id


async def correct(
    database: Database, scope: Scope, extraction_id: UUID, message: str, *, wish: Wish | None = None
) -> UUID:
    """Start a correction in words; answers the run's id. It waits for a run that is at work on the same extraction."""
    wish = wish or Wish()
    _check(wish)
    _check_text("message", message)
    try:
        async with database.as_user(scope) as conn:
            extraction = await extractions.get(conn, extraction_id)
            if extraction is None:
                raise NotFound("There is no such extraction.")
            await runs.supersede(conn, extraction_id, "A newer message took its place.")
            return await _add(conn, scope, "correct", extraction["document_id"], extraction_id, message, wish)
    except _StartedBefore as earlier:
        return earlier.run_id


class _StartedBefore(Exception):
    """The idempotency key was used before: what this transaction has inserted goes, the earlier run is the answer."""

    def __init__(self, run_id: UUID) -> None:
        self.run_id = run_id


async def _add(
    conn: Connection,
    scope: Scope,
    task: str,
    document_id: UUID,
    extraction_id: UUID,
    instructions: str | None,
    wish: Wish,
) -> UUID:
    wished_id = uuid4()
    run_id = await runs.add(
        conn,
        scope,
        id=wished_id,
        agent="extraction",
        task=task,
        document_id=document_id,
        extraction_id=extraction_id,
        instructions=instructions,
        approval=wish.approval or AGENTS["extraction"].approval,
        model=wish.model,
        max_cost_usd=wish.max_cost_usd,
        auto_approved_tools=list(wish.auto_approved_tools),
        background=wish.background,
        idempotency_key=wish.idempotency_key,
    )
    if run_id != wished_id:
        raise _StartedBefore(run_id)
    return run_id


def _check(wish: Wish) -> None:
    unknown = set(wish.auto_approved_tools) - AGENTS["extraction"].toolkit.tools.keys()
    if unknown:
        raise Invalid(f"There is no tool {sorted(unknown)[0]!r} to approve in advance.")


def _check_text(what: str, text: str | None) -> None:
    if text is not None and (problem := problem_with(text)):
        raise Invalid(f"The {what} cannot be used. {problem}")
