from __future__ import annotations

import datetime
import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from xml.sax.saxutils import escape

import docx
import openpyxl
import pytest
from openpyxl.cell.rich_text import CellRichText, InlineFont, TextBlock
from openpyxl.chart import BarChart
from openpyxl.comments import Comment
from openpyxl.formatting.rule import FormulaRule, Rule
from openpyxl.styles import Alignment, Color, Font, PatternFill
from openpyxl.styles.differential import DifferentialStyle
from openpyxl.styles.numbers import NumberFormat
from openpyxl.worksheet.table import Table, TableStyleInfo

from generated_files import make_zip
from pagewords.docx import docx_parts
from pagewords.errors import OverLimit, Unreadable, WrongType
from pagewords.pages import MIB, Limits
from pagewords.pagination import paginate
from pagewords.reading_warnings import ReadingWarning, WarningCode
from pagewords.sniff import DOCX, XLSX, media_type
from pagewords.xlsx import xlsx_parts

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def make_docx(body: str) -> bytes:
    return make_zip({"word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>".encode()})


def saved(book: openpyxl.Workbook) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_docx_is_read_in_order_with_tables_headers_and_pages() -> None:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Acme Ltd"
    document.sections[0].footer.paragraphs[0].text = "Bank 123"
    document.add_paragraph("Date:\t12 March 2024")
    table = document.add_table(rows=2, cols=2)
    for row, cells in enumerate([("Screws", "12.50"), ("Nuts\nand bolts", "7.00")]):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    document.add_paragraph("Total: 19.50")
    document.add_page_break()
    document.add_paragraph("Second page")
    out = io.BytesIO()
    document.save(out)
    first, second = docx_parts(out.getvalue(), Limits())
    assert [line for line in first if line] == [
        "Acme Ltd",
        "Date:   12 March 2024",
        "Screws           12.50",
        "Nuts and bolts   7.00",
        "Total: 19.50",
    ]
    assert [line for line in second if line] == ["Second page", "Bank 123"]


def test_docx_deleted_and_hidden_text_is_left_out_and_other_text_is_read() -> None:
    body = (
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>controlled</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        "<w:p><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins><w:del><w:r><w:delText>deleted</w:delText></w:r></w:del></w:p>"
        "<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:r><w:rPr><w:vanish w:val='0'/></w:rPr>"
        "<w:t>shown</w:t></w:r></w:p>"
        "<w:p><w:r><w:t>around</w:t></w:r><w:r><w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent></w:r></w:p>"
    )
    (part,) = docx_parts(make_docx(body), Limits())
    assert part == ["controlled", "inserted", "shown", "around", "boxed"]
    assert (part.hidden, part.struck) == (["hidden"], ["deleted"])


def test_docx_text_that_a_tracked_change_removes_counts_as_struck_out() -> None:
    row = "<w:tr><w:trPr>{}</w:trPr><w:tc><w:tcPr>{}</w:tcPr><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc></w:tr>"
    rows = (("<w:del w:id='1'/>", "", "row"), ("", "<w:cellDel w:id='2'/>", "cell"), ("", "", "kept"))
    moved = "<w:moveFrom w:id='3'><w:r><w:t>moved 4711</w:t></w:r></w:moveFrom>"
    flat = ("<w:trHeight w:val='1' w:hRule='exact'/>", "", "flat")
    body = f"<w:tbl>{''.join(row.format(*one) for one in (*rows, flat))}</w:tbl><w:p>{moved}</w:p>"
    (part,) = docx_parts(make_docx(body), Limits())
    assert [line for line in part if line] == ["kept"]
    assert (part.struck, part.hidden) == (["row", "cell", "moved", "4711"], ["flat"])


def test_docx_raised_digits_check_boxes_and_formulas_are_read() -> None:
    raised = "<w:r><w:rPr><w:vertAlign w:val='superscript'/></w:rPr><w:t>99</w:t></w:r>"
    moved = "".join(f"<w:r><w:rPr><w:position w:val='{by}'/></w:rPr><w:t>5</w:t></w:r>" for by in ("6", "-6", "0"))
    body = f"<w:p><w:r><w:t>12</w:t></w:r>{raised}<w:r><w:t> m</w:t></w:r>{raised}</w:p>"
    body += f"<w:p><w:r><w:t>7</w:t></w:r>{moved}</w:p>"
    body += "<w:p><w:r><w:sym w:font='Wingdings' w:char='F0FE'/><w:t> Insured</w:t></w:r></w:p>"
    both = "<w:vertAlign w:val='superscript'/><w:position w:val='0'/>"
    body += f"<w:p><w:r><w:t>8</w:t></w:r><w:r><w:rPr>{both}</w:rPr><w:t>3</w:t></w:r></w:p>"
    ((*lines,),) = docx_parts(make_docx(body), Limits())
    assert lines == ["12⁹⁹ m99", "7⁵₅5", "☑ Insured", "8³"]


def test_docx_formulas_ruby_text_and_tabs_are_separated_from_other_text() -> None:
    text, secret = "<w:r><w:t>{}</w:t></w:r>", "<m:r><w:rPr><w:vanish/></w:rPr><m:t>secret</m:t></m:r>"
    one, two = (f"<m:r><m:t>{digit}</m:t></m:r>" for digit in "12")
    half = f"<m:oMath>{secret}<m:f><m:num>{one}</m:num><m:den><w:ins>{two}</w:ins></m:den></m:f></m:oMath>"
    ruby = "<w:ruby><w:rubyPr><w:hps w:val='10'/></w:rubyPr><w:rt>{}</w:rt><w:rubyBase>{}</w:rubyBase></w:ruby>"
    body = f"<w:p>{text.format(2)}{half}{text.format(3)}</w:p>"
    for reading, base in (("かんじ", "漢字"), ("34", "12"), ("", "x")):
        body += f"<w:p><w:r>{ruby.format(text.format(reading), text.format(base))}</w:r></w:p>"
    body += f"<w:p>{text.format('Total')}<w:r><w:ptab w:alignment='right'/></w:r>{text.format('19.50')}</w:p>"
    names = f"{W} xmlns:m='http://schemas.openxmlformats.org/officeDocument/2006/math'"
    document = f"<w:document {names}><w:body>{body}</w:body></w:document>"
    (part,) = docx_parts(make_zip({"word/document.xml": document.encode()}), Limits())
    assert part == ["2 1/2 3", "漢字(かんじ)", "12(34)", "x", "Total   19.50"]
    assert part.hidden == ["secret"]


