from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fieldmark.errors import Conflict, NotFound, Unavailable
from fieldmark.files import LocalFiles

pytestmark = pytest.mark.anyio

ORG, DOCUMENT = "0b0c9f3e-3a52-4b6a-9d5e-0d6f5a3f1c11", "7f1f8a52-64de-4f6b-8d3c-5f1f5f0f2a22"
PATH = f"{ORG}/{DOCUMENT}/a.pdf"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture
def files(root: Path) -> LocalFiles:
    return LocalFiles(root)


@pytest.fixture
def upload_file(tmp_path: Path) -> Path:
    upload = tmp_path / "upload"
    upload.write_bytes(b"content")
    upload.chmod(0o644)
    return upload


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


async def test_files_are_private_and_removal_deletes_the_empty_folder(
    files: LocalFiles, root: Path, upload_file: Path
) -> None:
    before = os.umask(0)
    try:
        await files.put(PATH, upload_file)
    finally:
        os.umask(before)
    assert {mode(root), mode(root / ORG), mode(root / ORG / DOCUMENT)} == {0o700}
    assert mode(root / PATH) == 0o600
    assert (root / PATH).stat().st_nlink == 1
    async with files.local(PATH) as original:
        assert original == root / PATH  # no copy
    await files.remove(PATH)
    assert list((root / ORG).iterdir()) == list((root / ".incoming").iterdir()) == []


@pytest.mark.parametrize("planted", [ORG, f"{ORG}/{DOCUMENT}"])
async def test_planted_folder_link_is_not_followed(
    files: LocalFiles, root: Path, upload_file: Path, tmp_path: Path, planted: str
) -> None:
    outside = tmp_path / "outside"
    (root / planted).parent.mkdir(parents=True)
    target = outside / PATH.removeprefix(planted).lstrip("/")
    target.parent.mkdir(parents=True)
    target.write_bytes(b"not theirs")
    (root / planted).symlink_to(outside)
    assert (root / PATH).read_bytes() == b"not theirs"  # the link itself is valid

    assert await files.size(PATH) is None
    with pytest.raises(NotFound):
        async with files.local(PATH):
            pass
    await files.remove(PATH)
    with pytest.raises(Unavailable):
        await files.put(PATH.replace("a.pdf", "b.pdf"), upload_file)
    assert [p.name for p in outside.rglob("*") if p.is_file()] == ["a.pdf"]

    (root / planted).unlink()
    await files.put(PATH, upload_file)
    assert await files.size(PATH) == 7


async def test_planted_file_link_is_not_an_original(
    files: LocalFiles, root: Path, upload_file: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"not theirs")
    (root / PATH).parent.mkdir(parents=True)
    (root / PATH).symlink_to(outside)
    assert await files.size(PATH) is None
    with pytest.raises(NotFound):
        async with files.local(PATH):
            pass
    with pytest.raises(Conflict):
        await files.put(PATH, upload_file)
    await files.remove(PATH)
    assert outside.read_bytes() == b"not theirs"
    await files.put(PATH, upload_file)
    assert await files.size(PATH) == 7
    # Nor is anything but a regular file.
    os.mkfifo((root / PATH).with_name("pipe"))
    assert await files.size(PATH.replace("a.pdf", "pipe")) is None


async def test_one_of_several_concurrent_puts_is_stored_completely(files: LocalFiles, tmp_path: Path) -> None:
    contents = [bytes([n]) * 1_000_000 for n in range(6)]
    for n, content in enumerate(contents):
        (tmp_path / str(n)).write_bytes(content)
    results = await asyncio.gather(*(files.put(PATH, tmp_path / str(n)) for n in range(6)), return_exceptions=True)
    assert [type(result) for result in results if result is not None] == [Conflict] * 5
    async with files.local(PATH) as original:
        assert original.read_bytes() == contents[results.index(None)]


def put_until_killed(root: Path, pipe: Path) -> None:
    os.mkfifo(pipe)
    code = (
        "import asyncio, sys; from pathlib import Path; from fieldmark.files import LocalFiles;"
        "asyncio.run(LocalFiles(Path(sys.argv[1])).put(sys.argv[2], Path(sys.argv[3])))"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, root, PATH, pipe], env={"PYTHONPATH": ":".join(sys.path)})
    with pipe.open("wb", buffering=0) as feed:  # blocks until the writer reads
        feed.write(b"half")
        writer.send_signal(signal.SIGKILL)
        assert writer.wait() == -signal.SIGKILL


async def test_process_killed_while_writing_leaves_no_original(
    files: LocalFiles, root: Path, upload_file: Path, tmp_path: Path
) -> None:
    put_until_killed(root, tmp_path / "pipe")
    [left] = (root / ".incoming").iterdir()
    assert await files.size(PATH) is None

    await files.put(PATH, upload_file)
    assert (root / PATH).read_bytes() == b"content"
    assert left.exists()  # a slow writer may still be using it
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(left, (long_ago, long_ago))
    await files.put(PATH.replace("a.pdf", "b.pdf"), upload_file)
    assert not left.exists()


async def test_unusable_folder_is_unavailable(upload_file: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unavailable, match="folder for originals"):
        await LocalFiles(tmp_path / "file").put(PATH, upload_file)
    with pytest.raises(Unavailable, match="No such file"):
        await LocalFiles(tmp_path / "files").put(PATH, tmp_path / "missing")
    assert await LocalFiles(tmp_path / "files").size(PATH) is None
