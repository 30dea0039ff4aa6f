"""Insert documents with extractions directly into the database, for tests of queries over many documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.types.json import Jsonb

from fieldmark.domain.fields import leaves
from fieldmark.identity.scope import Scope


@dataclass(frozen=True)
class LibraryDocument:
    """A document and its extraction; no extraction if `fields` is None.

    `unverified` and `locked` are field paths: values without evidence, and values locked by a user.
    """

    fields: dict[str, Any] | None = None
    unverified: frozenset[str] = frozenset()
    locked: frozenset[str] = frozenset()
    document_type: str | None = "invoice"
    filename: str = "a.pdf"
    tags: tuple[str, ...] = ()
    is_completed: bool = True
    status: str = "ready"
    sha256: str | None = None
    created_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    schema_revid: UUID | None = None
    id: UUID = field(default_factory=uuid4)
    extraction_id: UUID = field(default_factory=uuid4)

    def evidence(self) -> dict[str, Any]:
        """Return evidence for each field; the field at index n is on page n + 1, so tests can distinguish them."""
        return {
            name: {"state": "not_found", "page": None, "boxes": []}
            if name in self.unverified
            else {"state": "found", "page": 1 + number, "boxes": [[0.1, 0.1, 0.2, 0.2]]}
            for number, (name, _) in enumerate(leaves(self.fields or {}))
        }


def insert_documents(owner_url: str, scope: Scope, documents: Iterable[LibraryDocument]) -> None:
    """Insert documents as the database owner, bypassing row policies and all triggers except that of `fields`."""
    documents = list(documents)
    with psycopg.connect(owner_url) as conn, conn.cursor() as cursor:
        cursor.execute("set session_replication_role = replica")
        cursor.execute("alter table public.extractions enable always trigger store_fields")
        cursor.executemany(
            """insert into public.documents
                 (id, org_id, created_by, filename, storage_path, status, media_type, page_count, error, created_at,
                  content_sha256)
               values (%s, %s, %s, %s, %s, %s, 'text/plain', 1, %s, %s, %s)""",
            [
                (
                    *(one.id, scope.org_id, scope.user_id, one.filename, f"{scope.org_id}/{one.id}/a", one.status),
                    *("It is damaged." if one.status == "failed" else None, one.created_at, one.sha256),
                )
                for one in documents
            ],
        )
        cursor.executemany(
            """insert into public.extractions (id, org_id, document_id, created_by, created_at, document_type, status,
                 extracted_fields, evidence, locks, schema_revid, version, schema)
               values (%(id)s, %(org)s, %(document)s, %(user)s, %(created_at)s, %(type)s, %(status)s, %(fields)s,
                 %(evidence)s, %(locks)s, %(revid)s, 1,
                 coalesce((select schema from public.schema_versions where id = %(revid)s), '{}'))""",
            [
                {
                    "id": one.extraction_id,
                    "org": scope.org_id,
                    "document": one.id,
                    "user": scope.user_id,
                    "created_at": one.created_at,
                    "type": one.document_type,
                    "status": "completed" if one.is_completed else "in_progress",
                    "fields": Jsonb(one.fields),
                    "evidence": Jsonb(one.evidence()),
                    "locks": Jsonb({name: {"by": str(scope.user_id)} for name in one.locked}),
                    "revid": one.schema_revid,
                }
                for one in documents
                if one.fields is not None
            ],
        )
        cursor.execute("alter table public.extractions enable trigger store_fields")
        names = sorted({tag for one in documents for tag in one.tags})
        ids = {name: uuid4() for name in names}
        cursor.executemany(
            "insert into public.tags (id, org_id, name) values (%s, %s, %s)",
            [(ids[name], scope.org_id, name) for name in names],
        )
        cursor.executemany(
            """insert into public.document_tags (org_id, document_id, tag_id, document_created_at)
               values (%s, %s, %s, %s)""",
            [(scope.org_id, one.id, ids[tag], one.created_at) for one in documents for tag in one.tags],
        )
