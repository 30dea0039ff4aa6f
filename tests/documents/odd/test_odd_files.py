"""Odd files and what each must answer: text, a warning by code, or a refusal by code. None is read badly in silence."""

from __future__ import annotations

import io
import re
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest
from PIL import Image

from fieldmark.documents.reading.pages import Limits
from fieldmark.documents.reading.sandbox import read_file
from fieldmark.errors import Unreadable

sys.path.append(str(Path(__file__).parents[1] / "reading"))

from made_files import archive, encoded, pdf, picture, show, stream

pytestmark = pytest.mark.anyio

SAMPLES = Path(__file__).parents[3] / "docs" / "samples"
MUSTANG = (SAMPLES / "zf_mustang_20221026.pdf").read_bytes()
AZURE = (SAMPLES / "i2d_AzureInterior.pdf").read_bytes()
LINES = ["Invoice number 4711", "Total 1,250.00 EUR", "Thank you for your order"]
PAGE = "\n".join(show(line, 60, 700 - 40 * n, 20) for n, line in enumerate(LINES))


def scan(turned: int = 0, size: tuple[int, int] = (900, 400), mode: str = "RGB") -> Image.Image:
    return picture(LINES, size).convert(mode).rotate(turned, expand=True, fillcolor="white")


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


def mail(*, attached: bytes = b"", nested: bool = False) -> bytes:
    head = b"From: a@example.com\r\nSubject: Invoice 4711\r\nMIME-Version: 1.0\r\n"
    if not attached and not nested:
        return head + b"\r\nTotal 1,250.00 EUR\r\n"
    part = (
        b"Content-Type: message/rfc822\r\n\r\n" + mail()
        if nested
        else (
            b'Content-Type: application/pdf; name="a.pdf"\r\nContent-Disposition: attachment; filename="a.pdf"\r\n'
            b"Content-Transfer-Encoding: 8bit\r\n\r\n" + attached
        )
    )
    return (
        head + b'Content-Type: multipart/mixed; boundary="x"\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\n'
        b"Total 1,250.00 EUR\r\n--x\r\n" + part + b"\r\n--x--\r\n"
    )


def workbook(value: object) -> bytes:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active["A1"], book.active["B1"] = "Total", value
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


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


def sixteen_bit() -> bytes:
    grey = scan(mode="L")
    return encoded(Image.frombytes("I;16", grey.size, b"".join(bytes((0, value)) for value in grey.tobytes())), "TIFF")


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

