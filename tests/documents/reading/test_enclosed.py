"""Files inside a file: which are taken out of a mail or an archive, and what is said of those that are not."""

from __future__ import annotations

import json

import pytest
from generated_files import make_zip

from fieldmark.documents.reading import sniff
from fieldmark.documents.reading.answers import Reading
from fieldmark.documents.reading.pages import MIB, DocumentContent, Limits
from fieldmark.documents.reading.sandbox import read_file
from fieldmark.domain.reading_warnings import MAX_ENCLOSED, WarningCode

pytestmark = pytest.mark.anyio


@pytest.fixture
def read(tmp_path):
    """Reads bytes as a file would be read; its second return value is what was taken out of it, by name."""

    async def read_bytes(
        data: bytes, name: str = "a.zip", limits: Limits | None = None, *, deep: bool = False
    ) -> tuple[DocumentContent, dict[str, bytes]]:
        (tmp_path / "file").write_bytes(data)
        folder = tmp_path / "out"
        folder.mkdir()
        found = await read_file(tmp_path / "file", name, limits or Limits(), unpack_to=None if deep else folder)
        taken = {file.name: file.path.read_bytes() for file in found.enclosed}
        assert {path.parent for path in (file.path for file in found.enclosed)} <= {folder}
        assert {path.name for path in folder.iterdir()} == {file.path.name for file in found.enclosed}
        return found, taken

    return read_bytes


def warnings_of(found: DocumentContent) -> list[tuple[str, int, str]]:
    return [(warning.code, warning.count, warning.excerpt) for warning in found.warnings]


async def test_an_archive_lists_its_files_and_hands_them_over(read) -> None:
    members = {"2024/a.txt": b"Total: 1", "b.csv": b"x;y", "__MACOSX/._b.csv": b"junk", "2024/.DS_Store": b"junk"}
    found, taken = await read(make_zip(members))
    assert found.media_type == sniff.ZIP
    assert [line.split() for line in found.pages[0].text.splitlines()] == [
        ["ZIP", "archive", "with", "2", "files:"],
        [],
        ["2024/a.txt", "8", "bytes"],
        ["b.csv", "3", "bytes"],
    ]
    assert taken == {"a.txt": b"Total: 1", "b.csv": b"x;y"} and warnings_of(found) == []


@pytest.mark.parametrize(
    ("name", "taken_as"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\windows\\evil.txt", "evil.txt"),
        ("a\u202egpj.exe", "agpj.exe"),
        ("x" * 1000 + ".txt", "x" * 255),
    ],
    ids=lambda value: ascii(value)[:20],
)
async def test_a_hostile_name_leads_nowhere(read, name: str, taken_as: str) -> None:
    _, taken = await read(make_zip({name: b"content"}))
    assert taken == {taken_as: b"content"}


async def test_as_many_as_may_are_taken_and_the_rest_is_named(read) -> None:
    found, taken = await read(make_zip({f"{n}.txt": b"x" for n in range(MAX_ENCLOSED + 2)}))
    assert len(taken) == MAX_ENCLOSED
    assert warnings_of(found) == [(WarningCode.ENCLOSED_TOO_MANY, 2, "100.txt; 101.txt")]


async def test_a_file_and_all_files_together_are_bounded(read) -> None:
    limits = Limits(max_bytes=1000, max_decoded_bytes=4000)
    members = {"fits.txt": b"f" * 1000, "large.txt": b"l" * 1001} | {f"{n}.txt": b"x" * 1000 for n in range(4)}
    found, taken = await read(make_zip(members), limits=limits)
    assert list(taken) == ["fits.txt", "0.txt", "1.txt", "2.txt"]
    assert warnings_of(found) == [(WarningCode.ENCLOSED_TOO_LARGE, 2, "large.txt; 3.txt")]


async def test_a_zip_bomb_is_left_out_and_a_compressible_file_is_not(read) -> None:
    bomb, text = b"\0" * (40 * MIB), b"Total: 10.00 EUR\n" * 50_000
    found, taken = await read(make_zip({"bomb": bomb, "text.txt": text, "small": b"\0" * MIB}))
    assert taken == {"text.txt": text, "small": b"\0" * MIB}
    assert warnings_of(found) == [(WarningCode.ENCLOSED_TOO_LARGE, 1, "bomb")]


async def test_files_nested_too_deep_are_listed_and_not_unpacked(read) -> None:
    found, taken = await read(make_zip({"a.txt": b"a", "b.txt": b"b"}), deep=True)
    assert taken == {} and "a.txt" in found.pages[0].text
    assert warnings_of(found) == [(WarningCode.ENCLOSED_TOO_DEEP, 2, "a.txt; b.txt")]


def _marked_as_protected(data: bytes, name: bytes) -> bytes:
    out = bytearray(data)
    for signature, flags, at in ((b"PK\x03\x04", 6, 30), (b"PK\x01\x02", 8, 46)):
        start = -1
        while (start := data.find(signature, start + 1)) >= 0:
            if data[start + at :].startswith(name):
                out[start + flags] |= 1
    return bytes(out)


async def test_protected_files_of_an_archive_are_named_and_an_archive_of_nothing_else_is_refused(read) -> None:
    data = make_zip({"open.txt": b"o", "secret.txt": b"s"})
    found, taken = await read(_marked_as_protected(data, b"secret.txt"))
    assert taken == {"open.txt": b"o"} and warnings_of(found) == [(WarningCode.ENCLOSED_PROTECTED, 1, "secret.txt")]


READING = {"media_type": sniff.ZIP, "page_count": 1}
WARNING = {"code": "enclosed_damaged", "page": None, "count": 1, "excerpt": "a"}


def parsed(**more: object) -> Reading:
    return Reading.model_validate_json(json.dumps(READING | more))


def test_a_reader_that_was_taken_over_names_no_file_as_it_likes() -> None:
    assert parsed(file_names=["x" * 255]).file_names == ["x" * 255]
    for names in ([5], [""], ["a\u202e"], ["x" * 256], ["a"] * (MAX_ENCLOSED + 1)):
        with pytest.raises(ValueError):  # which the parent turns into `damaged`
            parsed(file_names=names)


def test_a_reader_that_was_taken_over_has_no_pages_but_the_file_s() -> None:
    assert parsed(scans=[1]).scans == [1]
    for lie in ({"scans": [2]}, {"scans": [0]}, {"scans": [1, 1]}, {"page_count": -1}, {"media_type": "forged"}):
        with pytest.raises(ValueError):
            parsed(**lie)


def test_a_reader_that_was_taken_over_chooses_no_other_warning() -> None:
    assert parsed(left_out=[WARNING]).left_out[0].excerpt == "a"
    for lie in ({"code": "hidden_text"}, {"page": 1}, {"count": -1}, {"excerpt": "a\u202e"}, {"excerpt": "a" * 201}):
        with pytest.raises(ValueError):
            parsed(left_out=[WARNING | lie])
