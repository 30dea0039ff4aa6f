"""Combines the filters of a question with those of an agent's tool call."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from fieldmark.domain.document_filters import DocumentFilters, validate_model
from fieldmark.errors import Invalid


def restrict_to(filters: DocumentFilters, document_ids: Sequence[UUID]) -> DocumentFilters | None:
    """Return the filters restricted to some documents. None if they exclude all of these."""
    ids = [one for one in document_ids if not filters.document_ids or one in filters.document_ids]
    return filters.model_copy(update={"document_ids": tuple(ids)}) if ids else None


def intersect(filters: DocumentFilters, other: DocumentFilters | None) -> DocumentFilters | None:
    """Return filters for the documents that match both. None if no document can. Raise Invalid if the result exceeds
    the limits of filters, or if both have a different stack, type or file name."""
    if other is None or other == DocumentFilters():
        return filters
    if filters == DocumentFilters():
        return other
    combined = filters.model_dump()
    if other.document_ids:
        restricted = restrict_to(filters, other.document_ids)
        if restricted is None:
            return None
        combined["document_ids"] = restricted.document_ids
    for name in ("stack_id", "document_type", "filename"):
        first, second = getattr(filters, name), getattr(other, name)
        if first is not None and second is not None and str(first).casefold() != str(second).casefold():
            raise Invalid(f"The person's question is already filtered by {name} {first}. Omit {name}.")
        combined[name] = first if first is not None else second
    for name, tighter in (("uploaded_after", max), ("uploaded_before", min)):
        bounds = [value for value in (getattr(filters, name), getattr(other, name)) if value is not None]
        combined[name] = tighter(bounds) if bounds else None
    combined["tags"] = tuple(dict.fromkeys((*filters.tags, *other.tags)))
    combined["fields"] = (*filters.fields, *other.fields)
    return validate_model(DocumentFilters, combined)
