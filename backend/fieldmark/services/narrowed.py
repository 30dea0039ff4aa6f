"""Filters within filters: what a person has narrowed, narrowed further."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from fieldmark.domain.document_filters import DocumentFilters, validate_model
from fieldmark.errors import Invalid


def narrowed(filters: DocumentFilters, document_ids: Sequence[UUID]) -> DocumentFilters | None:
    """The filters for some documents alone; None where they leave none of these."""
    among = [one for one in document_ids if not filters.document_ids or one in filters.document_ids]
    return filters.model_copy(update={"document_ids": tuple(among)}) if among else None


def both(one: DocumentFilters, other: DocumentFilters | None) -> DocumentFilters | None:
    """What meets both; None where nothing can. Raises Invalid for more than filters hold, or for two that cannot be
    said as one."""
    if other is None or other == DocumentFilters():
        return one
    if one == DocumentFilters():
        return other
    told = one.model_dump()
    if other.document_ids:
        among = narrowed(one, other.document_ids)
        if among is None:
            return None
        told["document_ids"] = among.document_ids
    for name in ("document_type", "filename"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine is not None and theirs is not None and mine.casefold() != theirs.casefold():
            raise Invalid(f"The person asks about one {name} already: {mine}.")
        told[name] = mine if mine is not None else theirs
    for name, tighter in (("uploaded_after", max), ("uploaded_before", min)):
        given = [value for value in (getattr(one, name), getattr(other, name)) if value is not None]
        told[name] = tighter(given) if given else None
    told["tags"] = tuple(dict.fromkeys((*one.tags, *other.tags)))
    told["fields"] = (*one.fields, *other.fields)
    return validate_model(DocumentFilters, told)
