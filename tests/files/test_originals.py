"""Rules that hold for every store of originals. Supabase Storage and object storage are imitations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from storage_imitation import SECRET_KEY, storage

from fieldmark.errors import Conflict, Invalid, NotFound
from fieldmark.files import Files, LocalFiles, files_for
from fieldmark.files.object_storage import ObjectStorageFiles
from fieldmark.files.supabase import SupabaseFiles
from fieldmark.settings import Settings
from object_server import object_server

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["local", "supabase", "bucket"])
def files(
    request: pytest.FixtureRequest, tmp_path: Path, storage_account: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Files]:
    del storage_account
    if request.param == "local":
        yield LocalFiles(tmp_path / "home" / "files")
    elif request.param == "bucket":
        with object_server() as server:
            monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
            yield ObjectStorageFiles("s3://inbox/originals", max_bytes=10_000_000)
    else:
        with storage() as state:
            yield SupabaseFiles(state.url + "/", SECRET_KEY, max_bytes=10_000_000)


@pytest.fixture
def path() -> str:
    return f"{uuid4()}/{uuid4()}/a name (1)?+&=;@.pdf"


FOLDER = "0b0c9f3e-3a52-4b6a-9d5e-0d6f5a3f1c11/7f1f8a52-64de-4f6b-8d3c-5f1f5f0f2a22"
CONTENT = b"%PDF-1.7\r\n\0\xff--boundary" * 100_000


def upload(folder: Path, content: bytes) -> Path:
    (folder / "upload").write_bytes(content)
    return folder / "upload"


@pytest.fixture
def upload_file(tmp_path: Path) -> Path:
    return upload(tmp_path, CONTENT)


async def read(files: Files, path: str) -> bytes:
    async with files.local(path) as original:
        return await asyncio.to_thread(original.read_bytes)


async def test_original_is_returned_unchanged(files: Files, path: str, upload_file: Path, tmp_path: Path) -> None:
    await files.put(path, upload_file)
    assert await files.size(path) == len(CONTENT)
    assert await read(files, path) == CONTENT
    other = upload(tmp_path, b"")
    with pytest.raises(Conflict):  # it is never replaced
        await files.put(path, other)
    assert await read(files, path) == CONTENT
    await files.put(path + "x", other)
    assert await files.size(path + "x") == 0 and await read(files, path + "x") == b""
    for absent in (path + "y", f"{uuid4()}/{uuid4()}/a"):
        assert await files.size(absent) is None
        with pytest.raises(NotFound):
            await read(files, absent)


async def test_removed_original_is_gone_and_can_be_removed_again(files: Files, path: str, upload_file: Path) -> None:
    await files.put(path, upload_file)
    beside = path.replace("(1)", "(2)")
    await files.put(beside, upload_file)
    await files.remove(path)
    assert await files.size(path) is None
    assert await files.size(beside)
    await files.remove(path)
    await files.remove(beside)
    await files.remove(f"{uuid4()}/{uuid4()}/never")
    await files.put(path, upload_file)
    assert await files.size(path)


@pytest.mark.parametrize("bad", ["a.pdf", "../a/b", f"{FOLDER}/..", f"{FOLDER}/a%2Fb", "/etc/passwd"])
async def test_invalid_path_is_refused(files: Files, upload_file: Path, bad: str) -> None:
    with pytest.raises(Invalid):
        await files.put(bad, upload_file)
    with pytest.raises(Invalid):
        await files.size(bad)
    with pytest.raises(Invalid):
        await files.remove(bad)
    with pytest.raises(Invalid):
        await read(files, bad)


def test_settings_choose_the_store(tmp_path: Path) -> None:
    here = {"_env_file": None, "home": tmp_path}
    assert isinstance(files_for(Settings(**here)), LocalFiles)
    assert isinstance(files_for(Settings(**here, supabase_url="https://a.supabase.co")), LocalFiles)
    both = Settings(**here, supabase_url="https://a.supabase.co", supabase_secret_key="sb_secret_x")
    assert isinstance(files_for(both), SupabaseFiles)
    assert isinstance(files_for(both.model_copy(update={"files_url": "s3://bucket/folder"})), ObjectStorageFiles)
