"""What a list of documents says of each besides the file: its tables, and the values that identify it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from pydantic import ConfigDict, JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain.columns import Column
from fieldmark.domain.identifying_columns import IdentifyingRole, identifying_columns
from fieldmark.stores import documents
from fieldmark.stores.documents import DocumentTable
from fieldmark.stores.rows import ALL_REQUIRED, DocumentRow


@dataclass(frozen=True, slots=True)
class KeyValues:
    """The values that identify a document, as far as it has them."""

    __pydantic_config__: ClassVar[ConfigDict] = ALL_REQUIRED

    vendor: JsonValue = None
    number: JsonValue = None
    date: JsonValue = None
    total: JsonValue = None
    currency: JsonValue = None


@dataclass(frozen=True, slots=True)
class ListedDetails:
    """The tables of a document by name, and its identifying values."""

    tables: Sequence[DocumentTable]
    key_values: KeyValues


async def details(conn: Connection, rows: Sequence[DocumentRow]) -> Mapping[UUID, ListedDetails]:
    """Return the details of documents. The values are those of the shown extraction."""
    tables = await documents.tables_of(conn, [row.id for row in rows])
    shown = [row.shown_extraction_id for row in rows if row.shown_extraction_id is not None]
    values = await documents.values_outside_lists(conn, shown)
    return {
        row.id: ListedDetails(
            tables.get(row.id, ()),
            KeyValues() if row.shown_extraction_id is None else _key_values(values.get(row.shown_extraction_id, {})),
        )
        for row in rows
    }


def _key_values(values: Mapping[str, JsonValue]) -> KeyValues:
    paths = identifying_columns([Column(path, "text", None) for path in sorted(values)])
    found = {role: values[path] for role, path in paths.items()}
    total = paths.get(IdentifyingRole.TOTAL)
    beside = "" if total is None else total.removesuffix(total.rpartition(".")[2])
    currency = values.get(f"{total}_currency", values.get(f"{beside}currency", values.get("currency")))
    return KeyValues(**{str(role): value for role, value in found.items()}, currency=currency)
