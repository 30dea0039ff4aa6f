"""Suggestions of agents for new documents: matches similar earlier documents, accepts and rejects suggestions."""

from __future__ import annotations

from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.errors import Fenced, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.services.fair_share import run_unqueued
from fieldmark.services.labelled_fields import likeness
from fieldmark.stores import auto_creations, documents
from fieldmark.stores.auto_creations import AutoCreationRow, SimilarDocument
from fieldmark.stores.rows import DocumentRow, Fields


async def match_earlier_document(conn: Connection, scope: Scope, run_id: UUID, document_id: UUID) -> AutoCreationRow:
    """Look for an earlier document similar to the run's, by their labels, and store the match. Return the stored row. A
    restarted run keeps its first match. Raise Fenced if the document is gone."""
    row = await _find_row(conn, run_id)
    if row.kind is not None:
        return row
    printed = (await documents.first_texts(conn, [document_id])).get(document_id, "")
    kind, found = await run_unqueued(likeness, printed)
    printed_labels = sorted(found)
    similar = await auto_creations.most_similar(conn, scope.org_id, document_id, kind, printed_labels)
    match = None if similar is None else _match_as_json(kind, similar)
    await auto_creations.save_match(conn, run_id, kind, printed_labels, match, similar)
    return await _find_row(conn, run_id)


async def decide(conn: Connection, document_id: UUID, *, accepted: bool) -> DocumentRow:
    """Accept or reject the suggestion for a document. Return the document. Raise NotFound, or Conflict if there is no
    pending suggestion."""
    await auto_creations.decide(conn, document_id, accepted=accepted)
    row = await documents.find(conn, document_id)
    if row is None:
        raise NotFound("There is no such document.")
    return row


def _match_as_json(kind: str, similar: SimilarDocument) -> Fields:
    return {
        "document_id": str(similar.document_id),
        "schema_id": str(similar.schema_id),
        "schema_revid": str(similar.schema_revid),
        "prompt_revid": None if similar.prompt_revid is None else str(similar.prompt_revid),
        "why": f"Both documents are of kind {kind!r} and share {similar.shared_labels} of {similar.all_labels} labels.",
    }


async def _find_row(conn: Connection, run_id: UUID) -> AutoCreationRow:
    row = await auto_creations.find_by_run(conn, run_id)
    if row is None:
        raise Fenced("The document is gone.")
    return row
