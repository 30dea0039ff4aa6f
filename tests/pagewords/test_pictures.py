from __future__ import annotations

import base64
import html
import io
import struct
import zipfile
import zlib
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path

import docx
import openpyxl
import pytest
from openpyxl.drawing.image import Image as SheetImage
from PIL import Image, ImageChops
from test_opendocument import opendocument

from generated_files import encode, make_zip, text_image
from pagewords.docx import docx_parts
from pagewords.mail import read_mail
from pagewords.markup import html_parts
from pagewords.opendocument import opendocument_parts
from pagewords.pages import Limits
from pagewords.pagination import Pages, Part, paginate
from pagewords.pictures import MAX_LINES, MAX_PICTURES, Picture
from pagewords.reading_warnings import WarningCode
from pagewords.render import render_page
from pagewords.sandbox import read_file
from pagewords.xlsx import xlsx_parts

SCAN = encode(text_image(["Invoice No: 4711", "Total  19.50"], (600, 300)), "PNG")
LOGO = encode(Image.new("RGB", (60, 40), "red"), "PNG")
LENIENT = Limits(seconds=600)


def make_docx() -> Sequence[Part]:
    document = docx.Document()
    document.add_paragraph("first page")
    for _ in range(2):
        document.add_picture(io.BytesIO(SCAN))
    document.add_picture(io.BytesIO(LOGO), docx.shared.Cm(1))
    document.add_table(1, 1).cell(0, 0).paragraphs[0].add_run().add_picture(io.BytesIO(SCAN[:-12] + SCAN[-12:]))
    document.add_page_break()
    document.add_paragraph("last page")
    return docx_parts(save_to_bytes(document), Limits())


def save_to_bytes(document: object) -> bytes:
    out = io.BytesIO()
    document.save(out)  # type: ignore[attr-defined]
    return out.getvalue()


def make_xlsx() -> Sequence[Part]:
    book = openpyxl.Workbook()
    for name, hidden in (("first", False), ("gone", True), ("last", False)):
        sheet = book.create_sheet(name)
        sheet["A1"] = f"{name} page"
        for content in (SCAN, LOGO) if name == "first" else (encode(text_image(["secret"]), "PNG"),) if hidden else ():
            sheet.add_image(SheetImage(io.BytesIO(content)), "C3")
        sheet.sheet_state = "hidden" if hidden else "visible"
    book.remove(book.worksheets[0])
    return xlsx_parts(save_to_bytes(book), Limits())


def make_odp() -> Sequence[Part]:
    names = 'xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"'
    size = "svg:width='10cm' svg:height='5cm'"
    slides = (
        f"<draw:page {names}><draw:frame><draw:text-box><text:p>first page</text:p></draw:text-box></draw:frame>"
        f"<draw:frame {size}><draw:image xlink:href='Pictures/a.png'/></draw:frame>"
        "<draw:frame svg:width='1cm' svg:height='1cm'><draw:image xlink:href='Pictures/b.png'/></draw:frame>"
        "</draw:page><draw:page><text:p>last page</text:p></draw:page>"
        f"<draw:page {names} draw:style-name='skipped'><draw:frame {size}><draw:image xlink:href='Pictures/b.png'/>"
        "</draw:frame></draw:page>"
    )
    return opendocument_parts(
        opendocument("presentation", slides, **{"Pictures/a.png": SCAN, "Pictures/b.png": LOGO}), Limits()
    )


def html_with(content: bytes) -> str:
    lines = "\n".join(base64.encodebytes(content).decode().splitlines())
    return f'<html><p>first page<img src="data:image/png;base64,{lines}">'


def make_html() -> Sequence[Part]:
    icon = base64.b64encode(LOGO).decode()
    hidden = f"<p hidden><img width=400 height=200 src=data:image/png;base64,{icon}></p>"
    return [
        *html_parts(f"{html_with(SCAN)}<img src=data:image/png;base64,{icon}>{hidden}".encode()),
        Part(["last page"]),
    ]


def make_mail() -> Sequence[Part]:
    mail = EmailMessage()
    mail["From"] = "ann@example.com"
    mail.set_content("first page")
    mail.add_alternative("<p>first page<img src='cid:scan'><img src='cid:logo'>", subtype="html")
    for name, content in (("scan", SCAN), ("logo", LOGO)):
        mail.get_payload()[1].add_related(content, "image", "png", cid=f"<{name}>")
    return [*read_mail(bytes(mail)).parts, Part(["last page"])]


