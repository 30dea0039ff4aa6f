"""Limits of automatic runs, which have no conversation with a person. They may create a schema, a prompt and an
extraction for their own document, and refine what they created. A person can reject all of it at once."""

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

MAX_CALLS: Final = {
    "create_schema": 1,
    "create_prompt": 1,
    "update_schema": REFINEMENTS,
    "update_prompt": REFINEMENTS,
    "run_extraction": 1 + REFINEMENTS,
    "update_document": 1,
}
"""The most calls of each writing tool in an automatic run. Writing tools not listed are refused."""


class _CheckedCall(NamedTuple):
    args: ToolInput
    prepared: Any


def limit_action(about: Conversation, tool: str, action: Action) -> Action:
    """Return the action of a writing tool, limited to what an automatic run may do."""

    async def prepare(args: ToolInput) -> _CheckedCall:
        return _CheckedCall(args, args if action.prepare is None else await action.prepare(args))

    async def run(conn: Connection, given: _CheckedCall) -> Any:
        await check(conn, about, tool, given.args)
        return await action.run(conn, given.prepared)

    return replace(action, prepare=prepare, run=run)


async def check(conn: Connection, about: Conversation, tool: str, args: ToolInput) -> None:
    """Raise ToolFailed for a call that an automatic run may not make."""
    if tool not in MAX_CALLS:
        raise _not_allowed_error("It may only create a schema, a prompt and an extraction.")
    row = await auto_creations.find_by_run(conn, about.context.run_id)
    if row is None:
        raise Fenced("The document is gone.")
    done = Counter(await tool_calls.carried_out_tools(conn, about.context.run_id))
    if done[tool] >= MAX_CALLS[tool]:
        raise ToolFailed(
            f"This run may call {tool} {MAX_CALLS[tool]} times and has done so. Finish with what you have.",
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
            await _check_schema(conn, about, _id_argument(args, "schema_revid") or row.schema_revid)
        case "create_prompt":
            await _check_prompt_arguments(conn, about, row, args)
        case "update_prompt":
            await _check_prompt(conn, about, row, _id_argument(args, "prompt_revid") or row.prompt_revid)
            await _check_prompt_arguments(conn, about, row, args)
        case "run_extraction":
            await _check_prompt(conn, about, row, _id_argument(args, "prompt_revid"), taken=True)
        case "update_document":
            asked = args.model_fields_set - {"document_id", "add_tags"}
            if _id_argument(args, "document_id") not in (None, about.document_id) or asked:
                raise _not_allowed_error("It may only add tags, and only to its own document.")
        case _:
            pass


async def _check_schema(conn: Connection, about: Conversation, revid: UUID | None) -> None:
    if revid is not None and await schemas.creating_run(conn, revid) != about.context.run_id:
        raise _not_allowed_error("It may only change the schema that it created.")


async def _check_prompt_arguments(conn: Connection, about: Conversation, row: AutoCreationRow, args: ToolInput) -> None:
    """Raise ToolFailed if a prompt names a model or a schema it may not use. Models differ in price, and no
    one approves the calls of an automatic run."""
    if getattr(args, "model", None) is not None:
        raise _not_allowed_error("Its prompt must use the service's default model: leave out `model`.")
    revid = _id_argument(args, "schema_revid")
    if revid is None or await schemas.creating_run(conn, revid) == about.context.run_id:
        return
    schema = await schemas.find_version(conn, revid)
    if row.matched is None or schema is None or str(schema.id) != row.matched["schema_id"]:
        raise _not_allowed_error(
            "Its prompt may only use the schema that it created, that of the matching document, or no schema."
        )


async def _check_prompt(
    conn: Connection,
    about: Conversation,
    row: AutoCreationRow,
    revid: UUID | None,
    *,
    taken: bool = False,
) -> None:
    """Raise ToolFailed for a prompt that this run did not create. `taken` also allows the prompt of the matching
    document."""
    if revid is None or (taken and row.matched is not None and str(revid) == row.matched["prompt_revid"]):
        return
    if await prompts.creating_run(conn, revid) != about.context.run_id:
        raise _not_allowed_error("It may only use and change the prompt that it created.")


def _id_argument(args: ToolInput, name: str) -> UUID | None:
    value = getattr(args, name, None)
    return value if isinstance(value, UUID) else None


def _not_allowed_error(why: str) -> ToolFailed:
    return ToolFailed(f"This run is automatic, so it may not do this. {why}", "not_in_this_run")
