"""Quotas: an organisation stores at most as many documents and bytes as its administrator allows."""

from __future__ import annotations

import asyncio
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from extraction_case import sql
from fieldmark.errors import QuotaExceeded
from fieldmark.files import LocalFiles
from fieldmark.identity.scope import Scope
from fieldmark.services.documents import DocumentService
from fieldmark.stores import documents, usage
from pagewords.pages import Limits

pytestmark = pytest.mark.anyio


@pytest.fixture
def service(database, files) -> DocumentService:
    return DocumentService(database, LocalFiles(files), Limits(max_bytes=1_000_000))


@pytest.fixture
def write(tmp_path):
    def write(content: bytes) -> Path:
        path = tmp_path / "source"
        path.write_bytes(content)
        return path

    return write


def limit(clone: Any, scope: Scope, max_documents: int | None, max_bytes: int | None) -> None:
    statement = """insert into public.credit_limits (org_id, max_documents, max_bytes) values (%s, %s, %s)
        on conflict (org_id) do update set max_documents = excluded.max_documents, max_bytes = excluded.max_bytes"""
    sql(clone.owner_url, statement, scope.org_id, max_documents, max_bytes)


async def stored(database, scope: Scope) -> tuple[int, int]:
    async with database.as_user(scope) as conn:
        found = await usage.storage(conn, scope.org_id)
    return found.documents, found.bytes


async def test_what_is_uploaded_and_deleted_is_counted_for_its_organisation(service, database, make_user, write):
    scope, other = await make_user(), await make_user()
    assert await stored(database, scope) == (0, 0)
    first = await service.upload(scope, write(b"x" * 10), "a.txt")
    await service.upload(scope, write(b"x" * 20), "b.txt")
    await service.upload(other, write(b"x" * 5), "c.txt")
    assert (await stored(database, scope), await stored(database, other)) == ((2, 30), (1, 5))
    await service.remove(scope, first.id)
    assert await stored(database, scope) == (1, 20)


async def test_concurrent_uploads_cannot_exceed_a_quota(service, database, clone, make_user, write, files):
    scope, other = await make_user(), await make_user()
    limit(clone, scope, 3, None)
    uploads = (service.upload(scope, write(b"x"), "a.txt") for _ in range(8))
    results = await asyncio.gather(*uploads, return_exceptions=True)
    refused = [one for one in results if isinstance(one, QuotaExceeded)]
    assert (len(refused), await stored(database, scope)) == (5, (3, 3))
    assert len([path for path in files.rglob("*") if path.is_file()]) == 3
    await service.upload(other, write(b"x"), "a.txt")
    limit(clone, scope, None, 4)
    await service.upload(scope, write(b"x"), "a.txt")
    with pytest.raises(QuotaExceeded):
        await service.upload(scope, write(b"x"), "a.txt")


async def test_the_feed_reports_once_that_a_quota_is_almost_or_wholly_used(service, clone, make_user, write):
    scope = await make_user()
    limit(clone, scope, 5, None)

    def reported() -> list[str]:
        rows = sql(clone.owner_url, "select type from changes where type like 'quota.%%' order by written")
        return [row["type"] for row in rows]

    stored = []
    for expected in ([], [], [], ["quota.warning"], ["quota.warning", "quota.reached"]):
        stored.append(await service.upload(scope, write(b"x"), "a.txt"))
        assert reported() == expected
    await service.remove(scope, stored.pop().id)
    await service.upload(scope, write(b"x"), "a.txt")
    assert reported() == ["quota.warning", "quota.reached"]
    for _ in range(2):  # fewer than 80 percent: the next time is reported again
        await service.remove(scope, stored.pop().id)
    await service.upload(scope, write(b"x"), "a.txt")
    assert reported() == ["quota.warning", "quota.reached", "quota.warning"]
    limit(clone, scope, None, 7)
    for _ in range(2):
        with pytest.raises(QuotaExceeded):
            await service.upload(scope, write(b"xxxx"), "a.txt")
    assert reported() == ["quota.warning", "quota.reached", "quota.warning", "quota.reached"]


async def test_files_inside_an_archive_count_as_what_they_are_unpacked(service, database, clone, make_user, write):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as written:
        for number in range(4):
            written.writestr(f"{number}.txt", b"Total: 10.00 EUR\n" * 1000)
    content = packed.getvalue()
    scope = await make_user()
    for number, (max_bytes, expected, code) in enumerate(
        (
            (len(content) + 67_999, (1, len(content)), "enclosed_over_quota"),
            (2 * len(content) + 68_000, (6, 2 * len(content) + 68_000), "enclosed_apart"),
        ),
        1,
    ):
        limit(clone, scope, None, max_bytes)
        document = await service.upload(scope, write(content), "a.zip")
        await service.read(document.id)
        assert await stored(database, scope) == expected
        async with database.as_user(scope) as conn:
            warnings = await documents.warnings(conn, document.id)
        assert [one.code for one in warnings] == [code]
        (row,) = sql(clone.owner_url, "select count(*) from changes where type = 'quota.reached'")
        assert row["count"] == number


async def test_a_size_that_a_front_end_made_up_is_corrected_when_the_file_is_read(
    service, database, clone, make_user, files
):
    """A member may insert a document by SQL, with any size."""
    scope = await make_user()
    limit(clone, scope, None, 10)
    statement = """with new as (select private.new_id() as id) insert into public.documents
          (id, org_id, created_by, user_id, filename, storage_path, byte_size)
        select id, %s, %s, %s, 'a.txt', concat_ws('/', %s::text, id, 'a.txt'), 0 from new returning id, storage_path"""
    for content, status, expected in ((b"Total: 1", "ready", (1, 8)), (b"Total: 10.00", "failed", (2, 8))):
        (row,) = sql(clone.owner_url, statement, scope.org_id, scope.user_id, scope.user_id, scope.org_id)
        path = files / row["storage_path"]
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        await service.read(row["id"])
        async with database.as_user(scope) as conn:
            document = await documents.get(conn, row["id"])
        assert (document.status, await stored(database, scope)) == (status, expected)
    assert document.error_code == "quota_exceeded"


async def test_an_organisation_with_documents_is_deleted(service, clone, make_user, write):
    scope = await make_user()
    limit(clone, scope, 3, 100)
    await service.upload(scope, write(b"x"), "a.txt")
    sql(clone.owner_url, "delete from public.organisations where id = %s", scope.org_id)
    assert sql(clone.owner_url, "select from public.storage_usage where org_id = %s", scope.org_id) == []
