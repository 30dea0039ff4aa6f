from __future__ import annotations

import asyncio
import gzip
import json
import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from storage_imitation import LEGACY_KEY, SECRET_KEY, Storage, storage

from fieldmark.errors import Conflict, FieldmarkError, NotFound, TooLarge, Unavailable
from fieldmark.files.download_cache import DownloadCache
from fieldmark.files.supabase import SupabaseFiles

pytestmark = pytest.mark.anyio

PATH = f"{uuid4()}/{uuid4()}/a.pdf"
LIMIT = 100_000


@pytest.fixture
def bucket() -> Iterator[Storage]:
    with storage() as state:
        yield state


@pytest.fixture
def files(bucket: Storage) -> SupabaseFiles:
    return SupabaseFiles(bucket.url, SECRET_KEY, max_bytes=LIMIT)


@pytest.fixture
def upload_file(tmp_path: Path) -> Path:
    upload = tmp_path / "upload"
    upload.write_bytes(b"content")
    return upload


async def read(files: SupabaseFiles) -> bytes:
    async with files.local(PATH) as original:
        return original.read_bytes()


async def errors_of_all_operations(files: SupabaseFiles, upload_file: Path) -> list[FieldmarkError]:
    failures: list[FieldmarkError] = []
    for call in (files.put(PATH, upload_file), files.size(PATH), files.remove(PATH), read(files)):
        with pytest.raises(FieldmarkError) as caught:
            await call
        failures.append(caught.value)
    return failures


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (400, {"statusCode": "403", "error": "Unauthorized", "message": "Invalid API key"}, "SUPABASE_SECRET_KEY"),
        (403, {"code": "AccessDenied", "message": "no"}, "SUPABASE_SECRET_KEY"),
        (400, {"statusCode": "404", "error": "Bucket not found", "message": "Bucket not found"}, "no such bucket"),
        (503, None, "status 503"),
        (302, None, "status 302"),
    ],
)
async def test_configuration_error_is_unavailable(
    bucket: Storage, files: SupabaseFiles, upload_file: Path, status: int, body: object, says: str
) -> None:
    content = b"<html>no</html>" if body is None else json.dumps(body).encode()
    bucket.fixed_response = (status, {"Content-Length": str(len(content)), "Location": bucket.url}, content)
    failures = await errors_of_all_operations(files, upload_file)
    assert {type(failure) for failure in failures} == {Unavailable}
    assert all(says in str(failure) and SECRET_KEY not in str(failure) for failure in failures)
    assert len(bucket.requests) == 4  # a redirect is not followed, so the key is not sent elsewhere
    bucket.fixed_response = None
    await files.put(PATH, upload_file)
    assert await read(files) == b"content"