# By name: the file, its name, and what it must answer: words that are read, or `!` and codes.
# `!code` alone is a refusal; with words, a warning. `|` parts what may be either.
ODD: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "a PDF": (lambda: pdf([PAGE]), "a.pdf", NUMBER),
    "a PDF without an xref table": (lambda: broken_xref(pdf([PAGE])), "a.pdf", NUMBER),
    "a PDF cut in half": (lambda: AZURE[: len(AZURE) // 2], "a.pdf", "!damaged"),
    "a PDF cut behind its head": (lambda: AZURE[:40], "a.pdf", "!damaged"),
    "a PDF with broken object streams": (
        lambda: MUSTANG.replace(b"/ObjStm", b"/ObjXxx"),
        "a.pdf",
        "RE1001 !machine_readable|!damaged",
    ),
    "a PDF with noise in it": (
        lambda: AZURE[:3000] + bytes(4000) + AZURE[7000:],
        "a.pdf",
        "INV !hidden_text !machine_readable|!damaged",
    ),
    "a PDF without pages": (lambda: pdf([]), "a.pdf", "!damaged|!no_text"),
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
    "a PDF turned by 90": (lambda: pdf([PAGE], page_entries="/Rotate 90"), "a.pdf", NUMBER),
    "a PDF turned by 180": (lambda: pdf([PAGE], page_entries="/Rotate 180"), "a.pdf", NUMBER),
    "a PDF turned by 270": (lambda: pdf([PAGE], page_entries="/Rotate 270"), "a.pdf", NUMBER),
    "a PDF with a page of text and one scanned": (mixed, "a.pdf", "EUR Thank order"),
    "a PDF with an empty page": (lambda: pdf([PAGE, ""]), "a.pdf", NUMBER),
    "a PDF with nothing on it": (lambda: pdf([""]), "a.pdf", "!no_text"),
    "a PDF with a line and no text": (lambda: pdf(["10 10 400 400 re S"]), "a.pdf", "!no_text"),
    "a PDF with white text": (lambda: pdf(["1 g " + PAGE]), "a.pdf", "!no_text"),
    "a PDF with some white text": (
        lambda: pdf([PAGE + " 1 g " + show("secret", 60, 300)]),
        "a.pdf",
        "4711 !hidden_text",
    ),
    "a PDF with invisible text": (lambda: pdf(["3 Tr " + PAGE.replace("BT", "BT 3 Tr")]), "a.pdf", "!no_text"),
    "a PDF whose text is off the page": (lambda: pdf([show("Total", 900, 900)]), "a.pdf", "!no_text"),
    "a PDF with an annotation alone": (
        lambda: pdf([""], page_entries="/Annots [1000 0 R]", extra=[ANNOTATION], catalog=""),
        "a.pdf",
        "1,250.00|!no_text",
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
    "a PDF of a huge page": (lambda: pdf([PAGE], media_box="[0 0 14400 14400]"), "a.pdf", "4711|!over_limit"),
    "a PDF named as an image": (lambda: pdf([PAGE]), "a.jpg", NUMBER),
    "an image named as a PDF": (lambda: encoded(scan(), "PNG"), "a.pdf", NUMBER),
    "a scan": (lambda: encoded(scan(), "PNG"), "a.png", NUMBER),
    "a scan turned by 90": (lambda: encoded(scan(90), "PNG"), "a.png", NUMBER),
    "a scan turned by 180": (lambda: encoded(scan(180), "PNG"), "a.png", NUMBER),
    "an image of one pixel": (
        lambda: encoded(Image.new("RGB", (1, 1), "white"), "PNG"),
        "a.png",
        "!no_text|!nothing_read",
    ),
    "a tiny image": (
        lambda: encoded(scan().resize((45, 20)), "PNG"),
        "a.png",
        "!no_text|!uncertain_text|!unread_lines|!nothing_read",
    ),
    "a white page with specks": (lambda: encoded(specks(), "PNG"), "a.png", "!no_text"),
    "a photograph without text": (
        lambda: encoded(Image.radial_gradient("L").resize((800, 800)), "JPEG"),
        "a.jpg",
        "!no_text|!nothing_read",
    ),
    "a CMYK JPEG": (lambda: encoded(scan(mode="CMYK"), "JPEG"), "a.jpg", NUMBER),
    "a TIFF of 16 bits": (sixteen_bit, "a.tiff", NUMBER),
    "a TIFF of three pages": (lambda: frames("TIFF", scan()), "a.tif", NUMBER),
    "an animated GIF": (
        lambda: frames("GIF", Image.new("RGB", (900, 400), "white"), duration=100),
        "a.gif",
        "4711 !frames_not_read",
    ),
    "a BMP of a palette": (lambda: encoded(scan(mode="P"), "BMP"), "a.bmp", NUMBER),
    "a BMP of one bit": (lambda: encoded(scan(mode="1"), "BMP"), "a.bmp", NUMBER),
    "a PNG that is cut off": (lambda: encoded(scan(), "PNG")[:600], "a.png", "!damaged"),
    "an empty file": (lambda: b"", "a.pdf", "!no_text"),
    "a file of zeros": (lambda: bytes(2000), "a.txt", "!unsupported|!damaged|!no_text"),
    "noise": (lambda: bytes((n * 7919 >> 3) % 256 for n in range(4000)), "a.txt", "!unsupported|!damaged"),
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
    "CSV with bars": (lambda: b"number|total\n4711|1250\n", "a.csv", "4711 1250"),
    "CSV with tabs": (lambda: b"number\ttotal\n4711\t1250\n", "a.csv", "4711 1250"),
    "a workbook": (lambda: workbook(1250), "a.xlsx", "Total 1250"),
    "a workbook without values": (lambda: workbook("=1+1"), "a.xlsx", "Total !formulas_without_values"),
    "Word with a text box": (
        lambda: docx(
            run("Invoice") + f"<w:p><w:r><w:pict><w:txbxContent>{run('4711')}</w:txbxContent></w:pict></w:r></w:p>"
        ),
        "a.docx",
        NUMBER,
    ),
    "Word with a table": (
        lambda: docx(f"<w:tbl><w:tr><w:tc>{run('Total')}</w:tc><w:tc>{run('1250')}</w:tc></w:tr></w:tbl>"),
        "a.docx",
        "Total 1250",
    ),
    "Word without text": (lambda: docx(""), "a.docx", "!no_text"),
    "HTML with a script": (
        lambda: b"<html><body><p>Total 1250</p><script>document.write('4711')</script></body></html>",
        "a.html",
        "Total 1250",
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
    "a mail with a PDF": (lambda: mail(attached=pdf([PAGE])), "a.eml", "1,250.00 !attachments_not_read"),
    "a mail in a mail": (lambda: mail(nested=True), "a.eml", "1,250.00 !attachments_not_read"),
    "an old Office file": (lambda: bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), "a.doc", "!unsupported"),
}


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_file_is_read_told_or_refused(name: str, tmp_path: Path) -> None:
    make, filename, wanted = ODD[name]
    path = tmp_path / "file"
    path.write_bytes(make())
    try:
        reading = await read_file(path, filename, Limits(max_pages=20, seconds=300))
    except Unreadable as error:
        assert str(error).endswith(".") and str(error)[0].isupper()
        got = {f"!{error.code}"}
    else:
        text = " ".join(page.text for page in reading.pages)
        words = {word for one in wanted.split("|") for word in one.split() if word[0] != "!"}
        got = {word for word in words if word in text} | {f"!{warning.code}" for warning in reading.warnings}
        assert text.split() or reading.warnings, "read to nothing, and nothing is told"
        assert "secret" not in text
    assert any(set(one.split()) == got for one in wanted.split("|")), f"{name}: {sorted(got)}"
