"""Odd files and what each must answer: text, a warning by code, or a refusal by code. None is read badly in silence."""

from __future__ import annotations

import io
import re
import sys
import zlib
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import pytest
from PIL import Image

from fieldmark.documents.reading.pages import Limits
from fieldmark.documents.reading.sandbox import read_file
from fieldmark.errors import Unreadable

sys.path.append(str(Path(__file__).parents[1] / "reading"))

from made_files import archive, encoded, pdf, picture, show, stream
from made_msg import BODY, CONTENT, FILE_NAME, SENDER, SUBJECT, msg

pytestmark = pytest.mark.anyio

SAMPLES = Path(__file__).parents[3] / "docs" / "samples"
MUSTANG = (SAMPLES / "zf_mustang_20221026.pdf").read_bytes()
AZURE = (SAMPLES / "i2d_AzureInterior.pdf").read_bytes()
LINES = ["Invoice number 4711", "Total 1,250.00 EUR", "Thank you for your order"]
PAGE = "\n".join(show(line, 60, 700 - 40 * n, 20) for n, line in enumerate(LINES))


def scan(mode: str = "RGB") -> Image.Image:
    return picture(LINES).convert(mode)


def scanned_page(image: Image.Image) -> str:
    """The stream object of an image in a PDF."""
    pixels = zlib.compress(image.convert("L").tobytes())
    head = f"/Type /XObject /Subtype /Image /Width {image.width} /Height {image.height} /ColorSpace /DeviceGray"
    head += f" /BitsPerComponent 8 /Filter [/ASCIIHexDecode /FlateDecode] /Length {2 * len(pixels) + 1}"
    return f"<< {head} >>\nstream\n{pixels.hex()}>\nendstream"


def mixed() -> bytes:
    show_image = "q 500 0 0 222 40 400 cm /X 1000 0 R Do Q".replace(" 1000 0 R", "")
    return pdf([PAGE, show_image], extra=[scanned_page(scan())], resources="/XObject << /X 1000 0 R >>", catalog="")


def broken_xref(data: bytes) -> bytes:
    return re.sub(rb"startxref\s+\d+", b"startxref\n7", data)


def mail(*, nested: bool = False) -> bytes:
    head = b"From: a@example.com\r\nSubject: Invoice\r\nMIME-Version: 1.0\r\n"
    if not nested:
        return head + b"\r\nTotal 1,250.00 EUR\r\n"
    return (
        head + b'Content-Type: multipart/mixed; boundary="x"\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\n'
        b"Total 1,250.00 EUR\r\n--x\r\nContent-Type: message/rfc822\r\n\r\n" + mail() + b"\r\n--x--\r\n"
    )


def nested_mail() -> bytes:
    parts = "".join(f"Content-Type: multipart/mixed; boundary=b{depth}\n\n--b{depth}\n" for depth in range(3000))
    return f"From: a@example.com\n{parts}Content-Type: text/plain\n\nx".encode()


def mail_with(attached: dict[str, bytes]) -> bytes:
    message = EmailMessage()
    message["From"], message["Subject"] = "a@example.com", "Invoice"
    message.set_content("Total 1,250.00 EUR")
    for name, content in attached.items():
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return bytes(message)


def locked_member(data: bytes) -> bytes:
    """The archive, with the mark that its files are protected."""
    out = bytearray(data)
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for found in re.finditer(re.escape(signature), data):
            out[found.start() + at] |= 1
    return bytes(out)


def docx(body: str) -> bytes:
    word = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    types = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
    document = f"<w:document {word}><w:body>{body}</w:body></w:document>"
    return archive({"[Content_Types].xml": types.encode(), "word/document.xml": document.encode()})