def test_docx_symbol_fonts_are_read_and_unknown_symbols_give_a_warning() -> None:
    def sign(font: str, code: str) -> str:
        return f"<w:r><w:sym w:font='{font}' w:char='{code}'/></w:r>"

    def text(font: str, written: str) -> str:
        return f"<w:r><w:rPr><w:rFonts w:ascii='{font}'/></w:rPr><w:t>{written}</w:t></w:r>"

    body = f"<w:p>{sign('Symbol', 'F0B1')}{text('Arial', '5 ')}{text('Symbol', 'm')}{text('Arial', 'm')}</w:p>"
    body += f"<w:p>{sign('Wingdings', 'F0FC')}{sign('Arial', '20AC')}{sign('Wingdings', '00E0')}</w:p>"
    body += f"<w:p>{sign('Wingdings', 'F0CB')}{sign('Odd', 'F041')}{sign('Odd', 'x')}{text('Odd', '&#xF041;')}</w:p>"
    (part,) = docx_parts(make_docx(body), Limits())
    assert part == ["±5 μm", "✓€→", "����"]
    (warning,) = part.warnings
    assert (warning.code, warning.count, warning.excerpt) == (WarningCode.UNKNOWN_SYMBOLS, 3, "wingdings F0CB; F041")


def test_workbook_cells_have_addresses_and_formatted_values() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Invoice"
    sheet["A1"], sheet["B1"] = "Number", "INV-1"
    sheet["A2"], sheet["C2"] = datetime.date(2024, 3, 12), 0.1 + 0.2
    sheet["A4"], sheet["B4"], sheet["C4"] = True, 1250.0, "=1+1"
    hidden = book.create_sheet("Hidden")
    hidden["A1"] = "secret"
    hidden.sheet_state = "hidden"
    book.create_sheet("Far")["XFD1048576"] = "corner"
    out = io.BytesIO()
    book.save(out)
    parts = xlsx_parts(out.getvalue(), Limits())
    assert [part.hidden for part in parts] == [[], ["secret"]]
    assert parts == [
        ["Sheet: Invoice", "A1: Number   B1: INV-1", "A2: 2024-03-12   C2: 0.3", "A4: TRUE   B4: 1250"],
        ["Sheet: Far", "XFD1048576: corner"],
    ]


def test_cells_have_shown_and_stored_values_without_struck_out_text() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for at, (value, number_format) in enumerate(
        [(0.19, "0%"), (4711, "00000000"), (1234.5, '#,##0.00 "EUR"'), (datetime.date(2024, 3, 12), "d/m/yy")], 1
    ):
        sheet.cell(1, at, value).number_format = number_format
    sheet["A2"], sheet["B2"] = 99, 49
    sheet["A2"].font = Font(strike=True)
    raised, old, tiny = InlineFont(vertAlign="superscript"), InlineFont(strike=True), InlineFont(sz=1)
    sheet["A3"] = CellRichText(
        "100", TextBlock(raised, "1"), TextBlock(old, " 120"), TextBlock(tiny, " secret"), " EUR"
    )
    (part,) = xlsx_parts(saved(book), Limits())
    shown = "A1: 19% [0.19]   B1: 00004711 [4711]   C1: 1,234.50 EUR   D1: 12/3/24 [2024-03-12]"
    assert (part[1:], part.struck, part.hidden) == ([shown, "B2: 49", "A3: 100¹ EUR"], ["99", "120"], ["secret"])


def test_headers_footers_notes_and_text_boxes_of_a_workbook_are_read() -> None:
    names = "xmlns:a='http://schemas.openxmlformats.org/drawingml/2006/main' "
    names += "xmlns:m='http://schemas.openxmlformats.org/officeDocument/2006/math'"
    book, out = openpyxl.Workbook(), io.BytesIO()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Sums"
    for cell in ("A1", "A2", "A3"):
        sheet[cell] = 5
        sheet[cell].comment = Comment(f"note of\n{cell}", "Ann")
    sheet.row_dimensions[2].hidden = True
    book.save(out)
    head = '&L&"Arial,Bold"&12 Acme && Sons&R&KFF0000RE-7&X1&X\n&1tiny&10 &Sold&S new'
    foot = "&CPage &P of &N, &D &A"
    texts = {"oddHeader": head, "oddFooter": foot, "evenHeader": "&Leven", "firstHeader": "&Lfirst"}
    printed = "".join(f"<{kind}>{escape(text)}</{kind}>" for kind, text in texts.items())
    thread = "http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments"
    threads = "".join(
        f"<threadedComment ref='A3'><text>{text}</text></threadedComment>" for text in ("why 7?", "since 8")
    )
    run = "<a:r><a:rPr{}/><a:t>{}</a:t></a:r>"
    half = "<m:oMath><m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f></m:oMath>"
    raised = " baseline='30000'"
    box = f"<a:p>{run.format('', 10)}{run.format(raised, 5)}<a:br/>{run.format('', 2)}{half}</a:p>"
    members = {name: zipfile.ZipFile(out).read(name) for name in zipfile.ZipFile(out).namelist()}
    page = members["xl/worksheets/sheet1.xml"].decode()
    page = page.replace("<legacyDrawing", f"<headerFooter differentFirst='1'>{printed}</headerFooter><legacyDrawing")
    assert printed in page
    members["xl/worksheets/sheet1.xml"] = page.encode()
    relations = "xl/worksheets/_rels/sheet1.xml.rels"
    more = "".join(f"<Relationship Id='x{kind}' Type='t/{kind}' Target='../{kind}.xml'/>"
                   for kind in ("threadedComment", "drawing"))  # fmt: skip
    members[relations] = members[relations].replace(b"</Relationships>", f"{more}</Relationships>".encode())
    members["xl/threadedComment.xml"] = f"<ThreadedComments xmlns='{thread}'>{threads}</ThreadedComments>".encode()
    members["xl/drawing.xml"] = f"<wsDr {names}>{box}</wsDr>".encode()
    (part,) = xlsx_parts(make_zip(members), Limits())
    assert part == [
        "Sheet: Sums", "Header: first", "Header: Acme & Sons", "Header: RE-7¹", "Header: new", "A1: 5", "A3: 5", "10⁵",
        "2 1/2", "Note at A1: note of A1", "Note at A3: why 7?", "Note at A3: since 8", "Footer: Page of , Sums",
    ]  # fmt: skip
    assert (part.hidden, part.struck) == (["5", "note", "of", "A2", "tiny"], ["old"])


def test_archive_over_the_unpacked_limit_is_refused() -> None:
    data = make_docx(f"<w:p><w:r><w:t>{'a' * MIB}</w:t></w:r></w:p>")
    assert docx_parts(data, Limits(max_decoded_bytes=2 * MIB))
    with pytest.raises(OverLimit):
        docx_parts(data, Limits(max_decoded_bytes=MIB))


