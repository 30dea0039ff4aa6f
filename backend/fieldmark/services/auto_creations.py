"""What an agent proposes for a document when that is read: known again by its labels, accepted or rejected."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.errors import Fenced, NotFound
from fieldmark.grounding.labelled_fields import document_type, labels
from fieldmark.identity.scope import Scope
from fieldmark.services.turns import without_turn
from fieldmark.stores import auto_creations, documents
from fieldmark.stores.auto_creations import AutoCreationRow, Likeness
from fieldmark.stores.rows import DocumentRow, Fields

_PAGES: Final = 3
_CHARACTERS: Final = 20_000
_LABELS: Final = 200


async def recognise(conn: Connection, scope: Scope, run_id: UUID, document_id: UUID) -> AutoCreationRow:
    """What a run is to begin with, of an earlier document that is like its own if there is one. Looked for once: a run
    that is begun again goes on with that. Raises Fenced where the document is gone."""
    row = await _of_run(conn, run_id)
    if row.kind is not None:
        return row
    pages = await documents.pages(conn, document_id, 1, _PAGES)
    printed = "\n".join(page.text for page in pages if not page.is_xml)[:_CHARACTERS]
    kind, known_by = await without_turn(_known_by, printed)
    likeness = await auto_creations.likest(conn, scope.org_id, document_id, kind, known_by)
    await auto_creations.recognise(
        conn, run_id, kind, known_by, None if likeness is None else _matched(kind, likeness), likeness
    )
    return await _of_run(conn, run_id)


async def decide(conn: Connection, document_id: UUID, *, accepted: bool) -> DocumentRow:
    """Accept what is proposed for a document, or reject it: then what its run made is gone. The document comes back.
    Raises NotFound, Conflict."""
    await auto_creations.decide(conn, document_id, accepted=accepted)
    row = await documents.get(conn, document_id)
    if row is None:
        raise NotFound("There is no such document.")
    return row


def _known_by(printed: str) -> tuple[str, list[str]]:
    return document_type(printed)[0], sorted(labels(printed))[:_LABELS]


def _matched(kind: str, likeness: Likeness) -> Fields:
    """Which document it is like, what is taken from that, and why."""
    return {
        "document_id": str(likeness.document_id),
        "schema_id": str(likeness.schema_id),
        "schema_revid": str(likeness.schema_revid),
        "prompt_revid": None if likeness.prompt_revid is None else str(likeness.prompt_revid),
        "why": f"Both are of the kind {kind!r}, and have {likeness.common} of {likeness.together} labels in common.",
    }


async def _of_run(conn: Connection, run_id: UUID) -> AutoCreationRow:
    row = await auto_creations.of_run(conn, run_id)
    if row is None:
        raise Fenced("The document is gone.")
    return row