@pytest.mark.parametrize("parts", [make_docx, make_xlsx, make_odp, make_html, make_mail])
def test_picture_becomes_a_page_unless_small_hidden_or_repeated(parts) -> None:
    pages = paginate(parts(), "docx", Limits())
    assert [(page.number, page.all_warnings) for page in pages if not page.hidden_words] == [
        (number, []) for number in (1, 3) if not pages[number // 2].hidden_words
    ]
    assert ["first page" in pages[0].text, "last page" in pages[1].text] == [True, True]
    assert [(number, Image.open(io.BytesIO(content)).size) for number, content in pages.pictures.items()] == [
        (2, (600, 300))
    ]


def test_text_over_a_sheet_is_read_and_missing_pictures_give_a_warning() -> None:
    book = openpyxl.Workbook()
    book.active.add_image(SheetImage(io.BytesIO(SCAN)), "A1")  # type: ignore[union-attr]
    drawing = (
        "<d:wsDr xmlns:d='http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing' "
        "xmlns:a='http://schemas.openxmlformats.org/drawingml/2006/main' "
        "xmlns:r='http://schemas.openxmlformats.org/officeDocument/2006/relationships'>"
        "<d:sp><d:txBody><a:p><a:r><a:t>Total: </a:t></a:r><a:r><a:t>12</a:t></a:r></a:p></d:txBody></d:sp>"
        "<d:pic><d:blipFill><a:blip r:link='rId9'/></d:blipFill></d:pic></d:wsDr>"
    )
    with zipfile.ZipFile(io.BytesIO(save_to_bytes(book))) as file:
        members = {name: file.read(name) for name in file.namelist()}
    members["xl/drawings/drawing1.xml"] = drawing.encode()
    (part,) = xlsx_parts(make_zip(members), Limits())
    (page,) = paginate([part], "xlsx", Limits())
    assert part == ["Sheet: Sheet", "Total: 12"]
    assert [(one.code, one.page, one.count) for one in page.warnings] == [(WarningCode.PICTURES_NOT_READ, 1, 1)]


def make_png_header(side: int) -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in (header, b"IEND")
    )


def paginate_pictures(*contents: bytes | None) -> Pages:
    pictures = [Picture(str(at), content and (lambda content=content: content)) for at, content in enumerate(contents)]
    return paginate([Part(["text"], (), (), pictures), Part(["more"])], "html", Limits(max_pages=120))


def test_at_most_ten_small_pictures_shaped_like_lines_are_read() -> None:
    for size, is_read in (((200, 20), True), ((30, 11), False), ((60, 40), False), ((600, 8), False)):
        natural = encode(Image.new("RGB", size, "white"), "PNG")
        given = Picture("given", lambda: LOGO, size[0] * 0.75, size[1] * 0.75)
        pages = paginate([Part(["text"], (), (), [Picture("natural", lambda it=natural: it), given])], "html", Limits())
        assert (len(pages.pictures), pages[0].warnings) == (2 * is_read, ()), size
    line = encode(Image.new("RGB", (200, 20), "white"), "PNG")
    pages = paginate_pictures(*[line] * (MAX_LINES + 2), SCAN)
    assert len(pages.pictures) == MAX_LINES + 1
    assert [(one.code, one.count) for one in pages[0].warnings] == [(WarningCode.PICTURES_NOT_READ, 2)]


SVG = "<svg width='400' height='300'>{}</svg>"
SVG_AS_BASE64 = "data:image/svg+xml;base64," + base64.b64encode(SVG.format("<text>Total 5</text>").encode()).decode()
SVG_AS_PERCENT_ENCODING = "data:image/svg+xml,%3Csvg%3E%3Ctext%3ETotal 5"


@pytest.mark.parametrize(
    ("source", "lines", "keys"),
    [
        ("<p style='background:red url(a.png) top'>x", ["x"], ["a.png"]),
        ("<style>p{background-image:url('a.png')}</style><p>x<p>y", ["x", "y"], ["a.png"]),
        ("<style>p::before{content:'';background:url(a.png)}</style><p>x", ["x"], ["a.png"]),
        ("<p style='background:url(a.png);width:9px;height:9px'>x", ["x"], []),
        ("<p hidden style='background:url(a.png)'><table background=b.png><tr><td>x</table>", ["x"], ["b.png"]),
        ("<picture><source srcset='a.png 1x, b.png 2x'><img></picture>", [], ["a.png"]),
        ("<img srcset='a.png 2x'><img src=b.png srcset=c.png>", [], ["a.png", "b.png"]),
        ("<object data=a.pdf>x</object><object data=b.swf>y</object><embed src=c.png>z", ["y z"], ["a.pdf", "c.png"]),
        ("<input type=image src=a.png alt=Go><video poster=b.png></video>", ["Go"], ["a.png", "b.png"]),
        ("<iframe src=a.html>x</iframe>", [], ["a.html"]),
        ("<img src='cid:a'><iframe src='about:blank'></iframe>", [], []),
        # drawings and pages within the page
        (f"x<img src='{SVG_AS_BASE64}'>y", ["x Total 5 y"], []),
        (f"x<img src='{SVG_AS_PERCENT_ENCODING}'>y<img src='{SVG_AS_PERCENT_ENCODING}'>", ["x Total 5 y"], []),
        (f"<p style='background:url({SVG_AS_BASE64})'>x", ["Total 5 x"], []),
        (f"<p hidden><img src='{SVG_AS_BASE64}'>", [], []),
        ("<img src='data:image/svg+xml,<svg width=9 height=9><path/></svg>'>", [], []),
        ("<iframe srcdoc='<p>5<p>6<img src=a.png>'>x</iframe>", ["5", "6"], ["a.png"]),
        ("<iframe hidden srcdoc='<p>5<img src=a.png>'></iframe>", [], []),
    ],
)
def test_pictures_and_pages_inside_html_are_read_or_counted(source: str, lines: list[str], keys: list[str]) -> None:
    (part,) = html_parts(source.encode())
    (page,) = paginate([Part([*part, "."], (), part.warnings, part.pictures)], "html", Limits())
    assert part == lines and [picture.key for picture in part.pictures if picture.width != 6.75] == keys
    assert sum(one.count for one in page.warnings) == len(keys)