def test_zip_bomb_with_a_false_size_is_refused() -> None:
    data = bytearray(make_docx("<w:p><w:r><w:t>" + "a" * 3 * MIB + "</w:t></w:r></w:p>"))
    size = zipfile.ZipFile(io.BytesIO(data)).infolist()[0].file_size.to_bytes(4, "little")
    assert data.count(size) == 2
    with pytest.raises(zipfile.BadZipFile):
        docx_parts(bytes(data.replace(size, (1000).to_bytes(4, "little"))), Limits(max_decoded_bytes=MIB))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_that_declares_entities_is_refused(encoding: str) -> None:
    bomb = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><d>&b;</d>'
    with pytest.raises(Unreadable, match="declares entities"):
        docx_parts(make_zip({"word/document.xml": bomb.encode(encoding)}), Limits())


def test_archive_with_too_many_parts_or_without_main_part_is_refused() -> None:
    with pytest.raises(OverLimit):
        docx_parts(make_zip({f"word/media/{number}": b"" for number in range(10_001)}), Limits())
    with pytest.raises(WrongType):
        docx_parts(make_zip({"word/documents.txt": b""}), Limits())


def test_docx_list_numbers_legacy_form_fields_and_struck_out_text() -> None:
    shapes = ((3, "decimal", "§ %1"), (1, "lowerLetter", "%1.%2)"), (1, "bullet", "x"))
    levels = "".join(
        f"<w:lvl w:ilvl='{at}'><w:start w:val='{start}'/><w:numFmt w:val='{kind}'/><w:lvlText w:val='{text}'/></w:lvl>"
        for at, (start, kind, text) in enumerate(shapes)
    )
    numbering = f"<w:numbering {W}><w:abstractNum w:abstractNumId='7'>{levels}</w:abstractNum>" + "".join(
        f"<w:num w:numId='{at}'><w:abstractNumId w:val='7'/>{more}</w:num>"
        for at, more in (("1", ""), ("2", "<w:lvlOverride w:ilvl='0'><w:startOverride w:val='1'/></w:lvlOverride>"))
    )
    style = "<w:style w:styleId='Item'><w:pPr><w:numPr><w:numId w:val='1'/></w:numPr></w:pPr></w:style>"
    styles = f"<w:styles {W}>{style}</w:styles>"

    def paragraph(properties: str, *runs: str) -> str:
        return f"<w:p><w:pPr>{properties}</w:pPr>{''.join(f'<w:r>{run}</w:r>' for run in runs)}</w:p>"

    def item(number: int, level: int, text: str) -> str:
        properties = f"<w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='{number}'/></w:numPr>"
        return paragraph(properties, f"<w:t>{text}</w:t>")

    body = item(1, 0, "a") + item(1, 1, "b") + item(1, 1, "c") + item(1, 0, "d") + item(1, 1, "e") + item(1, 2, "f")
    body += item(2, 0, "g") + item(0, 0, "plain") + paragraph("<w:pStyle w:val='Item'/>", "<w:t>h</w:t>")
    body += paragraph("", "<w:t>was </w:t>", "<w:rPr><w:strike/></w:rPr><w:t>99 EUR</w:t>", "<w:t>49</w:t>")
    ticked, empty = (
        f"<w:fldChar><w:ffData><w:checkBox><w:default w:val='0'/>{mark}</w:checkBox></w:ffData></w:fldChar>"
        for mark in ("<w:checked/>", "")
    )
    choice = "<w:ddList><w:result w:val='1'/><w:listEntry w:val='one'/><w:listEntry w:val='two'/></w:ddList>"
    body += paragraph("", ticked, "<w:t> Yes </w:t>", empty, "<w:t> No </w:t>", choice)
    document = f"<w:document {W}><w:body>{body}</w:body></w:document>"
    members = {"document": document, "styles": styles, "numbering": f"{numbering}</w:numbering>"}
    files = {f"word/{name}.xml": content.encode() for name, content in members.items()}
    (part,) = docx_parts(make_zip(files), Limits())
    assert part == [
        "§ 3 a", "3.a) b", "3.b) c", "§ 4 d", "4.a) e", "• f", "§ 1 g", "plain", "§ 2 h", "was 49", "☒ Yes ☐ No two"
    ]  # fmt: skip
    assert part.struck == ["99", "EUR"]
    (page,) = paginate([part], "docx", Limits())
    assert [(one.code, one.count, one.excerpt) for one in page.warnings] == [(WarningCode.STRUCK_OUT, 2, "99 EUR")]


def test_docx_charts_diagrams_and_watermarks_are_read() -> None:
    names = f"{W} xmlns:a='http://schemas.openxmlformats.org/drawingml/2006/main' "
    names += "xmlns:c='http://schemas.openxmlformats.org/drawingml/2006/chart' xmlns:v='urn:schemas-microsoft-com:vml' "
    names += "xmlns:d='http://schemas.openxmlformats.org/drawingml/2006/diagram' "
    names += "xmlns:r='http://schemas.openxmlformats.org/officeDocument/2006/relationships'"
    points = "".join(f"<c:{kind}><c:pt><c:v>{first}</c:v></c:pt><c:pt><c:v>{second}</c:v></c:pt></c:{kind}>"
                     for kind, first, second in (("cat", "Q1", "Q2"), ("val", "10", "20")))  # fmt: skip
    title = "<a:p><a:r><a:t>Sales</a:t></a:r></a:p>"
    chart = f"<c:chartSpace {names}>{title}<c:ser><c:tx><c:v>North</c:v></c:tx>{points}</c:ser></c:chartSpace>"
    parts = "<c:chart r:id='1'/><d:relIds r:dm='2'/><v:textpath string='DRAFT'/><c:chart r:id='9'/>"
    relations = "".join(f"<Relationship Id='{at}' Target='x/{at}.xml'/>" for at in (1, 2))
    (part,) = docx_parts(
        make_zip(
            {
                "word/document.xml": f"<w:document {names}><w:body><w:p>{parts}</w:p></w:body></w:document>".encode(),
                "word/_rels/document.xml.rels": f"<Relationships>{relations}</Relationships>".encode(),
                "word/x/1.xml": chart.encode(),
                "word/x/2.xml": f"<d:dataModel {names}>{title.replace('Sales', 'Step 1')}</d:dataModel>".encode(),
            }
        ),
        Limits(),
    )
    assert [line.split() for line in part] == [
        ["DRAFT"],
        ["Sales"],
        ["North"],
        ["Q1", "10"],
        ["Q2", "20"],
        ["Step", "1"],
    ]
    (page,) = paginate([part], "docx", Limits())
    assert [one.code for one in page.warnings] == [WarningCode.PICTURES_NOT_READ]  # the missing chart