async def test_refused_connection_is_unavailable(upload_file: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: refuses connections
        files = SupabaseFiles(f"http://127.0.0.1:{taken.getsockname()[1]}", SECRET_KEY, max_bytes=LIMIT)
        failures = await errors_of_all_operations(files, upload_file)
    assert {type(failure) for failure in failures} == {Unavailable}
    assert all("does not answer (ConnectError)" in str(failure) for failure in failures)


@pytest.mark.parametrize("has_old_error_format", [True, False])
async def test_missing_existing_and_too_large_are_distinguished_in_both_error_formats(
    bucket: Storage, files: SupabaseFiles, upload_file: Path, has_old_error_format: bool
) -> None:
    bucket.has_old_error_format = has_old_error_format
    assert await files.size(PATH) is None
    with pytest.raises(NotFound):
        await read(files)
    await files.put(PATH, upload_file)
    with pytest.raises(Conflict):
        await files.put(PATH, upload_file)
    assert await files.size(PATH) == 7
    body = json.dumps({"statusCode": "413", "error": "Payload too large", "message": "exceeded"}).encode()
    bucket.fixed_response = (400, {"Content-Length": str(len(body))}, body)
    with pytest.raises(TooLarge):
        await files.put(PATH, upload_file)


async def test_download_over_the_limit_is_refused(bucket: Storage, files: SupabaseFiles) -> None:
    bucket.objects[PATH] = b"x" * (LIMIT + 1)
    with pytest.raises(TooLarge, match="100,000 bytes"):
        await read(files)
    bucket.fixed_response = (200, {}, b"x" * (LIMIT + 1))  # without Content-Length
    with pytest.raises(TooLarge):
        await read(files)
    bucket.fixed_response = None
    bucket.objects[PATH] = b"x" * LIMIT
    assert len(await read(files)) == LIMIT


async def test_compressed_or_overlong_response_is_refused(
    bucket: Storage, files: SupabaseFiles, upload_file: Path
) -> None:
    small = gzip.compress(b"x" * 10_000_000)
    bucket.fixed_response = (200, {"Content-Encoding": "gzip", "Content-Length": str(len(small))}, small)
    failures = await errors_of_all_operations(files, upload_file)
    assert {type(failure) for failure in failures} == {Unavailable}
    assert {headers["Accept-Encoding"] for *_, headers in bucket.requests} == {"identity"}
    bucket.fixed_response = (200, {}, json.dumps({"size": 7, "Key": "a", "padding": "x" * 100_000}).encode())
    for call in (files.put(PATH, upload_file), files.size(PATH), files.remove(PATH)):
        with pytest.raises(Unavailable):
            await call
    bucket.fixed_response = (503, {}, b"x" * 2_000_000)
    assert {type(failure) for failure in await errors_of_all_operations(files, upload_file)} == {Unavailable}


async def test_large_file_is_not_held_in_memory(bucket: Storage, tmp_path: Path) -> None:
    bucket.large_bytes = size = 60_000_000
    files = SupabaseFiles(bucket.url, SECRET_KEY, max_bytes=size)
    with (tmp_path / "large").open("wb") as large:
        large.truncate(size)
    tracemalloc.start()
    try:
        await files.put(PATH, tmp_path / "large")
        assert bucket.large_bytes > size  # with the frame of the form
        bucket.large_bytes = size
        async with files.local(PATH) as original:
            assert original.stat().st_size == size
        assert tracemalloc.get_traced_memory()[1] < size / 4
    finally:
        tracemalloc.stop()


async def test_truncated_download_is_refused(bucket: Storage, files: SupabaseFiles) -> None:
    bucket.objects[PATH] = b"x" * 1000
    bucket.drop_after_bytes = 500
    with pytest.raises(Unavailable, match="does not answer"):
        await read(files)
    bucket.drop_after_bytes = None
    assert len(await read(files)) == 1000


async def test_concurrent_readers_share_one_download(bucket: Storage, files: SupabaseFiles) -> None:
    bucket.objects[PATH] = b"x" * 1000
    assert await asyncio.gather(read(files), read(files)) == [b"x" * 1000] * 2
    assert await read(files) == b"x" * 1000
    assert [method for method, *_ in bucket.requests] == ["GET"]
    async with files.local(PATH) as original:
        await files.remove(PATH)
        assert original.read_bytes() == b"x" * 1000
    assert not original.exists()
    with pytest.raises(NotFound):
        await read(files)


async def test_old_copies_are_deleted_unless_being_read() -> None:
    async def download(target: Path) -> None:
        downloads.append(target)
        target.write_bytes(b"x" * 40)

    downloads: list[Path] = []
    cache = DownloadCache(max_bytes=100)
    async with cache.open("a", download) as first:
        for key in ("b", "c", "d", "d"):
            async with cache.open(key, download):
                pass
        assert [file.exists() for file in downloads] == [True, False, False, True]
    async with cache.open("a", download) as again:
        assert again == first
    briefly = DownloadCache(keep_seconds=0)
    async with briefly.open("a", download) as file:
        assert file.exists()
    assert not file.exists()


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (SECRET_KEY, [("apikey", SECRET_KEY)]),
        (LEGACY_KEY, [("apikey", LEGACY_KEY), ("authorization", f"Bearer {LEGACY_KEY}")]),
    ],
)
async def test_key_is_a_bearer_token_only_if_it_is_a_jwt(
    bucket: Storage, upload_file: Path, key: str, expected: list[tuple[str, str]]
) -> None:
    files = SupabaseFiles(bucket.url, key, max_bytes=LIMIT)
    await files.put(PATH, upload_file)
    assert await files.size(PATH) == 7 and await read(files) == b"content"
    await files.remove(PATH)
    assert bucket.requests[0][2]["x-upsert"] == "false" and len(bucket.requests) == 4
    for _, _, headers in bucket.requests:
        assert sorted((name.lower(), value) for name, value in headers.items() if key in value) == expected
