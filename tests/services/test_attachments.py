"""Files inside a file become child documents, once, and are deleted with it."""

from __future__ import annotations

import asyncio
import io
import os
import zipfile
from email.message import EmailMessage
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from fieldmark.domain.statuses import DocumentStatus, RowStatus
from fieldmark.files import LocalFiles
from fieldmark.identity.scope import Scope
from fieldmark.services.documents import DocumentService
from fieldmark.stores import documents, stacks
from fieldmark.stores.documents import DocumentListFilter
from fieldmark.stores.rows import DocumentRow
from pagewords.enclosed import MAX_PAGES, max_enclosed_bytes
from pagewords.pages import MIB, Limits
from pagewords.reading_warnings import MAX_ENCLOSED

pytestmark = pytest.mark.anyio


@pytest.fixture
def service(database, files) -> DocumentService:
    return DocumentService(database, LocalFiles(files), Limits())


@pytest.fixture
def upload_bytes(service, tmp_path):
    async def upload(scope: Scope, content: bytes, name: str = "a.zip") -> UUID:
        (tmp_path / "source").write_bytes(content)
        return (await service.upload(scope, tmp_path / "source", name)).id

    return upload


def make_zip(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return out.getvalue()


def make_email(attachments: dict[str, bytes]) -> bytes:
    message = EmailMessage()
    message["From"] = "a@example.com"
    message.set_content("See the invoices.")
    for name, content in attachments.items():
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return bytes(message)


def stored_files(files: Path) -> set[str]:
    return {str(path.relative_to(files)) for path in files.rglob("*") if path.is_file()}


async def get_with_children(
    database, scope: Scope, document_id: UUID
) -> tuple[DocumentRow, list[DocumentRow], list[str]]:
    """Return a document, its children and the codes of its warnings."""
    async with database.as_user(scope) as conn:
        row = await documents.get(conn, document_id)
        children = await documents.children(conn, document_id)
        warnings = await documents.warnings(conn, document_id)
    return row, children, [warning.code for warning in warnings]


async def read_all(service: DocumentService, database, scope: Scope, document_id: UUID) -> None:
    await service.read(document_id)
    for child in (await get_with_children(database, scope, document_id))[1]:
        await read_all(service, database, scope, child.id)


async def test_attachments_become_child_documents(service, database, files, make_user, upload_bytes):
    scope, stranger = await make_user(), await make_user()
    mail_id = await upload_bytes(scope, make_email({"a.txt": b"Total: 1", "b.bin": bytes(range(256)) * 9}), "m.eml")
    await read_all(service, database, scope, mail_id)
    row, (first, second), codes = await get_with_children(database, scope, mail_id)
    assert (row.status, row.media_type, codes) == ("ready", "message/rfc822", ["enclosed_apart"])
    assert (first.filename, first.status, first.byte_size, first.parent_document_id) == ("a.txt", "ready", 8, mail_id)
    assert (second.filename, second.status, second.error_code) == ("b.bin", "failed", "unsupported")
    assert row.parent_document_id is None
    async with database.as_user(scope) as conn:
        assert (await documents.pages(conn, first.id))[0].text.strip() == "Total: 1"
        filters = DocumentListFilter(parent_id=mail_id)
        listed = await documents.list_documents(conn, scope.org_id, limit=9, filters=filters)
        assert {item.id for item in listed.items} == {first.id, second.id}
    assert stored_files(files) == {row.storage_path, first.storage_path, second.storage_path}
    async with database.as_user(stranger) as conn:
        assert await documents.children(conn, mail_id) == []
        assert (await documents.list_documents(conn, stranger.org_id, limit=9, filters=filters)).items == []


async def test_emails_of_a_mailbox_become_documents_with_their_attachments(service, database, make_user, upload_bytes):
    scope = await make_user()
    emails = [make_email({f"{number}.txt": b"Total: %d" % number}) for number in (1, 2)]
    mailbox = b"\n".join(b"From a@example.com Fri May 17 11:00:00 2024\n" + email for email in emails)
    root_id = await upload_bytes(scope, mailbox, "archive.mbox")
    await read_all(service, database, scope, root_id)
    row, mails, codes = await get_with_children(database, scope, root_id)
    assert (row.status, len(mails), codes) == ("ready", 2, ["enclosed_apart"])
    for number, mail in enumerate(mails, 1):
        _, (attachment,), _ = await get_with_children(database, scope, mail.id)
        assert (mail.media_type, attachment.filename) == ("message/rfc822", f"{number}.txt")
        async with database.as_user(scope) as conn:
            assert (await documents.pages(conn, attachment.id))[0].text == f"Total: {number}"


async def test_archives_are_unpacked_one_level_deep(service, database, make_user, upload_bytes):
    scope = await make_user()
    inner = make_zip({"deep.txt": b"Total: 3"})
    root_id = await upload_bytes(
        scope, make_email({"a.zip": make_zip({"b.zip": inner, "c.txt": b"Total: 2"})}), "m.eml"
    )
    await read_all(service, database, scope, root_id)
    (middle,) = (await get_with_children(database, scope, root_id))[1]
    _, (nested, text), codes = await get_with_children(database, scope, middle.id)
    assert (nested.filename, text.filename, codes) == ("b.zip", "c.txt", ["enclosed_apart"])
    row, children, codes = await get_with_children(database, scope, nested.id)
    assert (row.status, children, codes) == ("ready", [], ["enclosed_too_deep"])


async def test_files_inside_a_document_of_a_stack_have_rows(service, database, make_user, upload_bytes):
    scope = await make_user()
    deep = make_zip({"deep.txt": b"Total: 3"})
    mail = make_email({"b.zip": make_zip({"copy.txt": b"Total: 1", "too deep.zip": deep}), "c.txt": b"Total: 2"})
    root_id = await upload_bytes(scope, make_zip({"a.txt": b"Total: 1", "m.eml": mail}))
    other_id = await upload_bytes(scope, make_email({"b.txt": b"Total: 4"}), "other.eml")
    rows = {
        "a.zip": "container", "a.txt": "waiting", "m.eml": "waiting", "c.txt": "waiting", "b.zip": "failed",
        "other.eml": "waiting", "b.txt": "waiting",
    }  # fmt: skip

    async def states(stack_id: UUID) -> dict[str, str]:
        async with database.as_user(scope) as conn:
            listed = await stacks.rows(conn, stack_id, limit=99)
            counts = (await stacks.progress(conn, [stack_id]))[stack_id].counts
            unread = await stacks.rows_to_read(conn, stack_id, root_id, 99)
        found = {row.filename: str(row.state) for row in listed}
        assert sum(counts.values()) == len(listed) and counts.get(RowStatus.CONTAINER, 0) <= 1
        assert {one.document_id for one in unread} == {one.document_id for one in listed if one.state == "waiting"}
        return found

    async with database.as_user(scope) as conn:
        early, late = await stacks.add(conn, scope, "early"), await stacks.add(conn, scope, "late")
        assert await stacks.add_documents(conn, scope, early, [root_id, other_id]) == 2
    await read_all(service, database, scope, root_id)
    await read_all(service, database, scope, other_id)
    assert await states(early) == rows
    async with database.as_user(scope) as conn:
        assert await stacks.add_documents(conn, scope, late, [root_id, other_id]) == 7
        assert await stacks.add_documents(conn, scope, late, [root_id]) == 0
        failed = await stacks.rows(conn, late, limit=9, states=[RowStatus.FAILED])
    assert (await states(late), [row.error_code for row in failed]) == (rows, ["enclosed_too_deep"])
    # Files stay when the archive around them is taken out, and do not return with it.
    async with database.as_user(scope) as conn:
        await stacks.remove_document(conn, late, root_id)
    assert await states(late) == {name: state for name, state in rows.items() if name != "a.zip"}
    # A copy of the archive adds only copies.
    await upload_bytes(scope, b"Total: 9", "new.txt")
    again = await upload_bytes(scope, make_zip({"again.txt": b"Total: 1", "new.txt": b"Total: 9"}), "again.zip")
    async with database.as_user(scope) as conn:
        await stacks.add_documents(conn, scope, late, [again])
    await service.read(again)
    found = await states(late)
    assert (found["again.zip"], found["again.txt"], found["new.txt"]) == ("container", "duplicate", "waiting")


async def test_killed_worker_leaves_no_duplicates_and_no_files(
    service, database, files, clone, make_user, upload_bytes
):
    class FailingFiles(LocalFiles):
        remaining = 1

        async def put(self, path: str, source: Path) -> None:
            if not self.remaining:
                raise ConnectionError("killed")
            self.remaining -= 1
            await super().put(path, source)

    scope = await make_user()
    root_id = await upload_bytes(scope, make_zip({"a.txt": b"a", "b.txt": b"b"}))
    with pytest.raises(ConnectionError):
        await DocumentService(database, FailingFiles(files), Limits()).read(root_id)
    assert (await get_with_children(database, scope, root_id))[0].status is DocumentStatus.READING
    assert len(stored_files(files)) == 2  # the archive, and a file without a document
    # Two workers read it again.
    await asyncio.gather(service.read(root_id), service.read(root_id))
    row, children, _ = await get_with_children(database, scope, root_id)
    assert (row.status, [child.filename for child in children]) == ("ready", ["a.txt", "b.txt"])
    await service.delete_originals()
    referenced = {row.storage_path, *(child.storage_path for child in children)}
    assert referenced < stored_files(files)  # unreferenced files may become documents soon
    with psycopg.connect(clone.owner_url) as conn:
        conn.execute("update private.files_to_delete set due_at = now()")
    await service.delete_originals()
    assert stored_files(files) == referenced


async def test_children_are_deleted_with_their_document_or_alone(service, database, files, make_user, upload_bytes):
    scope = await make_user()
    root_id = await upload_bytes(scope, make_email({"a.zip": make_zip({"b.txt": b"b"}), "c.txt": b"c"}), "m.eml")
    await read_all(service, database, scope, root_id)
    _, (first, second), _ = await get_with_children(database, scope, root_id)
    await service.remove(scope, second.id)
    row, children, _ = await get_with_children(database, scope, root_id)
    assert (row.status, [child.id for child in children]) == ("ready", [first.id])
    await service.remove(scope, root_id)
    await service.delete_originals()
    assert stored_files(files) == set()
    async with database.as_user(scope) as conn:
        assert (await documents.list_documents(conn, scope.org_id, limit=9)).items == []


async def test_document_deleted_while_unpacked_leaves_nothing(service, database, files, clone, make_user, upload_bytes):
    scope = await make_user()
    for pause in (0, 0.2):
        root_id = await upload_bytes(scope, make_zip({f"{n}.txt": b"x" for n in range(20)}))
        reading = asyncio.create_task(service.read(root_id))
        await asyncio.sleep(pause)
        await service.remove(scope, root_id)
        await reading
    with psycopg.connect(clone.owner_url) as conn:
        assert conn.execute("select count(*) from public.documents").fetchone() == (0,)
        conn.execute("update private.files_to_delete set due_at = now()")
    await service.delete_originals()
    assert stored_files(files) == set()


async def test_number_of_documents_in_an_upload_is_limited(service, database, make_user, upload_bytes):
    scope = await make_user()
    half = make_zip({f"{n}.txt": b"x" for n in range(MAX_ENCLOSED * 2 // 3)})
    root_id = await upload_bytes(scope, make_email({"a.zip": half, "b.zip": half}), "m.eml")
    await service.read(root_id)
    _, (first, second), _ = await get_with_children(database, scope, root_id)
    await asyncio.gather(service.read(first.id), service.read(second.id))
    counts = {child.id: len((await get_with_children(database, scope, child.id))[1]) for child in (first, second)}
    assert sum(counts.values()) + 2 == MAX_ENCLOSED and max(counts.values()) == MAX_ENCLOSED * 2 // 3
    fuller = min(counts, key=lambda child_id: counts[child_id])
    assert (await get_with_children(database, scope, fuller))[2] == ["enclosed_apart", "enclosed_too_many"]


async def test_bytes_and_pages_of_all_files_in_an_upload_are_limited(service, database, clone, make_user, upload_bytes):
    scope = await make_user()
    text = os.urandom(10_000).hex().encode()
    inner = make_zip({f"{n}.txt": text + b"0" * (MIB // 2) for n in range(20)}, zipfile.ZIP_DEFLATED)
    upload = make_zip({"a.zip": inner, "b.zip": inner}, zipfile.ZIP_DEFLATED)
    root_id = await upload_bytes(scope, upload, "m.zip")
    await service.read(root_id)
    _, (first, second), _ = await get_with_children(database, scope, root_id)
    await service.read(first.id)
    await service.read(second.id)
    async with database.as_user(scope) as conn:
        _, size, _ = await documents.count_enclosed(conn, root_id)
    assert size <= max_enclosed_bytes(len(upload), Limits()) < 50 * MIB
    found = [await get_with_children(database, scope, one.id) for one in (first, second)]
    assert [codes for _, _, codes in found] == [["enclosed_apart", "enclosed_too_large"], ["enclosed_too_large"]]
    with psycopg.connect(clone.owner_url, autocommit=True) as conn:
        conn.execute("update documents set page_count = %s where id = %s", [MAX_PAGES, first.id])
    child = found[0][1][0]
    await service.read(child.id)
    row, _, _ = await get_with_children(database, scope, child.id)
    assert (row.status, row.error_code) == ("failed", "over_limit")


async def test_children_count_towards_the_queue_limit(service, database, clone, make_user, upload_bytes):
    scope = await make_user()
    with psycopg.connect(clone.owner_url, autocommit=True) as conn:
        conn.execute("insert into queue_limits (org_id, max_waiting_documents) values (%s, 2)", [scope.org_id])
    accepted = await upload_bytes(scope, make_zip({"a.txt": b"a", "b.txt": b"b"}))
    await service.read(accepted)
    row, children, codes = await get_with_children(database, scope, accepted)
    assert (row.status, len(children), codes) == ("ready", 2, ["enclosed_apart"])
    for child in children:
        await service.read(child.id)
    refused = await upload_bytes(scope, make_zip({"a.txt": b"a", "b.txt": b"b", "c.txt": b"c"}))
    await service.read(refused)
    row, children, codes = await get_with_children(database, scope, refused)
    assert (row.status, children, codes) == ("ready", [], ["enclosed_not_queued"])
