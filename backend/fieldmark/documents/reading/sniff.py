"""What a file is, by its content; its name only decides between kinds of text."""

from __future__ import annotations

import codecs
import re
from pathlib import PurePath

from fieldmark.errors import Unreadable

PDF = "application/pdf"
PNG, JPEG, TIFF, WEBP = "image/png", "image/jpeg", "image/tiff", "image/webp"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
HTML, EML, CSV, TXT = "text/html", "message/rfc822", "text/csv", "text/plain"
IMAGES = frozenset({PNG, JPEG, TIFF, WEBP})
MEDIA_TYPES = frozenset({PDF, DOCX, XLSX, HTML, EML, CSV, TXT}) | IMAGES

_READABLE = "PDF, PNG, JPEG, TIFF, WebP, DOCX, XLSX, HTML, EML, TXT and CSV can be read"
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"\xff\xd8\xff", JPEG),
    (b"II*\x00", TIFF),
    (b"MM\x00*", TIFF),
    (b"II+\x00", TIFF),
    (b"MM\x00+", TIFF),
)
_UNREADABLE = (
    (b"GIF8", "a GIF image"),
    (b"BM", "a Windows bitmap"),
    (b"{\\rtf", "a Rich Text document"),
    (b"%!PS", "a PostScript file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
)
_BINARY_NAMES = frozenset({".pdf", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".docx", ".xlsx"})
_SAMPLE = 65_536
_CONTROL = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_HTML = re.compile(r"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,4000}?-->\s*)*<(?:!doctype\s+html|html[\s>])", re.I | re.S)
_TAG = re.compile(r"<(?:html|head|body|table|div|p|h[1-6]|span|br)[\s/>]", re.I)
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]{1,40}):")
_MAIL_HEADERS = frozenset(
    """received return-path delivered-to from to cc date subject message-id mime-version content-type
    reply-to""".split()  # noqa: SIM905
)
_UTF16_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")


def media_type(data: bytes, filename: str) -> str:
    """The media type, one of MEDIA_TYPES. Raises Unreadable, with what the file is instead where that can be told."""
    if not data:
        raise Unreadable("The file is empty.")
    if b"%PDF-" in data[:1024]:
        return PDF
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return WEBP
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _archive(data)
    if data.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        if _UTF16_ENCRYPTED in data:
            raise Unreadable("The Office document is protected with a password.")
        raise Unreadable("The file has the format of Office before 2007; save it as DOCX or XLSX.")
    if data[4:12] in (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypavif"):
        raise Unreadable(f"The file is a HEIC or AVIF image; {_READABLE}.")
    suffix = PurePath(filename).suffix.lower()
    text = _text(data)
    if text is None:
        for signature, name in _UNREADABLE:
            if data.startswith(signature):
                raise Unreadable(f"The file is {name}; {_READABLE}.")
        raise Unreadable(f"The file's format is unknown; {_READABLE}.")
    if text.startswith("{\\rtf"):
        raise Unreadable(f"The file is a Rich Text document; {_READABLE}.")
    if not text.strip():
        raise Unreadable("The file has no content but white space.")
    if suffix in _BINARY_NAMES:
        raise Unreadable(f"The file is named {suffix} but holds plain text.")
    return _kind_of_text(text, suffix)


def _archive(data: bytes) -> str:
    # Names stand uncompressed in the archive; that the parts are what they say is for the reader to find out.
    if b"word/document" in data:
        return DOCX
    if b"xl/workbook" in data:
        return XLSX
    raise Unreadable(f"The file is a ZIP archive; {_READABLE}.")


def _text(data: bytes) -> str | None:
    """The beginning as text; None if it is no text."""
    sample = data[:_SAMPLE]
    for mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return codecs.getincrementaldecoder(encoding)("replace").decode(sample[len(mark) :])
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        text = sample.decode("cp1252", "replace")
        if text.count("\ufffd") > len(text) // 100:
            return None
    # A stray control happens in texts; where one character in a hundred is one, it is no text.
    return None if len(_CONTROL.findall(text)) > max(2, len(text) // 100) else text


# UTF-32's begins with UTF-16's, so it comes first.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def _kind_of_text(text: str, suffix: str) -> str:
    if _HTML.match(text) or (suffix in (".html", ".htm", ".xhtml") and _TAG.search(text)):
        return HTML
    headers = _mail_headers(text)
    if (suffix == ".eml" and headers) or (len(headers) >= 3 and "from" in headers):
        return EML
    return CSV if suffix in (".csv", ".tsv") else TXT


def _mail_headers(text: str) -> set[str]:
    """The well-known names among the header lines that the text begins with."""
    found: set[str] = set()
    for line in text.splitlines()[:200]:
        if line[:1] in (" ", "\t") and found:
            continue
        match = _HEADER.match(line)
        if not match:
            break
        found.add(match[1].lower())
    return found & _MAIL_HEADERS
