"""An extraction as the store returns it, with any fields."""

from __future__ import annotations

import datetime
from typing import Any
from uuid import UUID

MOMENT = datetime.datetime(2026, 11, 20, 13, 5, tzinfo=datetime.UTC)
DOCUMENT = {
    "id": UUID(int=2),
    "filename": "invoice.pdf",
    "media_type": "application/pdf",
    "page_count": 1,
    "storage_path": "x",
}


def extraction(fields: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {
        "id": UUID(int=1),
        "document_id": UUID(int=2),
        "document_type": "invoice",
        "status": "completed",
        "extracted_fields": fields,
        "confidence_scores": {},
        "evidence": {},
        "locks": {},
        "proposals": [],
        "version": 3,
        "created_at": MOMENT,
        "updated_at": MOMENT,
        **rest,
    }


def found_evidence(page: int, *boxes: list[float], quote: str | None = None) -> dict[str, Any]:
    return {"state": "found", "match": "exact", "page": page, "boxes": list(boxes), "quote": quote, "location_count": 1}
