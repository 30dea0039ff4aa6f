"""TXT and CSV: their lines, in whatever encoding."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from fieldmark.documents.reading.pagination import align, expand_tabs
from fieldmark.documents.reading.sniff import BYTE_ORDER_MARKS

_DELIMITERS = ",;\t|"


def decode(data: bytes, declared: str | None = None) -> str:
    """The text, decoded by its byte order mark, else as declared, else as UTF-8, else as Windows-1252."""
    for mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    for encoding in (declared, "utf-8"):
        try:
            if encoding:
                return data.decode(encoding)
        except (LookupError, ValueError):
            continue
    return data.decode("cp1252", "replace")


def plain_parts(data: bytes) -> list[Sequence[str]]:
    """The lines of a text; a form feed ends a page."""
    return [[expand_tabs(line) for line in part.splitlines()] for part in decode(data).split("\f")]


def csv_parts(data: bytes) -> list[Sequence[str]]:
    """The rows of a CSV file as lines with aligned columns."""
    text = decode(data).replace("\0", "")
    head = "\n".join(text.splitlines()[:20])
    delimiter = max(_DELIMITERS, key=head.count)
    # The default limit of a field is 128 KB; the file's own is the one that counts.
    csv.field_size_limit(len(text) + 1)
    return [align(list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)))]
