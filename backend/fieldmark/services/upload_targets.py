"""What an uploaded document becomes: an extraction under a schema, a row of a table, or both; and the rules that say so
for documents of which the uploader did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.ids import as_uuid
from fieldmark.errors import Conflict, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.services.extraction_sources import find_revid
from fieldmark.services.labelled_fields import document_type
from fieldmark.stores import documents, stacks
from fieldmark.stores.documents import RequestedExtraction
from fieldmark.stores.library import schemas
from fieldmark.stores.stacks import StackRow
from fieldmark.stores.upload_rules import UploadRule
from pagewords.sniff import EML, MSG, ZIP


@dataclass(frozen=True, slots=True)
class UploadTarget:
    """`schema`: what the schema is called in requests, the same for all its versions; None: none. `extraction`: None
    if nothing is extracted."""

    stack_id: UUID | None = None
    schema: str | None = None
    extraction: RequestedExtraction | None = None


async def find_target(conn: Connection, scope: Scope, *, schema: str | None, table: str | None) -> UploadTarget:
    """Return the target for a schema (empty: extract without one) and a table, each given by name or id. Raise
    NotFound, and Conflict for a table without columns."""
    stack = None
    if table is not None:
        stack = await (find_stack if schema is None else get_stack)(conn, scope, table)
        if stack is None:  # the table of a schema
            schema = table
        elif schema is None:
            if stack.schema is None:
                raise Conflict(
                    f"The table {stack.name!r} has no columns yet. Define them with PUT /api/stacks/{stack.id}/columns,"
                    " or have them proposed with POST /api/agent/stack."
                )
            schema = str(stack.schema.id)
    if schema is None:
        return UploadTarget()
    revid = await find_revid(conn, scope, schemas, name=schema or None, item_id=None, revid=None)
    return UploadTarget(None if stack is None else stack.id, schema or None, RequestedExtraction(revid))


async def find_stack(conn: Connection, scope: Scope, name: str) -> StackRow | None:
    """Return the stack with this name, or else with this id."""
    found = await stacks.list_page(conn, scope, limit=1, name=name)
    if found.items:
        return found.items[0]
    some_id = as_uuid(name)
    return None if some_id is None else await stacks.find(conn, some_id)


async def get_stack(conn: Connection, scope: Scope, name: str) -> StackRow:
    """Return the stack with this name, or else with this id. Raise NotFound."""
    if (stack := await find_stack(conn, scope, name)) is None:
        raise NotFound(f"There is no stack with the name {name!r}.")
    return stack


async def find_table_id(conn: Connection, scope: Scope, name: str) -> UUID:
    """Return the id of the stack or schema with this name or id, or with a version of this id. An unknown id is
    returned as it is. Raise NotFound for an unknown name."""
    found = await stacks.list_page(conn, scope, limit=1, name=name)
    if found.items:
        return found.items[0].id
    try:
        return await schemas.id_of(conn, scope.org_id, name)
    except NotFound:
        raise NotFound(f"There is no stack and no schema with the name {name!r}.") from None


def find_rule(
    rules: Sequence[UploadRule], *, filename: str, media_type: str | None, text: str, outer_text: str
) -> UploadRule | None:
    """Return the first rule that a document matches. `text`: its first page; `outer_text`: that of the document around
    it, or empty. A mail names the sender there."""
    if not rules or media_type == ZIP:  # its files have rules of their own
        return None
    mail = text if media_type in (EML, MSG) else outer_text
    sender = next((line[5:] for line in mail.splitlines() if line.startswith("From:")), "")
    kind, _ = document_type(text)
    return next((rule for rule in rules if rule.matches(kind, filename, sender)), None)


async def apply_rule(conn: Connection, scope: Scope, document_id: UUID, rule: UploadRule) -> None:
    """Have a document that is being read extracted as the rule says. Nothing happens if the schema or stack is gone."""
    revid = None
    if rule.stack_id is not None:
        if (stack := await stacks.find(conn, rule.stack_id)) is None:
            return
        await stacks.add_documents(conn, scope, stack.id, [document_id])
        if stack.schema is None:  # its row is read when its table is filled
            return
        revid = stack.schema.revid
    elif rule.schema_id is not None:
        if (schema := await schemas.find(conn, rule.schema_id)) is None or schema.is_deleted:
            return
        revid = schema.revid
    await documents.request_extraction(conn, document_id, RequestedExtraction(revid))
