"""Taking documents in: what is kept and what is queued belong together, whenever it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from fieldmark.documents.reading.pages import Limits
from fieldmark.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable
from fieldmark.files import LocalFiles
from fieldmark.identity.scope import Scope
from fieldmark.services.documents import DocumentService
from fieldmark.stores import documents
from fieldmark.stores.rows import DocumentRow, PageText
from running_server import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def files(memory_path) -> Path:
    return memory_path / "files"


@pytest.fixture
def service(database, files) -> DocumentService:
    return DocumentService(database, LocalFiles(files), Limits(max_bytes=1000))


@pytest.fixture
def source(tmp_path):
    def make(content: bytes = b"Total: 10.00 EUR\n") -> Path:
        path = tmp_path / "source"
        path.write_bytes(content)
        return path

    return make


def kept(files: Path) -> list[Path]:
    return [path for path in files.rglob("*") if path.is_file()] if files.exists() else []


def jobs(clone) -> list[str]:
    with psycopg.connect(clone.owner_url) as conn:
        rows = conn.execute("select args->>'document_id' from queue.procrastinate_jobs order by id").fetchall()
    return [row[0] for row in rows]


async def state(database, scope: Scope, document_id: UUID) -> tuple[DocumentRow, list[PageText]]:
    async with database.as_user(scope) as conn:
        row = await documents.get(conn, document_id)
        pages = await documents.pages(conn, document_id)
    assert row is not None
    return row, pages


async def test_an_upload_is_kept_and_queued_once(service, database, files, clone, make_user, source):
    scope = await make_user()
    document = await service.upload(scope, source(), "C:\\mail\\März.txt")
    assert (document.filename, document.status, document.byte_size) == ("März.txt", "reading", 17)
    assert [path.read_bytes() for path in kept(files)] == [b"Total: 10.00 EUR\n"]
    assert jobs(clone) == [str(document.id)]
    # A job may come twice, and two workers may have it at once.
    for _ in range(2):
        await asyncio.gather(service.read(document.id), service.read(document.id))
        row, pages = await state(database, scope, document.id)
        assert (row.status, row.media_type, row.page_count, row.error) == ("ready", "text/plain", 1, None)
        assert [page.text.strip() for page in pages] == ["Total: 10.00 EUR"]


async def test_what_cannot_be_recorded_is_not_kept(service, files, clone, make_user, source):
    scope = await make_user()
    other = await make_user()
    intruder = Scope(scope.user_id, other.org_id)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await service.upload(intruder, source(), "a.txt")
    with pytest.raises(TooLarge, match="1,000"):
        await service.upload(scope, source(b"x" * 1001), "a.txt")
    assert kept(files) == [] and jobs(clone) == []
    assert (await service.upload(scope, source(b"x" * 1000), "a.txt")).byte_size == 1000


class FilesThatHang(LocalFiles):
    """A place of files that answers no reader, and says when it was asked."""

    asked: asyncio.Event

    @asynccontextmanager
    async def local(self, path: str) -> AsyncIterator[Path]:
        self.asked.set()
        await asyncio.Event().wait()
        yield Path(path)


async def test_a_reading_that_died_is_done_again_from_the_start(service, database, files, clone, make_user, source):
    scope = await make_user()
    document = await service.upload(scope, source(), "a.txt")
    hanging = FilesThatHang(files)
    hanging.asked = asyncio.Event()
    reading = asyncio.create_task(DocumentService(database, hanging, Limits()).read(document.id))
    await asyncio.wait_for(hanging.asked.wait(), PATIENCE)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert (await state(database, scope, document.id))[0].status == "reading"
    # Pages of an attempt that got further.
    with psycopg.connect(clone.owner_url) as conn:
        for number in (1, 7):
            conn.execute(
                "insert into public.document_pages (document_id, org_id, number, width, height, text, words, engine) "
                "values (%s, %s, %s, 1, 1, 'old', '[]', 'text')",
                (document.id, scope.org_id, number),
            )
    await service.read(document.id)
    row, pages = await state(database, scope, document.id)
    assert row.status == "ready" and [page.number for page in pages] == [1]
    assert "old" not in pages[0].text


async def test_an_original_goes_with_its_row_whoever_deletes_that(service, files, clone, make_user, source):
    scope = await make_user()
    stays, goes = await service.upload(scope, source(), "a.txt"), await service.upload(scope, source(), "b.txt")
    with psycopg.connect(clone.owner_url, autocommit=True) as conn:
        conn.execute("delete from public.documents where id = %s", [goes.id])
        # A path at which nothing can lie holds up no other.
        conn.execute(
            "insert into private.files_to_delete (storage_path, org_id, due_at) values (%s, %s, '-infinity')",
            [f"{scope.org_id}/{uuid4()}/a%2Fb", scope.org_id],
        )
    await service.delete_originals()
    assert [str(path.relative_to(files)) for path in kept(files)] == [stays.storage_path]
    with psycopg.connect(clone.owner_url, autocommit=True) as conn:
        conn.execute("delete from public.organisations where id = %s", [scope.org_id])
        assert kept(files) != []
        await service.delete_originals()
        await service.delete_originals()
        assert kept(files) == []
        assert conn.execute("select count(*) from private.files_to_delete").fetchone() == (0,)


async def test_an_original_whose_store_failed_or_whose_row_is_there_again(
    service, database, files, clone, make_user, source
):
    class Away(LocalFiles):
        async def remove(self, path: str) -> None:
            raise Unavailable("The store does not answer.")

    scope = await make_user()
    first, second = await service.upload(scope, source(), "a.txt"), await service.upload(scope, source(), "b.txt")
    away = DocumentService(database, Away(files), Limits(max_bytes=1000))
    await away.remove(scope, first.id)  # the row is gone, and the file will be
    with psycopg.connect(clone.owner_url, autocommit=True) as conn:
        conn.execute("delete from public.documents where id = %s", [second.id])
    with pytest.raises(Unavailable):
        await away.delete_originals()
    assert len(kept(files)) == 2
    await service.adopt(scope, second.storage_path)
    await service.delete_originals()
    assert [str(path.relative_to(files)) for path in kept(files)] == [second.storage_path]


async def test_an_original_that_is_gone_fails_its_document(service, database, files, make_user, source):
    scope = await make_user()
    document = await service.upload(scope, source(), "a.txt")
    kept(files)[0].unlink()
    await service.read(document.id)
    row, _ = await state(database, scope, document.id)
    assert row.status == "failed" and row.error.startswith("The original of this document is not on the machine")


async def test_adopting_and_removing_are_for_the_organisation_s_own(service, files, clone, make_user, source):
    mine, theirs = await make_user(), await make_user()
    document = await service.upload(theirs, source(), "a.txt")
    with pytest.raises(NotFound):
        await service.remove(mine, document.id)
    with pytest.raises(NotFound):
        await service.adopt(mine, document.storage_path)
    with pytest.raises(Conflict):
        await service.adopt(theirs, document.storage_path)
    with pytest.raises(Invalid):
        await service.adopt(mine, f"{mine.org_id}/{uuid4()}/../../{document.storage_path}")
    assert len(kept(files)) == 1 and jobs(clone) == [str(document.id)]

    path = files / str(mine.org_id) / str(uuid4()) / "b.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 1001)
    with pytest.raises(TooLarge):
        await service.adopt(mine, str(path.relative_to(files)))
    path.write_bytes(b"x")
    assert (await service.adopt(mine, str(path.relative_to(files)))).filename == "b.txt"
    await service.remove(theirs, document.id)
    assert kept(files) == [path]
