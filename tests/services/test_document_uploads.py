"""Uploads: the file, the row and the job are stored together or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from fieldmark.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable
from fieldmark.files import LocalFiles
from fieldmark.identity.scope import Scope
from fieldmark.services.documents import DocumentService
from fieldmark.stores import documents
from fieldmark.stores.rows import DocumentRow, PageText
from pagewords.pages import Limits
from running_server import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def service(database, files) -> DocumentService:
    return DocumentService(database, LocalFiles(files), Limits(max_bytes=1000))


@pytest.fixture
def make_source(tmp_path):
    def write(content: bytes = b"Total: 10.00 EUR\n") -> Path:
        path = tmp_path / "source"
        path.write_bytes(content)
        return path

    return write


def stored_files(files: Path) -> list[Path]:
    return [path for path in files.rglob("*") if path.is_file()] if files.exists() else []


def queued_document_ids(clone) -> list[str]:
    with psycopg.connect(clone.owner_url) as conn:
        rows = conn.execute("select args->>'document_id' from queue.procrastinate_jobs order by id").fetchall()
    return [row[0] for row in rows]


async def get_document(database, scope: Scope, document_id: UUID) -> tuple[DocumentRow, list[PageText]]:
    async with database.as_user(scope) as conn:
        row = await documents.find(conn, document_id)
        pages = await documents.pages(conn, document_id)
    assert row is not None
    return row, pages


async def test_upload_is_stored_and_queued_once(service, database, files, clone, make_user, make_source):
    scope = await make_user()
    document = await service.upload(scope, make_source(), "C:\\mail\\März.txt")
    assert (document.filename, document.status, document.byte_size) == ("März.txt", "reading", 17)
    assert [path.read_bytes() for path in stored_files(files)] == [b"Total: 10.00 EUR\n"]
    assert queued_document_ids(clone) == [str(document.id)]
    # A job may be repeated, or run by two workers at once.
    for _ in range(2):
        await asyncio.gather(service.read(document.id), service.read(document.id))
        row, pages = await get_document(database, scope, document.id)
        assert (row.status, row.media_type, row.page_count, row.error) == ("ready", "text/plain", 1, None)
        assert [page.text.strip() for page in pages] == ["Total: 10.00 EUR"]


async def test_refused_upload_stores_no_file(service, files, clone, make_user, make_source):
    scope = await make_user()
    other = await make_user()
    intruder = Scope(scope.user_id, other.org_id)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await service.upload(intruder, make_source(), "a.txt")
    with pytest.raises(TooLarge):
        await service.upload(scope, make_source(b"x" * 1001), "a.txt")
    assert stored_files(files) == [] and queued_document_ids(clone) == []
    assert (await service.upload(scope, make_source(b"x" * 1000), "a.txt")).byte_size == 1000


class HangingFiles(LocalFiles):
    opened: asyncio.Event

    @asynccontextmanager
    async def local(self, path: str) -> AsyncIterator[Path]:
        self.opened.set()
        await asyncio.Event().wait()
        yield Path(path)


async def test_interrupted_reading_restarts(service, database, files, clone, make_user, make_source):
    scope = await make_user()
    document = await service.upload(scope, make_source(), "a.txt")
    hanging = HangingFiles(files)
    hanging.opened = asyncio.Event()
    reading = asyncio.create_task(DocumentService(database, hanging, Limits()).read(document.id))
    await asyncio.wait_for(hanging.opened.wait(), PATIENCE)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert (await get_document(database, scope, document.id))[0].status == "reading"
    # Pages of an earlier attempt.
    with psycopg.connect(clone.owner_url) as conn:
        for number in (1, 7):
            conn.execute(
                "insert into public.document_pages (document_id, org_id, number, width, height, text, words, engine) "
                "values (%s, %s, %s, 1, 1, 'old', '[]', 'text')",
                (document.id, scope.org_id, number),
            )
    await service.read(document.id)
    row, pages = await get_document(database, scope, document.id)
    assert row.status == "ready" and [page.number for page in pages] == [1]
    assert "old" not in pages[0].text


async def test_original_is_deleted_after_its_row(service, files, clone, make_user, make_source):
    scope = await make_user()
    kept, deleted = (
        await service.upload(scope, make_source(), "a.txt"),
        await service.upload(scope, make_source(), "b.txt"),
    )
    with psycopg.connect(clone.owner_url, autocommit=True) as conn:
        conn.execute("delete from public.documents where id = %s", [deleted.id])
        # An impossible path does not block the others.
        conn.execute(
            "insert into private.files_to_delete (storage_path, org_id, due_at) values (%s, %s, '-infinity')",
            [f"{scope.org_id}/{uuid4()}/a%2Fb", scope.org_id],
        )
    await service.delete_originals()
    assert [str(path.relative_to(files)) for path in stored_files(files)] == [kept.storage_path]
    with psycopg.connect(clone.owner_url, autocommit=True) as conn:
        conn.execute("delete from public.organisations where id = %s", [scope.org_id])
        assert stored_files(files) != []
        await service.delete_originals()
        await service.delete_originals()
        assert stored_files(files) == []
        assert conn.execute("select count(*) from private.files_to_delete").fetchone() == (0,)


async def test_original_survives_a_store_failure_and_is_kept_if_adopted_again(
    service, database, files, clone, make_user, make_source
):
    class FailingFiles(LocalFiles):
        async def remove(self, path: str) -> None:
            raise Unavailable("The store is unreachable.")

    scope = await make_user()
    first, second = (
        await service.upload(scope, make_source(), "a.txt"),
        await service.upload(scope, make_source(), "b.txt"),
    )
    failing = DocumentService(database, FailingFiles(files), Limits(max_bytes=1000))
    await failing.remove(scope, first.id)  # deletes the row now and the file later
    with psycopg.connect(clone.owner_url, autocommit=True) as conn:
        conn.execute("delete from public.documents where id = %s", [second.id])
    with pytest.raises(Unavailable):
        await failing.delete_originals()
    assert len(stored_files(files)) == 2
    await service.adopt(scope, second.storage_path)
    await service.delete_originals()
    assert [str(path.relative_to(files)) for path in stored_files(files)] == [second.storage_path]


async def test_missing_original_fails_its_document(service, database, files, make_user, make_source):
    scope = await make_user()
    document = await service.upload(scope, make_source(), "a.txt")
    stored_files(files)[0].unlink()
    await service.read(document.id)
    row, _ = await get_document(database, scope, document.id)
    assert row.status == "failed"


async def test_documents_are_adopted_and_removed_within_their_organisation_only(
    service, files, clone, make_user, make_source
):
    scope, other = await make_user(), await make_user()
    document = await service.upload(other, make_source(), "a.txt")
    with pytest.raises(NotFound):
        await service.remove(scope, document.id)
    with pytest.raises(NotFound):
        await service.adopt(scope, document.storage_path)
    with pytest.raises(Conflict):
        await service.adopt(other, document.storage_path)
    with pytest.raises(Invalid):
        await service.adopt(scope, f"{scope.org_id}/{uuid4()}/../../{document.storage_path}")
    assert len(stored_files(files)) == 1 and queued_document_ids(clone) == [str(document.id)]

    path = files / str(scope.org_id) / str(uuid4()) / "b.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 1001)
    with pytest.raises(TooLarge):
        await service.adopt(scope, str(path.relative_to(files)))
    path.write_bytes(b"x")
    assert (await service.adopt(scope, str(path.relative_to(files)))).filename == "b.txt"
    await service.remove(other, document.id)
    assert stored_files(files) == [path]
