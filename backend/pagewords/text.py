"""TXT and CSV: their lines, in any encoding."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from pagewords.encoding import detect_code_page, unicode_encoding
from pagewords.pagination import Part, align, expand_tabs
from pagewords.reading_warnings import ReadingWarning, WarningCode

_DELIMITERS = "\t;|,\x1f"  # the first wins a tie: a comma may be within numbers
_SAMPLE_ROWS = 200
_SAMPLE = 100_000  # characters, from which the delimiter is detected
_MAX_MISSING = 0.1  # share of the words that a text with the same content may lack
_LABELS = {
    "x-sjis": "cp932",
    "x-gbk": "gb18030",
    "iso-8859-8-i": "iso8859-8",
    "x-mac-cyrillic": "mac-cyrillic",
}
_CODE_PAGE = re.compile(r"\A(?:x-|)(?:windows-|cp-?|ms)([0-9]{3,4})\Z")
_EXTENSIONS = {
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
}
_NUMBER = re.compile(
    r"[^,0-9]{0,40}(?:[0-9.]{1,40},[0-9]{1,40}|[0-9]{1,3}(?:,[0-9]{3}){1,9}(?:\.[0-9]{1,40})?)[^,0-9]{0,40}"
)
_TIME = re.compile(r"[0-9]:[0-9]")
_WORD = re.compile(r"[^\W_]{2,}|\d")
_LINK = re.compile(r"(?:\b(?:https?|ftp|mailto|cid|tel):|\bwww\.)\S+|\[\d{1,3}\]|[^\s@]{1,64}@\S+")


def decode(data: bytes, declared: str | None = None) -> str:
    """Decode bytes by their byte order mark, else as `declared`, else as UTF-8, else in the most probable code page."""
    return _decode_or_guess(data, declared)[0]


def _decode_or_guess(data: bytes, declared: str | None) -> tuple[str, bool]:
    """Return the text, and whether its encoding is known or clearly the most probable one."""
    mark, marked = unicode_encoding(data)
    if marked:
        return data[len(mark) :].decode(marked, "replace"), True
    known = _encoding(declared)
    for encoding in (known, "utf-8"):
        try:
            if encoding:
                return data.decode(encoding), True
        except ValueError:
            continue
    if known not in (None, "utf-8"):
        return data.decode(known, "replace"), True
    # A few bad bytes, such as at the end of a truncated file, are still UTF-8.
    text = data.decode("utf-8", "replace")
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    if beyond_ascii > 2 * text.count("\ufffd"):
        return text, True
    code_page = detect_code_page(data)
    text = data.decode(code_page.encoding, "replace")
    return text, code_page.is_sure and "\ufffd" not in text


def _encoding(declared: str | None) -> str | None:
    """Return the codec for a declared encoding; None if it is unknown, or ASCII. Legacy names give the superset that
    programs write and browsers read."""
    label = _CODE_PAGE.sub(r"cp\1", (declared or "").strip().lower())
    try:
        name = codecs.lookup(_LABELS.get(label, label)).name
        "".encode(name)  # some codecs don't decode to text
    except (LookupError, ValueError):
        return None
    return None if name == "ascii" else _EXTENSIONS.get(name, name)


def has_more_text(text: Iterable[str], reference: Iterable[str]) -> bool:
    """Return whether a text contains something that `reference` lacks: a number, or more than a few of its words."""
    text_words, reference_words = [set(_WORD.findall("\n".join(lines).casefold())) for lines in (text, reference)]
    missing = text_words - reference_words
    return any(map(str.isdigit, "".join(missing))) or len(missing) > _MAX_MISSING * len(text_words)


def has_other_numbers(text: Iterable[str], shown: Iterable[str]) -> bool:
    """Return whether a text has a number that the text shown in its place lacks. Numbers in addresses of links, which
    are not shown, don't count."""
    numbers, shown_numbers = [
        {word for word in _WORD.findall(_LINK.sub(" ", "\n".join(lines)).casefold()) if any(map(str.isdigit, word))}
        for lines in (text, shown)
    ]
    return not numbers <= shown_numbers


def encoding_warnings(
    data: bytes, declared: str | None = None, lines: Iterable[str] | None = None
) -> list[ReadingWarning]:
    """Return a warning if the encoding of a text is not certain, and the lines read from it have letters beyond ASCII.
    Without `lines`, the whole text is checked."""
    text, is_sure = _decode_or_guess(data, declared)
    is_affected = not is_sure and not all(line.isascii() for line in ([text] if lines is None else lines))
    return [ReadingWarning(WarningCode.UNCERTAIN_ENCODING, None)] if is_affected else []


def plain_parts(data: bytes) -> list[Sequence[str]]:
    """Return the lines of a text; a form feed starts a new part."""
    first, *rest = [[expand_tabs(line) for line in part.splitlines()] for part in decode(data).split("\f")]
    return [Part(first, (), encoding_warnings(data)), *rest]


def _delimiter(text: str) -> str:
    """Return the delimiter of a CSV file: the one that gives the most rows the same number of fields.

    `^` and `:` are delimiters only if all rows agree. A comma that occurs in one number per row is not a delimiter.
    """
    if _separates_all(text, "^", 2):
        return "^"
    found = {delimiter: _regularity(_sample(text, delimiter)) for delimiter in _DELIMITERS}
    if all(len(row) == 1 or _NUMBER.fullmatch(",".join(row)) for row in _sample(text, ",")):
        found[","] = 0.0
    if not any(found.values()) and not _TIME.search(text[:_SAMPLE]) and _separates_all(text, ":", 3):
        return ":"
    return max(_DELIMITERS, key=lambda delimiter: found[delimiter])


def _sample(text: str, delimiter: str) -> list[list[str]]:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return [row for row in islice(rows, _SAMPLE_ROWS) if row]


def _regularity(rows: list[list[str]]) -> float:
    """Return the share of rows with the most common number of fields; 0 if that is one."""
    widths = Counter(map(len, rows))
    width, count = max(widths.items(), key=lambda item: (item[1], item[0]), default=(1, 0))
    return count / widths.total() if width > 1 else 0.0


def _separates_all(text: str, delimiter: str, min_fields: int) -> bool:
    """Return whether there are several rows, all with the same number of fields, at least `fewest`."""
    rows = _sample(text, delimiter)
    return len(rows) > 1 and _regularity(rows) == 1 and len(rows[0]) >= min_fields


def csv_parts(data: bytes) -> list[Sequence[str]]:
    """Return the rows of a CSV file as text lines with aligned columns, in one part."""
    text = decode(data).replace("\0", "")
    # The default limit of a field is 128 KB. The file's size is already limited.
    csv.field_size_limit(len(text) + 1)
    rows = align(list(csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text))))
    return [Part(rows, (), encoding_warnings(data))]
