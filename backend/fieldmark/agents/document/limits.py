"""What a run may do that nobody talks with: a schema, a prompt and an extraction for its own document, and a few
refinements of what it has made itself. All that a person must be able to take back with one word."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from fieldmark.agents.document.conversation import Conversation
from fieldmark.db.pool import Connection
from fieldmark.errors import Fenced
from fieldmark.stores import auto_creations, tool_calls
from fieldmark.stores.auto_creations import AutoCreationRow
from fieldmark.stores.library import prompts, schemas
from fieldmark.tools.errors import ToolFailed
from fieldmark.tools.toolset import Action, ToolInput

REFINEMENTS: Final = 2

MOST: Final = {
    "create_schema": 1,
    "create_prompt": 1,
    "update_schema": REFINEMENTS,
    "update_prompt": REFINEMENTS,
    "run_extraction": 1 + REFINEMENTS,
    "update_document": 1,
}
"""How often such a run may do what. What does not stand here and is no reading it may not do at all."""


class _Both(NamedTuple):
    args: ToolInput
    prepared: Any


def limited(about: Conversation, tool: str, action: Action) -> Action:
    """A tool that writes, as a run may use it that nobody talks with."""

    async def prepare(args: ToolInput) -> _Both:
        return _Both(args, args if action.prepare is None else await action.prepare(args))

    async def run(conn: Connection, given: _Both) -> Any:
        await check(conn, about, tool, given.args)
        return await action.run(conn, given.prepared)

    return replace(action, prepare=prepare, run=run)


async def check(conn: Connection, about: Conversation, tool: str, args: ToolInput) -> None:
    """Raise ToolFailed for a call that is beyond what a run may do that nobody talks with."""
    if tool not in MOST:
        raise _not_here("It makes a schema, a prompt and an extraction, and nothing else.")
    row = await auto_creations.of_run(conn, about.context.run_id)
    if row is None:
        raise Fenced("The document is gone.")
    done = Counter(await tool_calls.carried_out(conn, about.context.run_id))
    if done[tool] >= MOST[tool]:
        raise ToolFailed(
            f"This run may call {tool} {MOST[tool]} times and has done so. End with what there is.",
            "too_many_refinements",
        )
    match tool:
        case "create_schema" if row.matched is not None:
            raise ToolFailed(
                "There is a schema for documents like this one: use that with run_extraction.",
                "schema_exists",
                {name: row.matched[name] for name in ("schema_id", "schema_revid", "prompt_revid")},
            )
        case "update_schema":
            await _check_schema(conn, about, _named(args, "schema_revid") or row.schema_revid)
        case "create_prompt":
            await _check_asked(conn, about, row, args)
        case "update_prompt":
            await _check_prompt(conn, about, row, _named(args, "prompt_revid") or row.prompt_revid)
            await _check_asked(conn, about, row, args)
        case "run_extraction":
            await _check_prompt(conn, about, row, _named(args, "prompt_revid"), taken=True)
        case "update_document":
            asked = args.model_fields_set - {"document_id", "add_tags"}
            if _named(args, "document_id") not in (None, about.document_id) or asked:
                raise _not_here("It may put tags on its own document, and change no other thing of it.")
        case _:
            pass


async def _check_schema(conn: Connection, about: Conversation, revid: UUID | None) -> None:
    if revid is not None and await schemas.made_by(conn, revid) != about.context.run_id:
        raise _not_here("It changes only the schema that it has made.")


async def _check_asked(conn: Connection, about: Conversation, row: AutoCreationRow, args: ToolInput) -> None:
    """What a prompt says beside its words: by which schema, and by which model. Each model has a price, and nobody is
    asked about that here."""
    if getattr(args, "model", None) is not None:
        raise _not_here("Its prompt names no model: the service's reads the document.")
    revid = _named(args, "schema_revid")
    if revid is None or await schemas.made_by(conn, revid) == about.context.run_id:
        return
    schema = await schemas.find_version(conn, revid)
    if row.matched is None or schema is None or str(schema.id) != row.matched["schema_id"]:
        raise _not_here("Its prompt follows the schema that it has made, or was lent, or none.")


async def _check_prompt(
    conn: Connection,
    about: Conversation,
    row: AutoCreationRow,
    revid: UUID | None,
    *,
    taken: bool = False,
) -> None:
    """`taken`: the prompt of the document that this one is like will do as well."""
    if revid is None or (taken and row.matched is not None and str(revid) == row.matched["prompt_revid"]):
        return
    if await prompts.made_by(conn, revid) != about.context.run_id:
        raise _not_here("It uses and changes only the prompt that it has made.")


def _named(args: ToolInput, name: str) -> UUID | None:
    value = getattr(args, name, None)
    return value if isinstance(value, UUID) else None


def _not_here(why: str) -> ToolFailed:
    return ToolFailed(f"Nobody talks with this run, so it may not do this. {why}", "not_in_this_run")
