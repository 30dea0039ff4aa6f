"""The rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table. Each is a dictionary of the API with its cells by column; iterating yields plain values."""

    columns: Sequence[str]
    items: Sequence[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in self.items:
            cells = row["cells"]
            values = {column: cells[column]["value"] if column in cells else None for column in self.columns}
            yield {"document_id": row["document_id"], "filename": row["filename"], **values}

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame with a column for each field. Needs the package pandas."""
        return import_module("pandas").DataFrame(list(self), columns=["document_id", "filename", *self.columns])