STYLES = (
    "<w:style w:type='paragraph' w:default='1' w:styleId='Normal'><w:rPr><w:sz w:val='22'/></w:rPr></w:style>"
    "<w:style w:type='character' w:styleId='Base'><w:rPr><w:vanish/></w:rPr></w:style>"
    "<w:style w:type='character' w:styleId='Gone'><w:basedOn w:val='Base'/></w:style>"
    "<w:style w:type='table' w:styleId='GoneTable'><w:rPr><w:vanish/></w:rPr></w:style>"
    "<w:style w:type='table' w:styleId='Banded'><w:tblStylePr w:type='firstRow'><w:tcPr>"
    "<w:shd w:val='clear' w:fill='222222'/></w:tcPr></w:tblStylePr></w:style>"
)


def run(marks: str, paragraph: str = "") -> str:
    return f"<w:p><w:pPr>{paragraph}</w:pPr><w:r><w:rPr>{marks}</w:rPr><w:t>secret 4711</w:t></w:r></w:p>"


WHITE, BLACK = "<w:color w:val='FFFFFF'/>", "<w:color w:val='000000'/>"
TABLE = "<w:tbl>{}<w:tr>{}<w:tc>{}</w:tc></w:tr></w:tbl>"
SHADED_CELL = "<w:tbl><w:tr><w:tc><w:tcPr><w:shd w:val='clear' w:fill='222222'/></w:tcPr>{}</w:tc></w:tr></w:tbl>"
W14 = "xmlns:w14='http://schemas.microsoft.com/office/word/2010/wordml'"
FILLED = f"<w14:textFill {W14}><w14:solidFill><w14:srgbClr w14:val='{{}}'/></w14:solidFill></w14:textFill>"
OLD_BOX = (
    "<w:p><w:r><w:pict><v:shape xmlns:v='urn:schemas-microsoft-com:vml' style='position:absolute;margin-left:{}'>"
    f"<v:textbox><w:txbxContent>{run('')}</w:txbxContent></v:textbox></v:shape></w:pict></w:r></w:p>"
)


PROMPT = f"<w:sdt><w:sdtPr>{{}}</w:sdtPr><w:sdtContent>{run('')}</w:sdtContent></w:sdt>"
SPAN = "<w:r><w:t>secret 4711</w:t></w:r>"
BANDED = TABLE.format("<w:tblPr><w:tblStyle w:val='Banded'/></w:tblPr>", "", "{}")


def text_box(across: str, marks: str = "", fill: str = "EEEEEE", width: int = 900_000) -> str:
    """Return a text box at a place, in EMU."""
    names = "http://schemas.openxmlformats.org/drawingml/2006"
    return (
        f"<w:p><w:r><w:drawing><wp:anchor xmlns:wp='{names}/wordprocessingDrawing'><wp:positionH relativeFrom='column'>"
        f"<wp:posOffset>{across}</wp:posOffset></wp:positionH><wp:extent cx='{width}' cy='900000'/>"
        "<wps:wsp xmlns:wps='http://schemas.microsoft.com/office/word/2010/wordprocessingShape'><wps:spPr>"
        f"<a:solidFill xmlns:a='{names}/main'><a:srgbClr val='{fill}'/></a:solidFill></wps:spPr><wps:txbx>"
        f"<w:txbxContent>{run(marks)}</w:txbxContent></wps:txbx></wps:wsp></wp:anchor></w:drawing></w:r></w:p>"
    )


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        (run("<w:vanish/>"), run("<w:vanish w:val='false'/>")),
        (run("<w:rStyle w:val='Gone'/>"), run("<w:rStyle w:val='Gone'/><w:vanish w:val='0'/>")),
        (run("<w:sz w:val='2'/>"), run("<w:sz w:val='8'/>")),
        (run(WHITE), run(WHITE + "<w:shd w:val='clear' w:fill='1F3864'/>")),
        (run(WHITE, "<w:shd w:val='clear' w:fill='F8F8F8'/>"), run(WHITE, "<w:shd w:val='clear' w:fill='C0C0C0'/>")),
        (run(BLACK + "<w:highlight w:val='black'/>"), run(BLACK + "<w:highlight w:val='yellow'/>")),
        (run(BLACK + "<w:shd w:val='solid' w:color='000000'/>"), run("<w:shd w:val='solid' w:color='000000'/>")),
        (run("<w:color w:val='000000' w:themeColor='background1'/>"), run("<w:color w:themeColor='text1'/>")),
        (
            run("<w:color w:themeColor='text1' w:themeTint='00'/>"),
            run("<w:color w:themeColor='background1' w:themeShade='80'/>"),
        ),
        (run(f"<w14:textFill {W14}><w14:noFill/></w14:textFill>"), run(FILLED.format("000000"))),
        (run(FILLED.format("FFFFFF")), run(FILLED.format("336699"))),
        (
            run("", "<w:framePr w:x='-6000' w:w='1000' w:hAnchor='page'/>"),
            run("", "<w:framePr w:x='-600' w:w='9000'/>"),
        ),
        (run("", "<w:framePr w:y='20000' w:vAnchor='page'/>"), run("", "<w:framePr w:y='2000' w:vAnchor='page'/>")),
        (run("", "<w:ind w:left='-30000'/>"), run("", "<w:ind w:left='-300'/>")),
        (run("", "<w:spacing w:line='1' w:lineRule='exact'/>"), run("", "<w:spacing w:line='1' w:lineRule='auto'/>")),
        (text_box("-6000000"), text_box("600000")),
        (text_box("600000", width=0), text_box("-600000")),
        (text_box("0", WHITE, "FFFFFF"), text_box("0", WHITE, "1F3864")),
        (OLD_BOX.format("-9999pt"), OLD_BOX.format("99pt")),
        (TABLE.format("", "", run(WHITE)), SHADED_CELL.format(run(WHITE))),
        (run("<w:w w:val='1'/>"), run("<w:w w:val='66'/>")),
        (TABLE.format("", "<w:trPr><w:hidden/></w:trPr>", run("")), TABLE.format("", "", run(""))),
        (
            TABLE.format("<w:tblPr><w:tblStyle w:val='GoneTable'/></w:tblPr>", "", run("")),
            TABLE.format("<w:tblPr><w:tblStyle w:val='x'/></w:tblPr>", "", run("")),
        ),
    ],
)
def test_docx_hidden_text_is_left_out_and_counted(hidden: str, shown: str) -> None:
    for body, lines, left_out in ((hidden, [], ["secret", "4711"]), (shown, ["secret 4711"], [])):
        document = f"<w:document {W}><w:body>{body}</w:body></w:document>".encode()
        styles = f"<w:styles {W}>{STYLES}</w:styles>".encode()
        (part,) = docx_parts(make_zip({"word/document.xml": document, "word/styles.xml": styles}), Limits())
        assert ([line for line in part if line], part.hidden) == (lines, left_out)


