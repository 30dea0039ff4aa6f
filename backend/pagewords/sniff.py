"""Detect a file's media type by its content; its name only decides between kinds of text."""

from __future__ import annotations

import codecs
import io
import lzma
import re
import struct
import zipfile
import zlib
from pathlib import Path, PurePath

from pagewords.encoding import detect_code_page, unicode_encoding
from pagewords.errors import NoText, PasswordProtected, Unreadable, Unsupported, WrongType
from pagewords.open_xml import CONTENT_TYPES, content_type, main_part

PDF = "application/pdf"
PNG, JPEG, TIFF, WEBP = "image/png", "image/jpeg", "image/tiff", "image/webp"
BMP, GIF = "image/bmp", "image/gif"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
ODT, ODS, ODP = (f"application/vnd.oasis.opendocument.{kind}" for kind in ("text", "spreadsheet", "presentation"))
OPENDOCUMENTS = frozenset({ODT, ODS, ODP})
HTML, EML, CSV, TXT = "text/html", "message/rfc822", "text/csv", "text/plain"
EINVOICE = "application/xml"
ZIP = "application/zip"
MSG = "application/vnd.ms-outlook"
CONTAINERS = frozenset({EML, MSG, ZIP})
IMAGES = frozenset({PNG, JPEG, TIFF, WEBP, BMP, GIF})
MEDIA_TYPES = frozenset({PDF, DOCX, XLSX, HTML, CSV, TXT, EINVOICE}) | IMAGES | CONTAINERS | OPENDOCUMENTS

SUFFIXES = frozenset(
    {
        ".pdf",
        ".png",
        ".jpg",
        ".jpeg",
        ".tif",
        ".tiff",
        ".webp",
        ".bmp",
        ".gif",
        ".docx",
        ".xlsx",
        ".odt",
        ".ods",
        ".odp",
    }
    | {".html", ".htm", ".eml", ".msg", ".mbox", ".p7m", ".csv", ".txt", ".xml", ".zip"}
)
"""The endings of names that files of these types usually have."""

