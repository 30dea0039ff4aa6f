"""Queries over the rows of a table: which rows, in which order. (Figures over the same documents: `field_query`.)"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.statuses import FieldStatus, RowStatus

_STRICT: Final = ConfigDict(frozen=True, extra="forbid")


class TableQuery(BaseModel):
    """A query over a table: which rows, in which order.

    `rows`: the list of the schema whose items are the rows; None: a row for each document. A stack has its own rows.
    `where` filters the documents, and the rows by their fields. `row_statuses`: only rows of these statuses.
    `cell_statuses`: only rows with a cell of one of these statuses, in the column `cell_column` if given. `sort`: the
    column to sort by; None: newest document first. `by_status`: sort by the status of the cells in `sort`, or by the
    most urgent status of each row. `reading_first`: without another order, rows of a stack that are being read come
    first, then those that wait. `group_by`: rows with the same value in this column follow each other, in the order of
    the column; within a group they have the order above.
    """

    model_config = _STRICT

    rows: str | None = None
    where: DocumentFilters = DocumentFilters()
    row_statuses: tuple[RowStatus, ...] = ()
    cell_statuses: tuple[FieldStatus, ...] = ()
    cell_column: str | None = None
    sort: str | None = None
    descending: bool = False
    by_status: bool = False
    reading_first: bool = False
    group_by: str | None = None
