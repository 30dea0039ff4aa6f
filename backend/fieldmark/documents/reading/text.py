"""TXT and CSV: their lines, in whatever encoding."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from fieldmark.documents.reading.pagination import Part, align, expand_tabs
from fieldmark.documents.reading.sniff import BYTE_ORDER_MARKS
from fieldmark.domain.reading_warnings import ReadingWarning, WarningCode

_DELIMITERS = "\t;|,"  # of two that fit alike the first: a comma may be within numbers
_SAMPLE_ROWS = 200
_SAMPLE = 100_000  # bytes, by which the encoding is judged
_MOST_ACCENTS = 0.3  # of the letters
_MOST_MISSING = 0.1  # of the words of one text in another that says the same
_WORD = re.compile(r"[^\W_]{2,}|\d")


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


def says_more(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether a text has what another lacks: a number, or more than a few of its words."""
    said, known = [set(_WORD.findall("\n".join(lines).casefold())) for lines in (one, other)]
    missing = said - known
    return any(map(str.isdigit, "".join(missing))) or len(missing) > _MOST_MISSING * len(said)


def encoding_warnings(data: bytes) -> list[ReadingWarning]:
    """A warning if the text of a file is most likely in another encoding than `decode` takes it for."""
    if any(data.startswith(mark) for mark, _ in BYTE_ORDER_MARKS):
        return []
    try:
        data.decode()
    except UnicodeDecodeError:
        # In Western languages accents are few. What is in another script comes out as nothing else.
        letters = [character for character in decode(data[:_SAMPLE]) if character.isalpha()]
        odd = sum(not letter.isascii() for letter in letters)
        return [ReadingWarning(WarningCode.UNCERTAIN_ENCODING, None)] if odd > _MOST_ACCENTS * len(letters) else []
    return []


def plain_parts(data: bytes) -> list[Sequence[str]]:
    """The lines of a text; a form feed ends a page."""
    first, *rest = [[expand_tabs(line) for line in part.splitlines()] for part in decode(data).split("\f")]
    return [Part(first, (), encoding_warnings(data)), *rest]


def _regularity(text: str, delimiter: str) -> float:
    """The share of rows that have as many fields as most. 0 if these have one only."""
    rows = islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), _SAMPLE_ROWS)
    widths = Counter(len(row) for row in rows if row)
    width, count = max(widths.items(), key=lambda item: (item[1], item[0]), default=(1, 0))
    return count / widths.total() if width > 1 else 0.0


def csv_parts(data: bytes) -> list[Sequence[str]]:
    """The rows of a CSV file as lines with aligned columns."""
    text = decode(data).replace("\0", "")
    # The default limit of a field is 128 KB; the file's own is the one that counts.
    csv.field_size_limit(len(text) + 1)
    delimiter = max(_DELIMITERS, key=lambda delimiter: _regularity(text, delimiter))
    rows = align(list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)))
    return [Part(rows, (), encoding_warnings(data))]