@pytest.mark.parametrize(
    ("doubtful", "certain"),
    [
        (PROMPT.format("<w:showingPlcHdr/>"), PROMPT.format("<w:text/>")),
        (
            f"<w:p><w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>{SPAN}</w:sdtContent></w:sdt></w:p>",
            run(""),
        ),
        (text_box("0", WHITE, "none"), text_box("0", BLACK, "none")),
        (BANDED.format(run(WHITE)), BANDED.format(run(""))),
        (
            "<w:p><wp:anchor xmlns:wp='http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing' "
            f"behindDoc='1'/></w:p>{run(WHITE)}",
            run(""),
        ),
    ],
)
def test_docx_text_that_may_not_be_seen_is_read_with_a_warning(doubtful: str, certain: str) -> None:
    for body, words in ((doubtful, ["secret", "4711"]), (certain, [])):
        document = f"<w:document {W}><w:body>{body}</w:body></w:document>".encode()
        styles = f"<w:styles {W}>{STYLES}</w:styles>".encode()
        parts = docx_parts(make_zip({"word/document.xml": document, "word/styles.xml": styles}), Limits())
        assert ([line for line in parts[0] if line], parts[0].hidden, parts[0].doubtful) == (["secret 4711"], [], words)
        (page,) = paginate(parts, "test", Limits())
        assert [warning.code for warning in page.warnings] == [WarningCode.MAY_BE_HIDDEN] * bool(words)


def test_docx_style_without_an_id_is_the_style_of_nothing() -> None:
    body = f"<w:document {W}><w:body><w:p><w:r><w:t>Total</w:t></w:r></w:p></w:body></w:document>"
    tiny = f'<w:styles {W}><w:style><w:name w:val="Empty cell"/><w:rPr><w:sz w:val="2"/></w:rPr></w:style></w:styles>'
    (part,) = docx_parts(make_zip({"word/document.xml": body.encode(), "word/styles.xml": tiny.encode()}), Limits())
    assert (list(part), part.hidden) == (["Total"], [])


def test_hidden_cells_are_left_out_and_counted() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for column in range(1, 5):
        for row in range(1, 8):
            sheet.cell(row, column).value = f"{'ABCD'[column - 1]}{row}"
    sheet.row_dimensions[2].hidden = True
    sheet.row_dimensions[3].height = 0.1
    sheet.column_dimensions["C"].hidden = True
    sheet["A4"].number_format, sheet["B4"].number_format = ";;;", "0;-0;0;@"
    sheet["D4"].number_format = '"";"";"";""'
    sheet["A5"], sheet["B5"], sheet["D5"] = 5, -5, 0
    for cell in ("A5", "B5", "D5"):
        sheet[cell].number_format = "0;;0"
    sheet["A6"].font, sheet["B6"].font = Font(sz=1), Font(sz=6)
    sheet["A7"].font = Font(color="FFFFFFFF")
    (part,) = xlsx_parts(saved(book), Limits())
    seen = {item.split(": ")[0] for line in part[1:] for item in line.split("   ")}
    unseen = {f"{column}{row}" for column in "ABCD" for row in (2, 3)} | {f"C{row}" for row in range(1, 8)}
    unseen |= {"A4", "D4", "B5", "A6", "A7"}
    assert seen == {f"{column}{row}" for column in "ABCD" for row in range(1, 8)} - unseen
    assert sorted(part.hidden) == sorted((unseen - {"B5"}) | {"-5"})


WHITE_FONT, BLACK_FONT = Font(color="FFFFFFFF"), Font(color="FF000000")
BLACK_FILL = PatternFill("solid", fgColor="FF000000")
YELLOW_FILL = PatternFill("solid", bgColor="FFFFFF00")
NOTHING = DifferentialStyle(numFmt=NumberFormat(170, ";;;"))


def sheet_with(change: Callable[[Any], None]) -> Any:
    """Return the part of a workbook with 4711 in B2."""
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet["A1"], sheet["B2"] = "seen", 4711
    change(sheet)
    (part,) = xlsx_parts(saved(book), Limits())
    return part


def fonts(font: Font | None = None, fill: PatternFill | None = None, number_format: str = "General") -> Any:
    def change(sheet: Any) -> None:
        sheet["B2"].number_format = number_format
        if font is not None:
            sheet["B2"].font = font
        if fill is not None:
            sheet["B2"].fill = fill

    return change


def rule(*rules: Any, font: Font | None = None) -> Any:
    def change(sheet: Any) -> None:
        fonts(font)(sheet)
        for each in rules:
            sheet.conditional_formatting.add("A2:B9", each)

    return change


def zeros(shown: bool) -> Any:
    def change(sheet: Any) -> None:
        sheet["B2"], sheet.sheet_view.showZeros = 0, shown

    return change


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        (fonts(WHITE_FONT), fonts(WHITE_FONT, BLACK_FILL)),
        (fonts(BLACK_FONT, BLACK_FILL), fonts(BLACK_FONT)),
        (fonts(Font(color=Color(theme=0))), fonts(Font(color=Color(theme=1)))),
        (fonts(Font(color=Color(theme=1, tint=1.0))), fonts(Font(color=Color(theme=0, tint=-0.5)))),
        (fonts(Font(color=Color(indexed=9))), fonts(Font(color=Color(indexed=10)))),
        (fonts(number_format="[White]0"), fonts(number_format="[Red]0;[White]-0")),
        (fonts(number_format="[Color2]0"), fonts(number_format="[Color 3]0")),
        (zeros(False), zeros(True)),
        (rule(FormulaRule(["TRUE"], font=WHITE_FONT)), rule(FormulaRule(["TRUE"], font=Font(color="FFFF0000")))),
        (rule(Rule("expression", dxf=NOTHING, formula=["TRUE"])), rule(FormulaRule(["TRUE"], fill=PatternFill()))),
    ],
)
def test_numbers_in_the_colour_of_their_cell_are_left_out_and_counted(hidden: Any, shown: Any) -> None:
    part = sheet_with(hidden)
    assert (part[1:], len(part.hidden), part.doubtful) == (["A1: seen"], 1, [])
    part = sheet_with(shown)
    assert (len(part), part.hidden, part.doubtful) == (3, [], [])


