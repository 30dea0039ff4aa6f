"""Originals in object storage: faults of the server, and signed addresses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from fieldmark.errors import Misconfigured, NotFound, TooLarge, Unavailable
from fieldmark.files.object_storage import ObjectStorageFiles
from object_server import ObjectServer, object_server

pytestmark = pytest.mark.anyio

PATH = f"{uuid4()}/{uuid4()}/a.pdf"
LIMIT = 5_000_000
CONTENT = bytes(range(256)) * 10_000


@pytest.fixture
def bucket(storage_account: None) -> Iterator[ObjectServer]:
    del storage_account
    with object_server() as server:
        yield server


@pytest.fixture
def files(bucket: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectStorageFiles:
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.url)
    return ObjectStorageFiles("s3://inbox/originals", max_bytes=LIMIT)


@pytest.fixture
def upload_file(tmp_path: Path) -> Path:
    upload = tmp_path / "upload"
    upload.write_bytes(CONTENT)
    return upload


async def read(files: ObjectStorageFiles, path: str = PATH) -> bytes:
    async with files.local(path) as original:
        return await asyncio.to_thread(original.read_bytes)


async def test_a_failed_request_is_repeated(bucket, files, upload_file) -> None:
    bucket.fail_next = [503]
    await files.put(PATH, upload_file)
    assert bucket.objects == {f"originals/{PATH}": CONTENT}
    bucket.fail_next = [503, 500]
    assert await read(files) == CONTENT


async def test_a_download_that_is_cut_is_resumed_where_it_ended(bucket, files, upload_file) -> None:
    await files.put(PATH, upload_file)
    (key,) = bucket.objects
    bucket.cut_after = {key: [1_000_000, 500_000]}
    assert await read(files) == CONTENT
    assert any("range" in headers for _, _, headers in bucket.requests)


async def test_an_original_over_the_limit_is_not_downloaded(bucket, files) -> None:
    bucket.objects[f"originals/{PATH}"] = b"x" * (LIMIT + 1)
    with pytest.raises(TooLarge):
        await read(files)


@pytest.mark.parametrize("fault", ["key", "bucket", "server"])
async def test_a_storage_that_cannot_be_used_is_unavailable(fault, bucket, files, upload_file, monkeypatch) -> None:
    if fault == "key":
        bucket.is_key_expired = True
    elif fault == "bucket":
        files = ObjectStorageFiles("s3://another", max_bytes=LIMIT)
    else:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound but not listening: refuses connections
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
            files = ObjectStorageFiles("s3://inbox", max_bytes=LIMIT)
    with pytest.raises(Unavailable) as caught:
        await files.put(PATH, upload_file)
    assert "only/for" not in str(caught.value)


async def test_a_signed_address_returns_one_original_and_nothing_else(bucket, files, upload_file) -> None:
    await files.put(PATH, upload_file)
    url = await files.signed_url(PATH)
    assert url is not None and "X-Amz-Expires=60" in url and "only" not in url
    async with httpx.AsyncClient(verify=False) as http:
        answer = await http.get(url)
        assert (answer.status_code, answer.content) == (200, CONTENT)
    behind = await files.signed_url(PATH, timedelta(minutes=5))
    assert behind is not None and "X-Amz-Expires=360" in behind
    put = next(headers for method, _, headers in bucket.requests if method == "PUT")
    assert put["content-disposition"] == "attachment" and put["content-type"] == "application/octet-stream"
    with pytest.raises(NotFound):
        await files.signed_url(PATH + "x")


def test_an_account_that_is_missing_is_reported_at_the_start(monkeypatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(Misconfigured, match="Account"):
        ObjectStorageFiles("az://container", max_bytes=1)