def run(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def frames(kind: str, last: Image.Image, **options: object) -> bytes:
    out = io.BytesIO()
    scan().save(out, kind, save_all=True, append_images=[scan(), last], **options)
    return out.getvalue()


def specks() -> Image.Image:
    white = Image.new("L", (900, 900), 255)
    for n in range(12):
        white.putpixel((70 * n + 9, (311 * n) % 900), 0)
    return white


TOTAL, NUMBER = "1,250.00", "4711"
ANNOTATION = (
    "<< /Type /Annot /Subtype /FreeText /Rect [60 600 500 640] /Contents (Total 1,250.00) /DA (/F1 20 Tf 0 g) >>"
)
GERMAN = "Rechnung 4711\nBetrag für März: 1.250,00\n"
RUSSIAN = "Счёт 4711\nИтого к оплате: 1250,00 рублей\n"

# By name: the file, its name, and what it must answer: words that are read, `!` and the code of a warning, `+` and the
# name of a file that was inside and is handed over. `!code` alone is a refusal.
ODD: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "a PDF": (lambda: pdf([PAGE]), "a.pdf", NUMBER),
    "a PDF without an xref table": (lambda: broken_xref(pdf([PAGE])), "a.pdf", NUMBER),
    "a PDF cut in half": (lambda: AZURE[: len(AZURE) // 2], "a.pdf", "!damaged"),
    "a PDF cut behind its head": (lambda: AZURE[:40], "a.pdf", "!damaged"),
    "a PDF with broken object streams": (
        lambda: MUSTANG.replace(b"/ObjStm", b"/ObjXxx"),
        "a.pdf",
        "RE1001 !machine_readable",
    ),
    "a PDF with noise in it": (
        lambda: AZURE[:3000] + bytes(4000) + AZURE[7000:],
        "a.pdf",
        "!garbled_text !machine_readable !uncertain_text !unread_lines",
    ),
    "a PDF without pages": (lambda: pdf([]), "a.pdf", "!no_text"),
    "a PDF with a password": (
        lambda: pdf(
            [PAGE],
            trailer="/Encrypt << /Filter /Standard /V 1 /R 2 /O ("
            + "o" * 32
            + ") /U ("
            + "u" * 32
            + ") /P -4 >> /ID [(a) (a)]",
        ),
        "a.pdf",
        "!password",
    ),
    "a PDF with a page of text and one scanned": (mixed, "a.pdf", "EUR Thank order"),
    "a PDF with an empty page": (lambda: pdf([PAGE, ""]), "a.pdf", NUMBER),
    "a PDF with nothing on it": (lambda: pdf([""]), "a.pdf", "!no_text"),
    "a PDF with a line and no text": (lambda: pdf(["10 10 400 400 re S"]), "a.pdf", "!no_text"),
    "a PDF with white text": (lambda: pdf(["1 g " + PAGE]), "a.pdf", "!no_text"),
    "a PDF with an annotation alone": (
        lambda: pdf([""], page_entries="/Annots [1000 0 R]", extra=[ANNOTATION], catalog=""),
        "a.pdf",
        "!no_text",
    ),
    "a PDF that is a form of XFA": (
        lambda: pdf(
            [show("Please wait...", 60, 700)],
            extra=[stream("<xdp/>")],
            catalog="/AcroForm << /Fields [] /XFA 1000 0 R >> /NeedsRendering true",
        ),
        "a.pdf",
        "wait !form_not_read",
    ),
    "a portfolio of PDFs": (
        lambda: pdf(
            [show("Open it in a viewer", 60, 700)],
            extra=["<< /Type /Filespec /F (a.pdf) /UF (a.pdf) /EF << /F 1001 0 R >> >>", stream("%PDF-1.4")],
            catalog="/Collection << >> /Names << /EmbeddedFiles << /Names [(a.pdf) 1000 0 R] >> >>",
        ),
        "a.pdf",
        "viewer !attachments_not_read",
    ),
    "a PDF of a huge page": (lambda: pdf([PAGE], media_box="[0 0 14400 14400]"), "a.pdf", "!over_limit"),
    "an image named as a PDF": (lambda: encoded(scan(), "PNG"), "a.pdf", NUMBER),
    "a scan": (lambda: encoded(scan(), "PNG"), "a.png", NUMBER),
    "an image of one pixel": (
        lambda: encoded(Image.new("RGB", (1, 1), "white"), "PNG"),
        "a.png",
        "!no_text",
    ),
    "a tiny image": (
        lambda: encoded(scan().resize((45, 20)), "PNG"),
        "a.png",
        "!no_text",
    ),
    "a white page with specks": (lambda: encoded(specks(), "PNG"), "a.png", "!no_text"),
    "a CMYK JPEG": (lambda: encoded(scan(mode="CMYK"), "JPEG"), "a.jpg", NUMBER),
    "an animated GIF": (
        lambda: frames("GIF", Image.new("RGB", (900, 400), "white"), duration=100),
        "a.gif",
        "4711 !frames_not_read",
    ),
    "a BMP of one bit": (lambda: encoded(scan(mode="1"), "BMP"), "a.bmp", NUMBER),
    "a PNG that is cut off": (lambda: encoded(scan(), "PNG")[:600], "a.png", "!damaged"),
    "an empty file": (lambda: b"", "a.pdf", "!no_text"),
    "a file of zeros": (lambda: bytes(2000), "a.txt", "!unsupported"),
    "noise": (lambda: bytes((n * 7919 >> 3) % 256 for n in range(4000)), "a.txt", "!unsupported"),
    "text in UTF-16": (lambda: GERMAN.encode("utf-16"), "a.txt", "für März:"),
    "text in Latin-1": (lambda: GERMAN.encode("latin-1"), "a.txt", "für März:"),
    "text in Shift-JIS": (
        lambda: ("請求書 4711\n合計 1250円 お支払期限\n" * 9).encode("shift-jis"),
        "a.txt",
        "!unsupported",
    ),
    "text in KOI8-R": (lambda: (RUSSIAN * 9).encode("koi8-r"), "a.txt", "!uncertain_encoding"),
    "text in Windows-1251": (
        lambda: (RUSSIAN * 9).encode("cp1251"),
        "a.txt",
        "!uncertain_encoding",
    ),
    "text of too many pages": (lambda: b"word," * 30_000, "a.csv", "!over_limit"),
    "text in a file of another name": (lambda: b"hello", "a.pdf", "!damaged"),
    "a text of spaces": (lambda: b" \n", "a.txt", "!no_text"),
    "a Word document": (lambda: docx(run("Total 4711")), "a.docx", "Total 4711"),
    "Word cut off": (lambda: docx(run("4711"))[:-100], "a.docx", "!damaged"),
    "a workbook without sheets": (lambda: archive({"xl/workbook.xml": b"<workbook/>"}), "a.xlsx", "!damaged"),
    "Word without text": (lambda: docx(""), "a.docx", "!no_text"),
    "HTML with a script": (
        lambda: b"<html><body><p>Total 1250</p><script>document.write('4711')</script></body></html>",
        "a.html",
        "Total 1250",
    ),
    "HTML in an encoding of its own": (
        lambda: f'<meta charset="cp1257"><p>{GERMAN}</p>'.encode("cp1257"),
        "a.html",
        "für März:",
    ),
    "HTML with hidden text": (
        lambda: b'<html><body><p>Total 1250</p><p style="display:none">secret</p></body></html>',
        "a.html",
        "1250 !hidden_text",
    ),
    "HTML of a script alone": (
        lambda: b"<html><body><script>document.write('4711')</script></body></html>",
        "a.html",
        "!no_text",
    ),
    "a mail": (mail, "a.eml", "1,250.00"),
    "a mail in an unknown encoding": (
        lambda: b"From: a@example.com\nSubject: x\nContent-Type: text/plain; charset=klingon\n\n" + GERMAN.encode(),
        "a.eml",
        "für März:",
    ),
    "a mail nested too deeply": (nested_mail, "a.eml", "!over_limit"),
    "a mail with two files": (
        lambda: mail_with({"a.pdf": pdf([PAGE]), "b.csv": b"a;b"}),
        "a.eml",
        "1,250.00 a.pdf b.csv +a.pdf +b.csv",
    ),
    "a mail with an archive": (lambda: mail_with({"a.zip": archive({"b.txt": b"b"})}), "a.eml", "1,250.00 +a.zip"),
    "a mail with an empty file": (lambda: mail_with({"a.pdf": b""}), "a.eml", "1,250.00 !enclosed_damaged"),
    "a mail in a mail": (lambda: mail(nested=True), "a.eml", "1,250.00 +Invoice.eml"),
    "an Outlook mail with a PDF": (
        lambda: msg(
            {SENDER: "a@example.com", SUBJECT: "Invoice", BODY: "Total 1,250.00"},
            [{FILE_NAME: "a.pdf", CONTENT: b"%PDF"}],
        ),
        "a.msg",
        "1,250.00 a.pdf +a.pdf",
    ),
    "an Outlook mail with an empty file": (
        lambda: msg({SENDER: "a@example.com", BODY: "Total 1,250.00"}, [{FILE_NAME: "b"}]),
        "a.msg",
        "1,250.00 !enclosed_damaged",
    ),
    "an Outlook mail cut off": (lambda: msg({SENDER: "a", BODY: "Total" * 2000})[:-400], "a.msg", "!damaged"),
    "an Outlook file without a mail": (lambda: msg({}), "a.msg", "!unsupported"),
    "a ZIP of two": (
        lambda: archive({"a.pdf": pdf([PAGE]), "2024/b.txt": b"Total"}),
        "a.zip",
        "a.pdf 2024/b.txt +a.pdf +b.txt",
    ),
    "a ZIP in a ZIP": (lambda: archive({"b.zip": archive({"c.txt": b"Total"})}), "a.zip", "b.zip +b.zip"),
    "a ZIP with a password": (lambda: locked_member(archive({"a.txt": b"a"})), "a.zip", "!password"),
    "a ZIP that is cut off": (lambda: archive({"a.txt": b"Total" * 99})[:-30], "a.zip", "!damaged"),
    "a ZIP of a folder": (lambda: archive({"folder/": b""}), "a.zip", "!no_text"),
    "an empty ZIP": (lambda: archive({}), "a.zip", "!no_text"),
    "a presentation": (lambda: archive({"ppt/presentation.xml": b"<p/>"}), "a.pptx", "!unsupported"),
    "a Rich Text document": (lambda: b"{\\rtf1\\ansi Total 1250}", "a.rtf", "!unsupported"),
    "a photograph of a telephone": (lambda: b"\0\0\0\x18ftypheic" + bytes(600), "a.heic", "!unsupported"),
    "an old Office file": (lambda: bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), "a.doc", "!unsupported"),
}


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_file_is_read_told_or_refused(name: str, tmp_path: Path) -> None:
    make, filename, wanted = ODD[name]
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
        assert text.split() or reading.warnings, "read to nothing, and nothing is told"
        assert "secret" not in text
    assert got == set(wanted.split())
