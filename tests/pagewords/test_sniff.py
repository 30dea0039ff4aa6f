from __future__ import annotations

import io
import zipfile

import pytest

from generated_files import encode, make_pdf, make_zip, text_at, text_image
from pagewords import sniff
from pagewords.errors import Unreadable, Unsupported
from pagewords.text import decode

IMAGE = text_image([], (20, 20))
OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def make_uncompressed_zip(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (make_pdf([text_at("x", 50, 700)]), "a.pdf", sniff.PDF),
        (b"junk before\n" + make_pdf([text_at("x", 50, 700)]), "a", sniff.PDF),
        (encode(IMAGE, "PNG"), "invoice.pdf", sniff.PNG),
        (encode(IMAGE, "WEBP"), "a.docx", sniff.WEBP),
        (encode(IMAGE, "BMP"), "a.txt", sniff.BMP),
        (encode(IMAGE, "GIF"), "a.png", sniff.GIF),
        (b"BMW invoice\nTotal: 2\n", "a.txt", sniff.TXT),
        (b"The file is a %PDF-1.7\n", "a.txt", sniff.TXT),
        (make_zip({"word/document.xml": b""}), "a.xlsx", sniff.DOCX),
        (make_zip({"readme.txt": b"x"}), "a.docx", sniff.ZIP),
        (OLE_SIGNATURE + "__substg1.0_001A".encode("utf-16-le"), "a.msg", sniff.MSG),
        (make_uncompressed_zip({"a.pdf": make_pdf([text_at("x", 50, 700)])}), "a.zip", sniff.ZIP),
        (make_uncompressed_zip({"a.docx": make_zip({"word/document.xml": b""})}), "a.zip", sniff.ZIP),
        (b"<!-- x -->\n<!DOCTYPE html><p>x", "a.txt", sniff.HTML),
        (b"<div>fragment</div>", "a.html", sniff.HTML),
        (b"Received: x\n by y\nFrom: a@example.com\nDate: today\n\nbody", "download", sniff.EML),
        # A PDF attached without encoding starts early in a short email.
        (b"From: a@example.com\nSubject: x\nMIME-Version: 1.0\n\n%PDF-1.7\n1 0 obj", "download", sniff.EML),
        (b"MIME-Version: 1.0\nContent-Type: text/html\n\n<p>x", "a.mht", sniff.EML),
        (b"From: a@example.com\n\n%PDF-1.7\n1 0 obj", "a.eml", sniff.EML),
        (b"From: a printer\n%PDF-1.7\n1 0 obj", "a.pdf", sniff.PDF),
        (b"a;b\n1;2\n", "a.CSV", sniff.CSV),
        ("Größe".encode("utf-16"), "a.txt", sniff.TXT),
    ],
)
def test_content_decides_the_media_type_and_the_name_only_the_kind_of_text(data: bytes, name: str, kind: str) -> None:
    assert sniff.media_type(data, name) == kind


@pytest.mark.parametrize(
    ("data", "name", "code"),
    [
        (b"<html>login</html>", "a.docx", "wrong_type"),
        (b"\x7fELF" + bytes(100), "a.pdf", "unsupported"),
        (make_zip({"mimetype": b"", "META-INF/manifest.xml": b""}), "a.odg", "unsupported"),
        (OLE_SIGNATURE + "Workbook".encode("utf-16-le"), "a.xls", "unsupported"),
        (OLE_SIGNATURE + "EncryptedPackage".encode("utf-16-le"), "a.docx", "password"),
    ],
)
def test_unreadable_file_is_refused_with_its_code(data: bytes, name: str, code: str) -> None:
    """More such files are in odd/test_odd_files.py, read through the sandbox."""
    with pytest.raises(Unreadable) as raised:
        sniff.media_type(data, name)
    assert raised.value.code == code


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    [
        "Megnevezés;Összeg\nŐszi lakbér;1250\n",
        "Наименование;Сумма\nСчёт на оплату услуг;12,50\n",
        "Περιγραφή;Αξία\nΤιμολόγιο παροχής υπηρεσιών;12,50\n",
        "品名;金額\n請求書の金額;1250\n",
        "סך הכל לתשלום;7,00\n",
        "합계 부가세 포함;70\n",
    ],
)
def test_utf16_without_a_byte_order_mark_is_text(text: str, encoding: str) -> None:
    assert sniff.media_type(text.encode(encoding), "a.csv") == sniff.CSV
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("data", [b"ab\0cd\0ef" * 20, bytes(range(256)) * 4, b"\0\1\0\2\0\3" * 50])
def test_zero_bytes_alone_are_not_utf16(data: bytes) -> None:
    with pytest.raises(Unsupported):
        sniff.media_type(data, "a.csv")


def test_code_pages_are_known_by_all_their_names() -> None:
    for label in ("windows-950", "cp950", "cp-950", "ms950", "x-windows-950"):
        assert decode("總金額 1,250 元".encode("cp950"), label) == "總金額 1,250 元"


def test_binary_workbook_is_unsupported_and_not_damaged() -> None:
    with pytest.raises(Unsupported):
        sniff.media_type(make_zip({"xl/workbook.bin": b"1"}), "a.xlsb")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (OLE_SIGNATURE + "WordDocument".encode("utf-16-le"), "(DOC)"),
        (OLE_SIGNATURE + "Workbook".encode("utf-16-le"), "(XLS)"),
        (OLE_SIGNATURE + "PowerPoint Document".encode("utf-16-le"), "(PPT)"),
        (b"\xffWPC" + bytes(20), "WordPerfect"),
        (make_zip({"Index/Document.iwa": b"x"}), "iWork"),
        (make_zip({"mimetype": b"application/epub+zip", "META-INF/container.xml": b"x"}), "EPUB"),
        (b"\x1f\x8b\x08" + bytes(20), "gzip"),
    ],
)
def test_refusal_of_an_old_or_foreign_format_names_it(data: bytes, kind: str) -> None:
    with pytest.raises(Unsupported) as raised:
        sniff.media_type(data, "a")
    assert kind in str(raised.value)
