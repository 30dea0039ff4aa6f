"""Columns for documents that look alike, from their labelled values by fixed rules: a preview without a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from fieldmark.domain import paths
from fieldmark.domain.column_definitions import ColumnDefinition, DefinedType
from fieldmark.domain.likeness import KINDS_OF_ONE_TABLE
from fieldmark.services.labelled_fields import Field
from valuegrounding.folding import fold_alphanumeric

SAMPLES: Final = 5
"""Documents from which columns are suggested."""
_FIRST: Final = ("vendor", "invoice_number", "invoice_date", "due_date", "order_number", "customer_number", "buyer")
_LAST: Final = ("subtotal", "tax", "total", "amount_due", "currency")
_OF_ALL: Final[dict[str, DefinedType]] = {"vendor": "text", "invoice_date": "date", "total": "number"}
"""Columns of each kind that has one table. Their values often have no label."""
_RENAMED: Final = {
    "invoice": {},
    "document": {},  # of no known kind: as its labels say
    "receipt": {"invoice_date": "date", "invoice_number": "receipt_number"},
    "credit_note": {"invoice_date": "date", "invoice_number": "number"},
}
_RENAMED_ELSE: Final = {"invoice_date": "date", "invoice_number": "number"}
_IDENTIFIER: Final = re.compile(r"(?:^|_)(?:no|nr|number|num|id|code|tel|fax|phone|iban|vat|zip|plz)(?:_|$)")


def suggest_columns(readings: Sequence[Sequence[Field]], kind: str, limit: int) -> list[ColumnDefinition]:
    """Return columns for the labelled values of documents of a kind: those that at least two documents have, if any."""
    found: Counter[tuple[str, DefinedType]] = Counter()
    counts = _counts(readings)
    for fields in readings:
        keys: dict[tuple[str, DefinedType], None] = {}
        for field in fields:
            name = _name(field.keys)
            keys[name, "number" if name in counts else _type(field)] = None
        found.update(keys.keys())
    types: dict[str, DefinedType] = dict(_OF_ALL) if kind in KINDS_OF_ONE_TABLE else {}
    shared = [key for key, number in found.most_common() if number > 1] or [key for key, _ in found.most_common()]
    for name, kind_of_value in shared:
        if fold_alphanumeric(name) and len(types) < limit:
            types.setdefault(name, kind_of_value)
    first, last = ([name for name in names if name in types] for names in (_FIRST, _LAST))
    middle = [name for name in types if name not in (*first, *last)]
    renamed = _RENAMED.get(kind, _RENAMED_ELSE)
    return [
        ColumnDefinition.model_validate({"name": new, "type": types[name]})
        for name in (*first, *middle, *last)
        if (new := renamed.get(name, name)) == name or new not in types
    ]


def _counts(readings: Sequence[Sequence[Field]]) -> set[str]:
    """Return the names whose values are whole numbers in all documents, and no identifiers."""
    values: dict[str, list[object]] = {}
    for field in (one for fields in readings for one in fields):
        values.setdefault(_name(field.keys), []).append(field.value)
    return {
        name
        for name, each in values.items()
        if not _IDENTIFIER.search(name) and all(isinstance(v, str) and re.fullmatch(r"[1-9]\d{0,8}|0", v) for v in each)
    }


def _name(keys: Sequence[str]) -> str:
    """Return the name of a column: `vendor` for vendor.name."""
    parts = paths.name(tuple(keys)).split(".")
    return parts[-2] if parts[-1] == "name" and len(parts) > 1 else parts[-1]


def _type(field: Field) -> DefinedType:
    if isinstance(field.value, bool):
        return "boolean"
    if isinstance(field.value, int | float):
        return "number"
    if isinstance(field.value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", field.value):
        return "date"
    return "currency" if field.keys[-1] == "currency" else "text"