_READABLE = (
    "PDF, PNG, JPEG, TIFF, WebP, BMP, GIF, DOCX, XLSX, ODT, ODS, ODP, HTML, EML, MSG, ZIP, TXT, CSV and invoices as "
    "XML (UBL, CII, FatturaPA) can be read"
)
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"\xff\xd8\xff", JPEG),
    (b"II*\x00", TIFF),
    (b"MM\x00*", TIFF),
    (b"II+\x00", TIFF),
    (b"MM\x00+", TIFF),
    (b"GIF87a", GIF),
    (b"GIF89a", GIF),
)
# Names in an archive's directory, and the rest of the message that refuses such a file.
_ARCHIVES = (
    (b"Index/Document.iwa", "an Apple iWork document (Pages, Numbers or Keynote); save it as PDF and upload that"),
    (b"Index.zip", "an Apple iWork document (Pages, Numbers or Keynote); save it as PDF and upload that"),
    (b"index.apxl", "an Apple Keynote presentation; save it as PDF and upload that"),
    (b"META-INF/container.xml", "an e-book (EPUB); save it as PDF and upload that"),
    (b"xl/workbook.bin", "a binary Excel workbook (XLSB); save it as XLSX and upload that"),
    (b"ppt/presentation", "a PowerPoint presentation (PPTX); save it as PDF and upload that"),
    (
        b"META-INF/manifest.xml",
        "an unsupported kind of OpenDocument file; save it as DOCX, XLSX or PDF and upload that",
    ),
)
# Names in the directory of a compound file of Microsoft, and the rest of the message that refuses such a file.
_OLD_OFFICE_STREAMS = (
    ("WordDocument", "a Word document of the format before 2007 (DOC); save it as DOCX or PDF and upload that"),
    ("Workbook", "an Excel workbook of the format before 2007 (XLS); save it as XLSX and upload that"),
    ("Book", "an Excel workbook of the format before 1997 (XLS); save it as XLSX and upload that"),
    (
        "PowerPoint Document",
        "a PowerPoint file of the format before 2007 (PPT); save it as PDF and upload that",
    ),
    ("VisioDocument", "a Visio drawing; save it as PDF and upload that"),
    ("CONTENTS", "a Microsoft Works or Publisher document; save it as PDF and upload that"),
    ("PerfectOffice_MAIN", "a WordPerfect or Quattro Pro document; save it as PDF and upload that"),
)
# The first bytes of other files that cannot be read, and the rest of the message that refuses them.
_UNREADABLE_SIGNATURES = (
    (b"\xffWPC", "a WordPerfect document; save it as DOCX or PDF and upload that"),
    (b"\x09\x08\x08\0", "an Excel workbook of the format before 1997 (XLS); save it as XLSX and upload that"),
    (b"\x09\x04\x06\0", "an Excel workbook of the format before 1997 (XLS); save it as XLSX and upload that"),
    (b"\x09\x02\x06\0", "an Excel workbook of the format before 1997 (XLS); save it as XLSX and upload that"),
    (b"\x31\xbe\0\0", "a Microsoft Write document; save it as DOCX or PDF and upload that"),
    (b"\xdb\xa5\x2d\0", "a Word document of the format before 1997 (DOC); save it as DOCX or PDF and upload that"),
    (b"Rar!\x1a\x07", "a RAR archive; unpack it, and upload its files"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it, and upload its files"),
    (b"\x1f\x8b", "a gzip archive; unpack it, and upload its files"),
    (b"!BDN", "an Outlook data file (PST); save the emails as MSG or EML and upload those"),
    (b"%!PS", "a PostScript file; save it as PDF and upload that"),
    (b"AT&TFORM", "a DjVu document; save it as PDF and upload that"),
    (b"\x78\x9f\x3e\x22", "a TNEF attachment (winmail.dat); save the email as MSG and upload that"),
)
_BINARY_NAMES = frozenset(
    {".pdf", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp", ".gif", ".docx", ".xlsx", ".pptx", ".odt"}
    | {".zip", ".msg", ".heic"}
)
_OFFICE_NAMES = frozenset({".docx", ".xlsx", ".odt", ".ods", ".odp"})
_PHONE_IMAGES = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1", b"avif", b"avis"})
_BITMAP_HEADERS = frozenset(bytes([size, 0, 0, 0]) for size in (12, 16, 40, 52, 56, 64, 108, 124))
# What a damaged archive, or damaged XML in it, raises. The last is also for encryption and unknown compression.
_DAMAGED_ARCHIVE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, LookupError, ValueError, SyntaxError, EOFError,
    OSError, RuntimeError,
)  # fmt: skip
_SAMPLE = 65_536
_MAX_DECLARATION = 1_000_000  # bytes of the parts that name the main part
_CONTROL = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_HTML = re.compile(
    r"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--(?:(?!-->).){0,4000}+-->\s*+)*+<(?:!doctype\s+html|html[\s>])", re.I | re.S
)
_EINVOICE = re.compile(
    rb"<(?:[\w.-]{1,40}:)?(?:CrossIndustry(?:Invoice|Document)|Invoice|CreditNote|FatturaElettronica)\s"
    rb"[^>]{0,4000}"
    rb"(?:urn:un:unece:uncefact:data:standard|urn:ferd:CrossIndustryDocument|urn:oasis:names:specification:ubl:schema|"
    rb"http://ivaservizi\.agenziaentrate\.gov\.it/docs/xsd/fatture|http://www\.fatturapa\.gov\.it/sdi/fatturapa)"
)
_TAG = re.compile(r"<(?:html|head|body|table|div|p|h[1-6]|span|br)[\s/>]", re.I)
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]{1,40}):")
_MAIL_HEADERS = frozenset(
    """received return-path delivered-to from to cc date subject message-id mime-version content-type
    reply-to""".split()  # noqa: SIM905
)


def media_type(data: bytes, filename: str) -> str:
    """Return the media type, one of MEDIA_TYPES. Raise Unreadable for others, naming the detected type if possible."""
    if not data:
        raise NoText("The file is empty.")
    if data.startswith(b"%PDF-"):
        return PDF
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return WEBP
    # A bitmap's signature, then the length of the rest of its header.
    if data.startswith(b"BM") and data[14:18] in _BITMAP_HEADERS:
        return BMP
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _archive_media_type(data)
    if data.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        if "__substg1.0_".encode("utf-16-le") in data:
            return MSG
        raise _error_of_old_office_file(data)
    for signature, name in _UNREADABLE_SIGNATURES:
        if data.startswith(signature):
            raise Unsupported(f"The file is {name}.")
    if data[4:8] == b"ftyp" and data[8:12] in _PHONE_IMAGES:
        raise Unsupported("The file is a HEIC or AVIF image; save it as JPEG and upload that.")
    suffix = PurePath(filename).suffix.lower()
    # Before PDF: an email may contain an unencoded PDF near its start.
    headers = _mail_headers(data[:_SAMPLE].decode("latin-1"))
    if "from" in headers and _is_mail(headers, suffix):
        return EML
    # Some programs write a few lines before the PDF. A text that only mentions PDF has no objects.
    if b"%PDF-" in data[:1024] and b" obj" in data:
        return PDF
    text = _decode_sample(data)
    if text is None:
        raise Unsupported(f"The file's format is unknown; {_READABLE}.")
    if text.startswith("{\\rtf"):
        raise Unsupported("The file is a Rich Text document (RTF); save it as DOCX or PDF and upload that.")
    if not text.strip():
        raise NoText("The file has no content but white space.")
    if suffix in _BINARY_NAMES:
        raise WrongType(f"The file is named {suffix} but holds plain text.")
    return EINVOICE if is_einvoice(data) else _text_media_type(text, suffix)


