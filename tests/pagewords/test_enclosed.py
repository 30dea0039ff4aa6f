from __future__ import annotations

import json

import pytest

from generated_files import make_zip
from pagewords import sniff
from pagewords.answers import Reading
from pagewords.pages import MIB, DocumentContent, Limits
from pagewords.reading_warnings import MAX_ENCLOSED, WarningCode
from pagewords.sandbox import read_file

pytestmark = pytest.mark.anyio


@pytest.fixture
def read(tmp_path):
    """Return a function that reads bytes as a file and returns its content, and the unpacked files by name."""

    async def read_bytes(
        data: bytes, name: str = "a.zip", limits: Limits | None = None, *, too_deep: bool = False
    ) -> tuple[DocumentContent, dict[str, bytes]]:
        (tmp_path / "file").write_bytes(data)
        folder = tmp_path / "out"
        folder.mkdir()
        content = await read_file(tmp_path / "file", name, limits or Limits(), unpack_to=None if too_deep else folder)
        unpacked = {file.name: file.path.read_bytes() for file in content.enclosed}
        assert {path.parent for path in (file.path for file in content.enclosed)} <= {folder}
        assert {path.name for path in folder.iterdir()} == {file.path.name for file in content.enclosed}
        return content, unpacked

    return read_bytes


def warning_summaries(found: DocumentContent) -> list[tuple[str, int, str]]:
    return [(warning.code, warning.count, warning.excerpt) for warning in found.warnings]


async def test_archive_lists_its_files_and_they_are_unpacked(read) -> None:
    members = {"2024/a.txt": b"Total: 1", "b.csv": b"x;y", "__MACOSX/._b.csv": b"junk", "2024/.DS_Store": b"junk"}
    found, taken = await read(make_zip(members))
    assert found.media_type == sniff.ZIP
    assert [line.split() for line in found.pages[0].text.splitlines()] == [
        ["ZIP", "archive", "with", "2", "files:"],
        [],
        ["2024/a.txt", "8", "bytes"],
        ["b.csv", "3", "bytes"],
    ]
    assert taken == {"a.txt": b"Total: 1", "b.csv": b"x;y"} and warning_summaries(found) == []


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
async def test_hostile_file_name_is_reduced_to_a_plain_name(read, name: str, taken_as: str) -> None:
    _, taken = await read(make_zip({name: b"content"}))
    assert taken == {taken_as: b"content"}


async def test_files_over_the_limit_are_named_in_a_warning(read) -> None:
    found, taken = await read(make_zip({f"{n}.txt": b"x" for n in range(MAX_ENCLOSED + 2)}))
    assert len(taken) == MAX_ENCLOSED
    assert warning_summaries(found) == [(WarningCode.ENCLOSED_TOO_MANY, 2, "100.txt; 101.txt")]


async def test_size_of_each_file_and_of_all_files_is_limited(read) -> None:
    limits = Limits(max_bytes=1000, max_decoded_bytes=4000)
    members = {"fits.txt": b"f" * 1000, "large.txt": b"l" * 1001} | {f"{n}.txt": b"x" * 1000 for n in range(4)}
    found, taken = await read(make_zip(members), limits=limits)
    assert list(taken) == ["fits.txt", "0.txt", "1.txt", "2.txt"]
    assert warning_summaries(found) == [(WarningCode.ENCLOSED_TOO_LARGE, 2, "large.txt; 3.txt")]


async def test_zip_bomb_is_left_out_and_compressible_file_is_unpacked(read) -> None:
    bomb, text = b"\0" * (40 * MIB), b"Total: 10.00 EUR\n" * 50_000
    found, taken = await read(make_zip({"bomb": bomb, "text.txt": text, "small": b"\0" * MIB}))
    assert taken == {"text.txt": text, "small": b"\0" * MIB}
    assert warning_summaries(found) == [(WarningCode.ENCLOSED_TOO_LARGE, 1, "bomb")]


async def test_files_nested_too_deeply_are_listed_but_not_unpacked(read) -> None:
    found, taken = await read(make_zip({"a.txt": b"a", "b.txt": b"b"}), too_deep=True)
    assert taken == {} and "a.txt" in found.pages[0].text
    assert warning_summaries(found) == [(WarningCode.ENCLOSED_TOO_DEEP, 2, "a.txt; b.txt")]


def _marked_as_protected(data: bytes, name: bytes) -> bytes:
    out = bytearray(data)
    for signature, flags, at in ((b"PK\x03\x04", 6, 30), (b"PK\x01\x02", 8, 46)):
        start = -1
        while (start := data.find(signature, start + 1)) >= 0:
            if data[start + at :].startswith(name):
                out[start + flags] |= 1
    return bytes(out)


async def test_protected_files_give_a_warning_and_fully_protected_archive_is_refused(read) -> None:
    data = make_zip({"open.txt": b"o", "secret.txt": b"s"})
    found, taken = await read(_marked_as_protected(data, b"secret.txt"))
    assert taken == {"open.txt": b"o"} and warning_summaries(found) == [
        (WarningCode.ENCLOSED_PROTECTED, 1, "secret.txt")
    ]


READING = {"media_type": sniff.ZIP, "page_count": 1}
WARNING = {"code": "enclosed_damaged", "page": None, "count": 1, "excerpt": "a"}


def reading_with(**overrides: object) -> Reading:
    return Reading.model_validate_json(json.dumps(READING | overrides))


def test_hijacked_reader_cannot_send_invalid_file_names() -> None:
    assert reading_with(file_names=["x" * 255]).file_names == ["x" * 255]
    for names in ([5], [""], ["a\u202e"], ["x" * 256], ["a"] * (MAX_ENCLOSED + 1)):
        with pytest.raises(ValueError):  # the parent raises Damaged instead
            reading_with(file_names=names)


def test_hijacked_reader_cannot_send_invalid_page_numbers() -> None:
    assert reading_with(scans=[1]).scans == [1]
    for bad in ({"scans": [2]}, {"scans": [0]}, {"scans": [1, 1]}, {"page_count": -1}, {"media_type": "forged"}):
        with pytest.raises(ValueError):
            reading_with(**bad)


def test_hijacked_reader_cannot_send_other_warnings() -> None:
    assert reading_with(left_out=[WARNING]).left_out[0].excerpt == "a"
    for bad in (
        {"code": "hidden_text"},
        {"page": 1},
        {"count": -1},
        {"excerpt": "a\u202e"},
        {"excerpt": "a" * 201},
    ):
        with pytest.raises(ValueError):
            reading_with(left_out=[WARNING | bad])
