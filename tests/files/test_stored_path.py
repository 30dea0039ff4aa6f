from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.errors import Invalid
from fieldmark.files import parse_stored_path, safe_name, stored_path

ORG = UUID("0b0c9f3e-3a52-4b6a-9d5e-0d6f5a3f1c11")
DOCUMENT = UUID("7f1f8a52-64de-4f6b-8d3c-5f1f5f0f2a22")


@pytest.mark.parametrize(
    "name", ["a", "invoice.pdf", "März 1.pdf", "..a", ".a", "a:b?c*(1)=+,;@$&'!.pdf", "請求書", "é" * 127]
)
def test_plain_name_below_two_ids_is_a_stored_path(name: str) -> None:
    parsed = parse_stored_path(f"{ORG}/{DOCUMENT}/{name}")
    assert (parsed.org_id, parsed.document_id, parsed.name) == (ORG, DOCUMENT, name)
    assert str(parsed) == f"{ORG}/{DOCUMENT}/{name}"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a.pdf",
        f"{ORG}/{DOCUMENT}/",
        f"{ORG}/{DOCUMENT}/a/b",
        f"{ORG}/{DOCUMENT}/..",
        f"{ORG}/{DOCUMENT}/a\\b",
        f"{ORG}/{DOCUMENT}/a\0",
        f"{ORG}/{DOCUMENT}/\ud800",
        f"{ORG}/{DOCUMENT}/a\u202efdp.exe",
        f"{ORG}/{DOCUMENT}/..%2Fa",
        f"{ORG}/{DOCUMENT}/" + "é" * 128,
        f"{str(ORG).upper()}/{DOCUMENT}/a",
        f"{ORG.hex}/{DOCUMENT}/a",
    ],
)
def test_other_path_is_refused(path: str) -> None:
    with pytest.raises(Invalid):
        parse_stored_path(path)


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        ("Rechnung März.pdf", "Rechnung März.pdf"),
        ("می‌خواهم.pdf", "می‌خواهم.pdf"),  # the joiner is part of the spelling
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("a\0b\r\n.pdf", "a_b__.pdf"),
        ("invoice\u202efdp.exe", "invoice_fdp.exe"),
        ("..", "document"),
        ("\u200b\u200b", "document"),
        ("é" * 300 + ".pdf", "é" * 125 + ".pdf"),
    ],
)
def test_safe_name_replaces_only_harmful_characters(filename: str, expected: str) -> None:
    assert safe_name(filename) == expected


@pytest.mark.parametrize(
    ("filename", "stored"),
    [
        ("Rechnung März 1.pdf", "Rechnung_Marz_1.pdf"),
        ("請求書.pdf", "document.pdf"),
        ("../../etc/passwd", "etc_passwd"),
        ("a" * 300 + ".pdf", "a" * 116 + ".pdf"),
    ],
)
def test_stored_name_is_valid_on_disk_and_in_supabase_storage(filename: str, stored: str) -> None:
    assert stored_path(ORG, DOCUMENT, filename).name == stored


@given(st.text(st.characters(exclude_categories=()), max_size=400))
def test_any_filename_gives_a_valid_path_and_name(filename: str) -> None:
    path = stored_path(ORG, DOCUMENT, filename)
    assert parse_stored_path(str(path)) == path
    # A subset of the characters that Supabase Storage accepts.
    assert path.name.isascii() and all(c.isalnum() or c in "_-.()" for c in path.name)
    expected = safe_name(filename)
    assert 1 <= len(expected.encode()) <= 255
    assert expected.strip(".") and not set(expected) & set("/\\\0\r\n")