def is_einvoice(data: bytes) -> bool:
    """Return whether these bytes start like an electronic invoice."""
    return _EINVOICE.search(data[:20_000]) is not None


def may_be_archive(file: Path, filename: str) -> bool:
    """Return whether a file may turn out to be an archive of files when it is read."""
    with file.open("rb") as opened:
        return opened.read(2) == b"PK" and PurePath(filename).suffix.lower() not in _OFFICE_NAMES


def _archive_media_type(data: bytes) -> str:
    if kind := _declared_office_type(data):
        return kind
    # The directory is not compressed. The reader checks the content of the parts.
    names = _directory(data)
    if b"word/document" in names:
        return DOCX
    if b"xl/workbook" in names and b"xl/workbook.bin" not in names:
        return XLSX
    if b"content.xml" in names:
        declared = _declared_media_type(data)
        for kind in (ODT, ODS, ODP):
            if declared.startswith(kind):
                return kind
    for part, name in _ARCHIVES:
        if part in names:
            raise Unsupported(f"The file is {name}.")
    return ZIP


def _declared_office_type(data: bytes) -> str | None:
    """Return the media type of the main part that an Office file of Microsoft declares, whatever the part's name is."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if any(archive.getinfo(name).file_size > _MAX_DECLARATION for name in ("_rels/.rels", CONTENT_TYPES)):
                return None
            main = main_part(archive)
            declared = content_type(archive, main).lower() if main else ""
    except _DAMAGED_ARCHIVE:
        return None
    if "binary" in declared:
        return None
    return DOCX if "word" in declared else XLSX if "spreadsheet" in declared or "excel" in declared else None


def _declared_media_type(data: bytes) -> str:
    """Return the media type that an OpenDocument declares, in any place of the archive; empty if it cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open("mimetype") as file:
            return file.read(120).decode("latin-1").strip()
    except _DAMAGED_ARCHIVE:
        return ""


def _directory(data: bytes) -> bytes:
    """Return the archive's directory, or everything if it has none. Other bytes may belong to an archive inside the
    archive."""
    end = data.rfind(b"PK\x05\x06")
    if end < 0 or len(data) < end + 20:
        return data
    size, start = struct.unpack_from("<II", data, end + 12)
    return data[start : start + size] if start + size <= len(data) else data


def _error_of_old_office_file(data: bytes) -> Unreadable:
    if "EncryptedPackage".encode("utf-16-le") in data:
        return PasswordProtected(
            "The Office document is protected with a password: enter it when uploading, or save the file without one."
        )
    for stream, name in _OLD_OFFICE_STREAMS:
        if stream.encode("utf-16-le") in data:
            return Unsupported(f"The file is {name}.")
    return Unsupported("The file is a compound file of an unknown program; save it as PDF and upload that.")


def _decode_sample(data: bytes) -> str | None:
    sample = data[:_SAMPLE]
    mark, encoding = unicode_encoding(data)
    if encoding:
        return codecs.getincrementaldecoder(encoding)("replace").decode(sample[len(mark) :])
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        text = sample.decode(detect_code_page(sample).encoding, "replace")
    # Texts may contain a stray control character; a file with one in a hundred characters is not a text.
    return None if len(_CONTROL.findall(text)) > max(2, len(text) // 100) else text


def _text_media_type(text: str, suffix: str) -> str:
    if _HTML.match(text) or (suffix in (".html", ".htm", ".xhtml") and _TAG.search(text)):
        return HTML
    headers = _mail_headers(text)
    if _is_mail(headers, suffix):
        return EML
    return CSV if suffix in (".csv", ".tsv") else TXT


def _is_mail(headers: set[str], suffix: str) -> bool:
    """Return whether these headers start an email, an email without a sender, or a web page saved as one."""
    is_sent = "from" in headers and len(headers) >= 3
    return is_sent or {"mime-version", "content-type"} <= headers or (suffix == ".eml" and bool(headers))


def _mail_headers(text: str) -> set[str]:
    found: set[str] = set()
    lines = text.splitlines()[:200]
    for line in lines[1:] if text.startswith("From ") else lines:  # a mailbox has a line before each email
        if line[:1] in (" ", "\t") and found:
            continue
        match = _HEADER.match(line)
        if not match:
            break
        found.add(match[1].lower())
    return found & _MAIL_HEADERS
