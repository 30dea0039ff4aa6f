"""Rules of an organisation for uploaded documents, in Postgres."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Final, LiteralString
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.stores.rows import fetch_all

_COLUMNS: Final[LiteralString] = "document_type, filename, sender, schema_id, stack_id"


@dataclass(frozen=True, slots=True)
class UploadRule:
    """What a document with a type, a file name and a sender becomes: an extraction under a schema, or a row of a
    stack's table. None: any."""

    document_type: str | None
    filename: str | None
    sender: str | None
    schema_id: UUID | None
    stack_id: UUID | None

    def matches(self, document_type: str, filename: str, sender: str) -> bool:
        return (
            (self.document_type is None or self.document_type.lower() == document_type.lower())
            and (self.filename is None or fnmatchcase(filename.lower(), _literal_brackets(self.filename.lower())))
            and (self.sender is None or self.sender.lower() in sender.lower())
        )


def _literal_brackets(pattern: str) -> str:
    return pattern.replace("[", "[[]")


async def of_organisation(conn: Connection, org_id: UUID) -> list[UploadRule]:
    """Return the rules in their order, without those whose schema is deleted."""
    query: LiteralString = f"""select {_COLUMNS} from public.upload_rules as r where org_id = %s
        and not exists (select from public.schemas where id = r.schema_id and deleted_at is not null)
        order by number"""
    return await fetch_all(conn, UploadRule, query, (org_id,))


async def replace(conn: Connection, org_id: UUID, rules: Sequence[UploadRule]) -> None:
    """Replace all rules. Raise OwnerNeeded, and NotFound for an organisation of others."""
    await conn.execute(
        "select public.set_upload_rules(%s, %s)", (org_id, json.dumps([asdict(rule) for rule in rules], default=str))
    )