@pytest.mark.parametrize("properties", [b"", b"<cp:core", b"<other/>"], ids=["empty", "cut off", "another root"])
def test_damaged_properties_leave_a_workbook_readable(properties: bytes) -> None:
    book = openpyxl.Workbook()
    book.worksheets[0]["A1"] = "seen"
    with zipfile.ZipFile(io.BytesIO(saved(book))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (part,) = xlsx_parts(make_zip({**files, "docProps/core.xml": properties}), Limits())
    assert part[1:] == ["A1: seen"]


def test_sheet_whose_part_is_no_worksheet_is_not_read_as_an_empty_one() -> None:
    book = openpyxl.Workbook()
    book.create_sheet()["A1"] = "seen"
    with zipfile.ZipFile(io.BytesIO(saved(book))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert xlsx_parts(make_zip(files), Limits())[1][1:] == ["A1: seen"]
    with pytest.raises(ValueError, match="no worksheet"):
        xlsx_parts(make_zip({**files, "xl/worksheets/sheet2.xml": b"<other/>"}), Limits())


@pytest.mark.parametrize("theme", [b"", b"<a:theme", b"<other/>"], ids=["empty", "cut off", "another root"])
def test_damaged_theme_leaves_the_text_readable_and_white_text_hidden(theme: bytes) -> None:
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet["A1"], sheet["A2"], sheet["A3"] = "seen", "secret", "accent"
    sheet["A2"].font, sheet["A3"].font = Font(color=Color(theme=0)), Font(color=Color(theme=4))
    with zipfile.ZipFile(io.BytesIO(saved(book))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (part,) = xlsx_parts(make_zip({**files, "xl/theme/theme1.xml": theme}), Limits())
    assert (part[1:], part.hidden) == (["A1: seen", "A3: accent"], ["secret"])

    secret = run("<w:color w:themeColor='background1'/>")
    body = f"<w:document {W}><w:body><w:p><w:r><w:t>seen</w:t></w:r></w:p>{secret}</w:body></w:document>".encode()
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relations = f"<r><n Id='t' Type='{relation}/theme' Target='theme/theme1.xml'/></r>".encode()
    parts = {"word/document.xml": body, "word/_rels/document.xml.rels": relations, "word/theme/theme1.xml": theme}
    (page,) = docx_parts(make_zip(parts), Limits())
    assert ([line for line in page if line], page.hidden) == (["seen"], ["secret", "4711"])


def table_over(font: Font) -> Any:
    def change(sheet: Any) -> None:
        sheet["A1"], sheet["B1"], sheet["A2"], sheet["B2"].font = "seen", "b", "x", font
        sheet.add_table(Table(displayName="t", ref="A1:B2", tableStyleInfo=TableStyleInfo(name="TableStyleMedium2")))

    return change


def narrow(width: float, number_format: str = "#,##0.00", **alignment: Any) -> Any:
    def change(sheet: Any) -> None:
        sheet["B2"].value, sheet["B2"].number_format = 123456789.5, number_format
        sheet["B2"].alignment = Alignment(**alignment)
        sheet.column_dimensions["B"].width = width

    return change


@pytest.mark.parametrize(
    ("doubtful", "certain"),
    [
        (rule(FormulaRule(["A1=B1"], font=WHITE_FONT)), rule(FormulaRule(["A1=B1"], font=Font(bold=True)))),
        (
            rule(FormulaRule(["A1=B1"], fill=BLACK_FILL), font=BLACK_FONT),
            rule(FormulaRule(["A1=B1"], fill=YELLOW_FILL)),
        ),
        (table_over(WHITE_FONT), table_over(BLACK_FONT)),
        (narrow(4), narrow(14)),
        (narrow(2, "General"), narrow(6, "General")),
        (narrow(4), narrow(4, shrink_to_fit=True)),
    ],
)
def test_numbers_that_may_not_be_seen_are_read_with_a_warning(doubtful: Any, certain: Any) -> None:
    part = sheet_with(doubtful)
    assert (len(part), part.hidden, len(part.doubtful)) == (3, [], 1)
    part = sheet_with(certain)
    assert (len(part), part.hidden, part.doubtful) == (3, [], [])


@pytest.mark.filterwarnings("ignore:Failed to load a conditional formatting rule")  # of openpyxl
@pytest.mark.parametrize("reference", ["#REF!", "A1:ZZZZ9", "Sheet1!A1:B2"])
def test_formats_and_tables_of_areas_that_do_not_exist_are_ignored(reference: str) -> None:
    book = openpyxl.Workbook()
    table_over(WHITE_FONT)(book.worksheets[0])
    book.worksheets[0].conditional_formatting.add("A1:B2", FormulaRule(["A1=B1"], font=WHITE_FONT))
    with zipfile.ZipFile(io.BytesIO(saved(book))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name, kind in (("xl/worksheets/sheet1.xml", "sqref"), ("xl/tables/table1.xml", "ref")):
        known, other = (f' {kind}="{area}"'.encode() for area in ("A1:B2", reference))
        assert known in parts[name]
        parts[name] = parts[name].replace(known, other)
    (part,) = xlsx_parts(make_zip(parts), Limits())
    assert (len(part), part.doubtful) == (3, [])


def test_white_parts_of_a_cell_are_left_out_and_counted() -> None:
    book = openpyxl.Workbook()
    white, red = InlineFont(color="FFFFFFFF"), InlineFont(color="FFFF0000")
    book.worksheets[0]["A1"] = CellRichText("12", TextBlock(white, "345"), TextBlock(red, "6"))
    (part,) = xlsx_parts(saved(book), Limits())
    assert (part[1:], part.hidden) == (["A1: 126"], ["345"])


def test_only_rows_that_a_sheet_does_not_list_are_hidden_by_default() -> None:
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    for row in range(1, 4):
        sheet.cell(row, 1, f"row{row}")
    sheet.row_dimensions[2].hidden = True
    sheet.sheet_format.zeroHeight = True  # of the unused rows below, as people hide them
    (part,) = xlsx_parts(saved(book), Limits())
    assert (part[1:], part.hidden) == (["A1: row1", "A3: row3"], ["row2"])


@pytest.mark.parametrize(
    ("found", "written"),
    [
        ('<cellStyle name="[^"]*"', "<cellStyle"),
        ("<xf ", '<xf someProgram="1" '),
        ("<cellStyleXfs.*</cellStyleXfs>", ""),
        (
            "(<font>.*?</font>)",
            r'<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
            r'<mc:Choice Requires="hs">\1</mc:Choice><mc:Fallback>\1</mc:Fallback></mc:AlternateContent>',
        ),
    ],
    ids=["a style without a name", "an unknown attribute", "no styles to refer to", "alternative fonts"],
)
def test_workbook_with_styles_that_openpyxl_refuses_keeps_its_formats(found: str, written: str) -> None:
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet["A1"], sheet["B1"], sheet["C1"] = datetime.date(2024, 3, 12), 0.19, "12.50"
    sheet["B1"].number_format = "0%"
    sheet["C1"].font = Font(strike=True)
    sheet["D1"], sheet["E1"], sheet["D1"].font, sheet["E1"].font = "white", "light", WHITE_FONT, WHITE_FONT
    sheet["E1"].fill = BLACK_FILL
    with zipfile.ZipFile(io.BytesIO(saved(book))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    changed = re.sub(found, written, parts["xl/styles.xml"].decode(), flags=re.DOTALL)
    (part,) = xlsx_parts(make_zip(parts | {"xl/styles.xml": changed.encode()}), Limits())
    assert part[1:] == ["A1: 2024-03-12   B1: 19% [0.19]   E1: light"]
    assert (part.struck, part.hidden) == (["12.50"], ["white"])


def test_only_formulas_without_values_give_a_warning() -> None:
    book, out = openpyxl.Workbook(), io.BytesIO()
    sheet = book.active
    assert sheet is not None
    sheet["A1"], sheet["A2"], sheet["A3"], sheet["B3"] = 1, "=A1+1", "=A1+2", "=A1+3"
    sheet.row_dimensions[2].hidden = True
    book.save(out)
    (part,) = xlsx_parts(out.getvalue(), Limits())
    (warning,) = part.warnings
    assert (warning.code, warning.count, warning.excerpt) == (WarningCode.FORMULAS_WITHOUT_VALUES, 2, "A3 B3")
    assert paginate([["one"], part], "xlsx", Limits())[1].warnings == (replace(warning, page=2),)

    # As a spreadsheet program saves it: with values, one of them an empty text.
    members = {}
    with zipfile.ZipFile(out) as file:
        for name in file.namelist():
            content = file.read(name)
            if name == "xl/worksheets/sheet1.xml":
                content = content.replace(b"<f>A1+2</f><v></v>", b"<f>A1+2</f><v>3</v>")
                content = content.replace(b'<c r="B3">', b'<c r="B3" t="str">')
            members[name] = content
    (part,) = xlsx_parts(make_zip(members), Limits())
    assert part.warnings == [] and "A3: 3" in part


def test_docx_values_are_under_their_heading_in_tables_with_merged_cells() -> None:
    document = docx.Document()
    table = document.add_table(rows=2, cols=3)
    for cell, text in zip(table.rows[0].cells, ("Item", "Delivered", "Amount"), strict=True):
        cell.text = text
    table.cell(1, 0).merge(table.cell(1, 1)).text = "Total"
    table.cell(1, 2).text = "124.00"
    file = io.BytesIO()
    document.save(file)

    lines = docx_parts(file.getvalue(), Limits())[0]

    heading, total = [line for line in lines if line][:2]
    assert heading.index("Amount") == total.index("124.00")


def test_values_below_a_merged_cell_are_left_out_and_counted() -> None:
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    for address, value in (("A1", "Desk"), ("A2", "Old"), ("B1", "Oak"), ("C2", "Ash"), ("A3", "Lamp")):
        sheet[address] = value
    file = io.BytesIO()
    book.save(file)
    content = make_zip(
        {
            info: data.replace(b"</sheetData>", b'</sheetData><mergeCells><mergeCell ref="A1:B2"/></mergeCells>')
            for info, data in ((name, zipfile.ZipFile(file).read(name)) for name in zipfile.ZipFile(file).namelist())
        }
    )

    (part,) = xlsx_parts(content, Limits())

    assert part[1:] == ["A1: Desk", "C2: Ash", "A3: Lamp"]
    assert sorted(part.hidden) == ["Oak", "Old"]


def make_docx_with_chunks(files: dict[str, bytes], body: str | None = None) -> bytes:
    relations = "".join(f"<Relationship Id='{name}' Type='x/aFChunk' Target='{name}'/>" for name in files)
    chunks = "".join(f"<w:altChunk r:id='{name}'/>" for name in [*files, "missing"]) if body is None else body
    r = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    return make_zip(
        {
            "word/document.xml": f"<w:document {W} {r}><w:body>{chunks}</w:body></w:document>".encode(),
            "word/_rels/document.xml.rels": f"<Relationships>{relations}</Relationships>".encode(),
            **{f"word/{name}": content for name, content in files.items()},
        }
    )


def test_files_inserted_into_a_docx_are_read_in_their_place_or_reported() -> None:
    html = "<html><body><p>Größe</p><table><tr><td>Total<td>19,50</table>".encode()
    web_page = b"MIME-Version: 1.0\nContent-Type: text/html\nContent-Transfer-Encoding: base64\n\nPHA+VGF4IDMsMTA=\n"
    word = make_docx("<w:p><w:r><w:t>Delivery 7</w:t></w:r></w:p>")
    inner = make_docx_with_chunks({"deep.docx": word})
    files = {
        "a.html": html,
        "b.mht": web_page,
        "c.docx": word,
        "d.txt": b"Thank you",
        "e.rtf": b"{\\rtf1 lost}",
        "f.docx": inner,
    }
    (part,) = docx_parts(make_docx_with_chunks(files), Limits())
    assert [line for line in part if line] == ["Größe", "Total   19,50", "Tax 3,10", "Delivery 7", "Thank you"]
    assert [(one.code, one.count) for one in part.warnings] == [
        (WarningCode.ATTACHMENTS_NOT_READ, 2),
        (WarningCode.ATTACHMENTS_NOT_READ, 2),
    ]


def test_strict_open_xml_is_read() -> None:
    def strict(data: bytes) -> bytes:
        archive = zipfile.ZipFile(io.BytesIO(data))
        return make_zip(
            {
                name: re.sub(
                    rb"http://schemas.openxmlformats.org/(\w+)/2006/(main|relationships)",
                    rb"http://purl.oclc.org/ooxml/\1/\2",
                    archive.read(name),
                )
                if b"package/2006" not in archive.read(name)[:300]
                else archive.read(name)
                for name in archive.namelist()
            }
        )

    (part,) = docx_parts(strict(make_docx("<w:p><w:r><w:t>Total 19,50</w:t></w:r></w:p>")), Limits())
    assert part == ["Total 19,50"]
    book = openpyxl.Workbook()
    book.worksheets[0]["B2"] = 19.5
    out = io.BytesIO()
    book.save(out)
    data = strict(out.getvalue())
    assert b"purl.oclc.org" in zipfile.ZipFile(io.BytesIO(data)).read("xl/workbook.xml")
    (sheet,) = xlsx_parts(data, Limits())
    assert sheet[1:] == ["B2: 19.5"]


def with_decoy(data: bytes, main: str, decoy: bytes) -> bytes:
    """Return an Office file with its main part and styles renamed, and a part with the usual name that no program
    shows."""
    folder, name = main.split("/")
    other, styles = f"{folder}/other_{name}", f"{folder}/styles.xml"
    archive = zipfile.ZipFile(io.BytesIO(data))
    members: dict[str, bytes] = {}
    for member in archive.namelist():
        content = archive.read(member)
        if member in ("[Content_Types].xml", "_rels/.rels", f"{folder}/_rels/{name}.rels"):
            content = content.replace(name.encode(), f"other_{name}".encode())
            content = content.replace(b"styles.xml", b"other_styles.xml")
        renamed = {
            main: other,
            styles: f"{folder}/other_styles.xml",
            f"{folder}/_rels/{name}.rels": f"{folder}/_rels/other_{name}.rels",
        }
        members[renamed.get(member, member)] = content
    if decoy:
        members[main] = decoy
        kind = re.search(rb'PartName="/%s" ContentType="([^"]+)"' % other.encode(), members["[Content_Types].xml"])
        assert kind is not None
        members["[Content_Types].xml"] = members["[Content_Types].xml"].replace(
            b"<Override ", b'<Override PartName="/%s" ContentType="%s"/><Override ' % (main.encode(), kind[1]), 1
        )
    return make_zip(members)


@pytest.mark.parametrize("has_decoy", [False, True])
def test_the_main_part_is_the_one_that_the_package_names(has_decoy: bool) -> None:
    word = docx.Document()
    word.add_paragraph("Total 19,50")
    word.sections[0].header.paragraphs[0].text = "Acme"
    out = io.BytesIO()
    word.save(out)
    decoy = zipfile.ZipFile(io.BytesIO(make_docx(run("")))).read("word/document.xml") if has_decoy else b""
    data = with_decoy(out.getvalue(), "word/document.xml", decoy)
    assert media_type(data, "a.docx") == DOCX
    assert docx_parts(data, Limits()) == [["Acme", "Total 19,50"]]

    book = openpyxl.Workbook()
    book.worksheets[0]["B2"] = 19.5
    book.worksheets[0]["B2"].number_format = '0.00 "EUR"'
    other = openpyxl.Workbook()
    other.worksheets[0].title = "Decoy"
    decoy = zipfile.ZipFile(io.BytesIO(saved(other))).read("xl/workbook.xml") if has_decoy else b""
    data = with_decoy(saved(book), "xl/workbook.xml", decoy)
    assert media_type(data, "a.xlsx") == XLSX
    assert xlsx_parts(data, Limits()) == [["Sheet: Sheet", "B2: 19.50 EUR"]]


def test_docx_comments_are_read() -> None:
    document = make_zip(
        {
            "word/document.xml": f"<w:document {W}><w:p><w:r><w:t>x</w:t></w:r></w:p></w:document>".encode(),
            "word/comments.xml": f"<w:comments {W}><w:comment><w:p><w:r><w:t>Paid in May</w:t></w:r></w:p></w:comment>"
            "</w:comments>".encode(),
        }
    )
    (part,) = docx_parts(document, Limits())
    assert part == ["x", "Comment: Paid in May"]


def test_text_and_notes_below_a_merged_cell_count_as_hidden() -> None:
    def cell(text: str, merge: str) -> str:
        return f"<w:tc><w:tcPr><w:vMerge{merge}/></w:tcPr><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"

    start = " w:val='restart'"
    rows = f"<w:tr>{cell('seen', start)}</w:tr><w:tr>{cell('below', '')}</w:tr>"
    (part,) = docx_parts(make_docx(f"<w:tbl>{rows}</w:tbl>"), Limits())
    assert [line for line in part if line] == ["seen"] and part.hidden == ["below"]
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet["A1"] = 1
    for address in ("A1", "B2"):
        sheet[address].comment = Comment(f"on {address}", "x")
    out = io.BytesIO()
    book.save(out)
    source = zipfile.ZipFile(io.BytesIO(out.getvalue()))
    merged = b"</sheetData><mergeCells count='1'><mergeCell ref='A1:B2'/></mergeCells>"
    files = {name: source.read(name).replace(b"</sheetData>", merged) for name in source.namelist()}
    (part,) = xlsx_parts(make_zip(files), Limits())
    assert part[1:] == ["A1: 1", "Note at A1: on A1"] and part.hidden == ["on", "B2"]


def test_chart_sheets_are_read_and_sheets_without_a_part_are_reported() -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active["A1"] = "Total"
    for title, text in (("Chart", "Revenue 4711"), ("Old", "Loss")):
        chart: Any = BarChart()
        chart.title = text
        sheet: Any = book.create_chartsheet(title)
        sheet.add_chart(chart)
    sheet.sheet_state = "hidden"
    book.create_sheet("Lost")
    with zipfile.ZipFile(io.BytesIO(saved(book))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    named = files["xl/workbook.xml"]
    files["xl/workbook.xml"] = re.sub(rb'(name="Lost"[^>]*r:id=")\w+', rb"\1", named)
    assert files["xl/workbook.xml"] != named
    first, chart = xlsx_parts(make_zip(files), Limits())
    assert (list(first), list(chart)) == (["Sheet: Sheet", "A1: Total"], ["Sheet: Chart", "Revenue 4711"])
    assert chart.hidden == ["Loss"]
    assert chart.warnings == [ReadingWarning(WarningCode.SHEETS_NOT_READ, None, 1, "Lost")]


ALTERNATIVES = (
    "<w:p><w:r><mc:AlternateContent xmlns:mc='http://schemas.openxmlformats.org/markup-compatibility/2006' "
    "xmlns:x='{}'>"
    "<mc:Choice Requires='x'><w:t>choice</w:t></mc:Choice><mc:Fallback><w:t>fallback</w:t></mc:Fallback>"
    "</mc:AlternateContent></w:r></w:p>"
)


@pytest.mark.parametrize(
    ("extension", "shown"),
    [
        ("http://schemas.microsoft.com/office/word/2010/wordprocessingShape", "choice"),
        ("https://example.com/unknown", "fallback"),
    ],
)
def test_docx_alternative_that_word_shows_is_read(extension: str, shown: str) -> None:
    document = f"<w:document {W}><w:body>{ALTERNATIVES.format(extension)}</w:body></w:document>"
    (part,) = docx_parts(make_zip({"word/document.xml": document.encode()}), Limits())
    assert list(part) == [shown]


def test_docx_text_of_drawings_of_other_programs_is_read() -> None:
    art = "<a:p xmlns:a='http://schemas.openxmlformats.org/drawingml/2006/main'><a:r><a:t>Total 55</a:t></a:r></a:p>"
    document = f"<w:document {W}><w:body><w:p><w:r><w:drawing>{art}</w:drawing></w:r></w:p></w:body></w:document>"
    (part,) = docx_parts(make_zip({"word/document.xml": document.encode()}), Limits())
    assert [line.strip() for line in part] == ["Total 55"]
