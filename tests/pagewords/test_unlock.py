from __future__ import annotations

import pytest

from encrypted_files import NEW_PDF, OLD_PDF, PASSWORD, TEXT, workbook
from generated_files import make_zip
from pagewords.errors import OverLimit, PasswordProtected, Unsupported
from pagewords.jobs import UnlockJob
from pagewords.pages import Limits
from pagewords.sandbox import read_file, unlock_file

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("data", [OLD_PDF, NEW_PDF, workbook()], ids=["old PDF", "new PDF", "XLSX"])
async def test_file_opens_only_with_its_password(tmp_path, data: bytes) -> None:
    path, copy = tmp_path / "locked", tmp_path / "copy"
    path.write_bytes(data)
    for wrong in ("x", PASSWORD.upper(), "\u20ac", "x" * 1000, ""):
        with pytest.raises(PasswordProtected):
            await unlock_file(path, wrong, Limits(), copy)
    with pytest.raises(PasswordProtected):
        await read_file(path, "locked", Limits())
    assert not copy.exists()
    assert await unlock_file(path, PASSWORD, Limits(), copy)
    assert TEXT in (await read_file(copy, "copy", Limits())).pages[0].text
    assert path.read_bytes() == data


async def test_unprotected_file_is_unchanged_and_protected_archive_is_refused(tmp_path) -> None:
    path, copy = tmp_path / "file", tmp_path / "copy"
    path.write_bytes(b"Total: 1")
    assert not await unlock_file(path, "x", Limits(), copy)
    path.write_bytes(make_zip({"a.txt": b"a"}))
    with pytest.raises(Unsupported):
        await unlock_file(path, "x", Limits(), copy)
    assert not copy.exists()


async def test_unlocked_copy_over_the_size_limit_is_refused(tmp_path) -> None:
    path, copy = tmp_path / "locked", tmp_path / "copy"
    path.write_bytes(OLD_PDF)
    with pytest.raises(OverLimit):
        await unlock_file(path, PASSWORD, Limits(max_bytes=len(OLD_PDF) // 2), copy)
    assert not copy.exists()


def test_job_repr_does_not_contain_the_password() -> None:
    assert PASSWORD not in repr(UnlockJob(PASSWORD))