def test_drawing_without_text_is_counted_and_nesting_is_limited() -> None:
    page = html_parts(f'<img src="data:image/svg+xml,{SVG.format("<path/>")}">'.encode())[0]
    assert [(picture.read, picture.width, picture.height) for picture in page.pictures] == [(None, 300.0, 225.0)]
    nested = "5"
    for _ in range(5):
        nested = f'<iframe srcdoc="{html.escape(nested)}"></iframe>6'
    assert [picture.read for picture in html_parts(nested.encode())[0].pictures] == [None]


def test_pictures_beyond_the_limits_are_left_out_with_a_warning() -> None:
    for contents, chosen, left_out in (
        ([SCAN] * (MAX_PICTURES + 3), MAX_PICTURES, 3),
        ([make_png_header(20_000), SCAN], 1, 1),
        ([make_png_header(9_000)] * 6, 4, 2),  # 81 megapixels each, of 400
        ([None, b"\x01\0\0\0 EMF", SCAN[:20]], 0, 3),
    ):
        pages = paginate_pictures(*contents)
        assert len(pages.pictures) == chosen
        assert [(one.code, one.count) for one in pages[0].warnings] == [(WarningCode.PICTURES_NOT_READ, left_out)]
    one_too_many = Part(["a\f"], (), (), [Picture("1", lambda: SCAN)])
    pages = paginate([one_too_many, Part(["b"])], "html", Limits(max_pages=2))
    assert (len(pages), pages.pictures, pages[-1].warnings[0].code) == (2, {}, WarningCode.PICTURES_NOT_READ)
    large = b"<p>before<img src='data:image/png;base64," + b"A" * 11_000_000 + b"'><p>after"
    assert html_parts(large)[0] == ["before", "after"]  # larger than the parser's limit for an attribute


@pytest.mark.anyio
async def test_picture_in_a_document_is_read_by_ocr_and_damaged_picture_gives_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    broken = base64.b64encode(SCAN[: len(SCAN) // 2]).decode()
    path.write_text(f'{html_with(SCAN)}<img src="data:image/png;base64,{broken}">')
    text, scan, damaged = (await read_file(path, "a.html", LENIENT)).pages
    assert (text.text, scan.engine, scan.width, scan.all_warnings) == ("first page", "rapidocr", 600, [])
    assert scan.text.split()[:3] == ["Invoice", "No:", "4711"] and scan.number == 2
    assert [(one.code, one.page) for one in damaged.warnings] == [(WarningCode.PICTURES_NOT_READ, 3)]
    drawn = Image.open(io.BytesIO(await render_page(path, "text/html", 2, Limits())))
    assert ImageChops.difference(drawn, Image.open(io.BytesIO(SCAN))).getbbox() is None
    assert Image.open(io.BytesIO(await render_page(path, "text/html", 1, Limits()))).height > 1000


@pytest.mark.anyio
async def test_only_picture_shaped_like_a_line_gives_a_warning_if_nothing_is_read(tmp_path: Path) -> None:
    def gradient_as_base64(width: int, height: int) -> str:
        return base64.b64encode(encode(Image.linear_gradient("L").resize((width, height)), "PNG")).decode()

    path = tmp_path / "a.html"
    sources = (gradient_as_base64(300, 300), gradient_as_base64(240, 24))
    path.write_text("<html><p>text" + "".join(f'<img src="data:image/png;base64,{one}">' for one in sources))
    _, photograph, line = (await read_file(path, "a.html", LENIENT)).pages
    assert (photograph.warnings, [one.code for one in line.warnings]) == ((), [WarningCode.NOTHING_READ])
