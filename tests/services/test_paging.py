"""Cursors of lists: they stay valid if their row is deleted, and other values are refused."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.errors import Invalid
from fieldmark.stores import documents
from fieldmark.stores.paging import Cursor, PageRequest
from fieldmark.stores.rows import Position

ROW_ID = str(UUID(int=7))
MOMENT = datetime(2026, 11, 20, 13, 5, 7, 123456, tzinfo=UTC)


@dataclass(frozen=True)
class Row:
    created_at: datetime
    id: UUID


@given(st.datetimes(timezones=st.just(UTC)), st.uuids())
def test_cursor_round_trips_and_is_url_safe(moment, row_id):
    text = str(Cursor("documents", Position(moment, row_id)))
    assert Cursor.parse(text, "documents").position == (moment, row_id)
    assert all(c.isalnum() or c in "-_" for c in text)


def encode_cursor(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "é",
        "a" * 5000,
        encode_cursor({"kind": "documents"}),
        encode_cursor(["documents", MOMENT.isoformat()]),
        encode_cursor(["documents", MOMENT.isoformat(), "none"]),
        encode_cursor(["documents", "2026-11-20T13:05:07", ROW_ID]),
        encode_cursor(["extractions", MOMENT.isoformat(), ROW_ID]),
        base64.urlsafe_b64encode(b"[" * 100).decode(),
    ],
)
def test_invalid_cursor_is_refused(text):
    with pytest.raises(Invalid):
        Cursor.parse(text, "documents")


def test_last_page_has_no_cursor():
    rows = [Row(MOMENT - timedelta(seconds=n), uuid4()) for n in range(3)]
    request = PageRequest("runs", 2)
    assert request.page([]).next is None
    assert request.page(rows[:2]).next is None
    page = request.page(rows)
    assert page.items == rows[:2] and page.next is not None
    assert Cursor.parse(page.next, "runs").position == (rows[1].created_at, rows[1].id)


@pytest.mark.anyio
async def test_paging_is_complete_while_rows_are_deleted(database, make_user, clone):
    scope = await make_user()
    async with database.as_user(scope) as conn:
        for n in range(7):
            document_id = uuid4()
            await documents.add(
                conn,
                document_id=document_id,
                org_id=scope.org_id,
                filename=f"{n}.txt",
                storage_path=f"{scope.org_id}/{document_id}/{n}.txt",
                byte_size=1,
            )
    # One transaction gives all rows the same time: only their ids differ.
    seen: list[UUID] = []
    before: str | None = None
    while before is not None or not seen:
        async with database.as_user(scope) as conn:
            page = await documents.list_documents(conn, scope.org_id, limit=2, before=before)
            seen += [row.id for row in page.items]
            before = page.next
            await documents.remove(conn, page.items[-1].id)
    assert len(seen) == len(set(seen)) == 7
