"""Stored paths: what may stand in one, and what becomes of the names that users give their files."""

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
def test_a_plain_name_below_two_ids_is_a_stored_path(name: str) -> None:
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
def test_anything_else_is_not(path: str) -> None:
    with pytest.raises(Invalid):
        parse_stored_path(path)


@pytest.mark.parametrize(
    ("filename", "kept"),
    [
        ("Rechnung März.pdf", "Rechnung März.pdf"),
        ("می‌خواهم.pdf", "می‌خواهم.pdf"),  # the joiner inside the word belongs to its spelling
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("a\0b\r\n.pdf", "a_b__.pdf"),
        ("invoice\u202efdp.exe", "invoice_fdp.exe"),
        ("..", "document"),
        ("\u200b\u200b", "document"),
        ("é" * 300 + ".pdf", "é" * 125 + ".pdf"),
    ],
)
def test_a_filename_keeps_its_letters_and_loses_what_could_do_harm(filename: str, kept: str) -> None:
    assert safe_name(filename) == kept


@pytest.mark.parametrize(
    ("filename", "stored"),
    [
        ("Rechnung März 1.pdf", "Rechnung_Marz_1.pdf"),
        ("請求書.pdf", "document.pdf"),
        ("../../etc/passwd", "etc_passwd"),
        ("a" * 300 + ".pdf", "a" * 116 + ".pdf"),
    ],
)
def test_a_new_original_is_stored_under_a_name_that_disk_and_storage_both_take(filename: str, stored: str) -> None:
    assert stored_path(ORG, DOCUMENT, filename).name == stored


@given(st.text(st.characters(exclude_categories=()), max_size=400))
def test_whatever_a_file_is_called_its_path_can_be_parsed_and_its_name_kept(filename: str) -> None:
    path = stored_path(ORG, DOCUMENT, filename)
    assert parse_stored_path(str(path)) == path
    # The characters that supabase/storage accepts, and fewer.
    assert path.name.isascii() and all(c.isalnum() or c in "_-.()" for c in path.name)
    kept = safe_name(filename)
    assert 1 <= len(kept.encode()) <= 255
    assert kept.strip(".") and not set(kept) & set("/\\\0\r\n")
