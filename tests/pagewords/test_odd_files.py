"""Odd files: each gives text, a warning or a refusal, by code. None loses text silently."""

from __future__ import annotations

import re
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import pytest
from PIL import Image

from generated_files import encode, make_pdf, make_zip, sign, stream, text_at, text_image
from pagewords.errors import Unreadable
from pagewords.pages import Limits
from pagewords.sandbox import read_file

pytestmark = pytest.mark.anyio

SAMPLES = Path(__file__).parents[2] / "docs" / "samples"
MUSTANG = (SAMPLES / "zf_mustang_20221026.pdf").read_bytes()
MSG_FILE = (Path(__file__).parent / "mail.msg").read_bytes()
AZURE = (SAMPLES / "i2d_AzureInterior.pdf").read_bytes()
LINES = ["Invoice number 4711", "Total 1,250.00 EUR", "Thank you for your order"]
PAGE = "\n".join(text_at(line, 60, 700 - 40 * n, 20) for n, line in enumerate(LINES))


def make_scan(mode: str = "RGB") -> Image.Image:
    return text_image(LINES).convert(mode)


def make_nested_mail() -> bytes:
    parts = "".join(f"Content-Type: multipart/mixed; boundary=b{depth}\n\n--b{depth}\n" for depth in range(3000))
    return f"From: a@example.com\n{parts}Content-Type: text/plain\n\nx".encode()


def make_mail_with(attached: dict[str, bytes]) -> bytes:
    message = EmailMessage()
    message["From"], message["Subject"] = "a@example.com", "Invoice"
    message.set_content("Total 1,250.00 EUR")
    for name, content in attached.items():
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return bytes(message)


def mark_as_protected(data: bytes) -> bytes:
    out = bytearray(data)
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for found in re.finditer(re.escape(signature), data):
            out[found.start() + at] |= 1
    return bytes(out)


def make_docx(body: str) -> bytes:
    word = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    types = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
    document = f"<w:document {word}><w:body>{body}</w:body></w:document>"
    return make_zip({"[Content_Types].xml": types.encode(), "word/document.xml": document.encode()})


def docx_run(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


TOTAL, NUMBER = "1,250.00", "4711"
GERMAN = "Rechnung 4711\nBetrag für März: 1.250,00\n"
RUSSIAN = "Счёт 4711\nИтого к оплате: 1250,00 рублей\n"

# By name: the file, its name, and what it must answer: words that are read, `!` and the code of a warning, `+` and the
# name of a file that was inside and is handed over. `!code` alone is a refusal.
ODD_FILES: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "a PDF cut in half": (lambda: AZURE[: len(AZURE) // 2], "a.pdf", "!damaged"),
    "a PDF with broken object streams": (
        lambda: MUSTANG.replace(b"/ObjStm", b"/ObjXxx"),
        "a.pdf",
        "RE1001 !machine_readable",
    ),
    "a PDF without pages": (lambda: make_pdf([]), "a.pdf", "!no_text"),
    "a PDF that is a form of XFA": (
        lambda: make_pdf(
            [text_at("Please wait...", 60, 700)],
            extra=[stream("<xdp/>")],
            catalog="/AcroForm << /Fields [] /XFA 1000 0 R >> /NeedsRendering true",
        ),
        "a.pdf",
        "wait !form_not_read",
    ),
    "a PDF of a huge page": (lambda: make_pdf([PAGE], media_box="[0 0 14400 14400]"), "a.pdf", "!over_limit"),
    "a BMP of one bit": (lambda: encode(make_scan(mode="1"), "BMP"), "a.bmp", NUMBER),
    "an empty file": (lambda: b"", "a.pdf", "!no_text"),
    "a file of zeros": (lambda: bytes(2000), "a.txt", "!unsupported"),
    "noise": (lambda: bytes((n * 7919 >> 3) % 256 for n in range(4000)), "a.txt", "!unsupported"),
    "text in Shift-JIS": (
        lambda: ("請求書 4711\n合計 1250円 お支払期限\n" * 9).encode("shift-jis"),
        "a.txt",
        "請求書 1250円",
    ),
    "text in KOI8-R": (lambda: (RUSSIAN * 9).encode("koi8-r"), "a.txt", "Счёт оплате: рублей"),
    "a signed file": (lambda: sign(make_pdf([PAGE])), "a.pdf.p7m", "4711 1,250.00"),
    "a signed text in a mail": (lambda: make_mail_with({"a.txt.p7m": sign(b"4711")}), "a.eml", "1,250.00 +a.txt.p7m"),
    "Word cut off": (lambda: make_docx(docx_run("4711"))[:-100], "a.docx", "!damaged"),
    "text named as Word": (lambda: b"<html>login</html>", "a.docx", "!wrong_type"),
    "a workbook without sheets": (lambda: make_zip({"xl/workbook.xml": b"<workbook/>"}), "a.xlsx", "!damaged"),
    "a mail nested too deeply": (make_nested_mail, "a.eml", "!over_limit"),
    "an Outlook mail with two files, one of them empty": (
        lambda: MSG_FILE,
        "a.msg",
        "Total: RE-1.pdf !texts_differ !enclosed_damaged !pictures_not_read +RE-1.pdf",
    ),
    "an Outlook mail cut off": (lambda: MSG_FILE[:-400], "a.msg", "!damaged"),
    "a ZIP in a ZIP": (lambda: make_zip({"b.zip": make_zip({"c.txt": b"Total"})}), "a.zip", "b.zip +b.zip"),
    "a ZIP with a password": (lambda: mark_as_protected(make_zip({"a.txt": b"a"})), "a.zip", "!password"),
    "a ZIP that is cut off": (lambda: make_zip({"a.txt": b"Total" * 99})[:-30], "a.zip", "!damaged"),
    "a presentation": (lambda: make_zip({"ppt/presentation.xml": b"<p/>"}), "a.pptx", "!unsupported"),
    "a Rich Text document": (lambda: b"{\\rtf1\\ansi Total 1250}", "a.rtf", "!unsupported"),
    "a photograph of a telephone": (lambda: b"\0\0\0\x18ftypheic" + bytes(600), "a.heic", "!unsupported"),
    "an old Office file": (lambda: bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), "a.doc", "!unsupported"),
}


@pytest.mark.parametrize("name", ODD_FILES)
async def test_odd_file_gives_the_expected_text_warnings_or_refusal(name: str, tmp_path: Path) -> None:
    make, filename, wanted = ODD_FILES[name]
    path, inside = tmp_path / "file", tmp_path / "inside"
    path.write_bytes(make())
    inside.mkdir()
    try:
        reading = await read_file(path, filename, Limits(max_pages=20, seconds=300), unpack_to=inside)
    except Unreadable as error:
        got = {f"!{error.code}"}
    else:
        assert all(page.text.split() == [word.text for word in page.words] for page in reading.pages)
        text = " ".join(page.text for page in reading.pages)
        got = {word for word in wanted.split() if word[0] not in "!+" and word in text}
        got |= {f"!{warning.code}" for warning in reading.warnings} | {f"+{file.name}" for file in reading.enclosed}
        assert text.split() or reading.warnings, "read to nothing, and nothing is reported"
        assert "secret" not in text
    assert got == set(wanted.split())
