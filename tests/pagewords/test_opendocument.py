from __future__ import annotations

import io
import zipfile

import pytest

from generated_files import make_zip
from pagewords import sniff
from pagewords.errors import OverLimit, PasswordProtected, Unsupported, WrongType
from pagewords.opendocument import opendocument_parts
from pagewords.pages import Limits
from pagewords.sandbox import read_file

NAMES = " ".join(
    f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for short, name in {
        "office": "office",
        "text": "text",
        "table": "table",
        "draw": "drawing",
        "style": "style",
        "fo": "xsl-fo-compatible",
        "presentation": "presentation",
    }.items()
)
NAMES += ' xmlns:xlink="http://www.w3.org/1999/xlink"'
STYLES = (
    '<style:style style:family="text" style:name="white"><style:text-properties fo:color="#ffffff"/></style:style>'
    '<style:style style:family="text" style:name="pale"><style:text-properties fo:color="#cccccc"/></style:style>'
    '<style:style style:family="text" style:name="light"><style:text-properties fo:color="#ffffff" '
    'fo:background-color="#333333"/></style:style>'
    '<style:style style:family="text" style:name="black"><style:text-properties fo:color="#000000" '
    'fo:background-color="#000000"/></style:style>'
    '<style:style style:family="text" style:name="gone"><style:text-properties text:display="none"/></style:style>'
    '<style:style style:family="text" style:name="tiny"><style:text-properties fo:font-size="1pt"/></style:style>'
    '<style:style style:family="text" style:name="mm"><style:text-properties fo:font-size="0.3mm"/></style:style>'
    '<style:style style:family="text" style:name="percent"><style:text-properties fo:font-size="5%"/></style:style>'
    '<style:style style:family="text" style:name="up">'
    '<style:text-properties style:text-position="super 58%"/></style:style>'
    '<style:style style:family="text" style:name="old">'
    '<style:text-properties style:text-line-through-style="solid"/></style:style>'
    '<text:list-style style:name="L">'
    '<text:list-level-style-number text:level="1" style:num-format="1" style:num-prefix="(" style:num-suffix=")"/>'
    '<text:list-level-style-number text:level="2" style:num-format="A" style:num-suffix="."/></text:list-style>'
    '<style:style style:family="text" style:name="child" style:parent-style-name="gone"/>'
    '<style:style style:family="paragraph" style:name="next">'
    '<style:paragraph-properties fo:break-before="page"/></style:style>'
    '<style:style style:family="table" style:name="off"><style:table-properties table:display="false"/></style:style>'
    '<style:style style:family="drawing-page" style:name="skipped">'
    '<style:drawing-page-properties presentation:visibility="hidden"/></style:style>'
)


def opendocument(kind: str, body: str, **more: bytes) -> bytes:
    content = (
        f"<office:document-content {NAMES}><office:automatic-styles>{STYLES}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    media = f"application/vnd.oasis.opendocument.{kind}".encode()
    return zip_with_stored_first_file(
        {"mimetype": media, "content.xml": content.encode(), "META-INF/manifest.xml": b"", **more}
    )


def zip_with_stored_first_file(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else None)
    return out.getvalue()


def lines(kind: str, body: str) -> list[list[str]]:
    return [list(part) for part in opendocument_parts(opendocument(kind, body), Limits())]


def test_paragraphs_lists_tables_and_text_boxes_are_read_in_order() -> None:
    body = (
        "<text:h>Invoice</text:h><text:p>Total:<text:tab/>10<text:span text:style-name='up'>99</text:span>"
        "<text:s text:c='2'/>EUR<text:line-break/>net</text:p>"
        "<text:list><text:list-item><text:p>item</text:p></text:list-item></text:list>"
        "<table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>"
        "<table:table-cell><text:p>b</text:p></table:table-cell></table:table-row></table:table-header-rows></table:table>"
        "<text:p>with <draw:frame><draw:text-box><text:p>box</text:p></draw:text-box></draw:frame>more</text:p>"
        "<text:p>note<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>below</text:p>"
        "</text:note-body></text:note></text:p><text:p text:style-name='next'>page 2</text:p>"
    )
    assert lines("text", body) == [
        ["Invoice", "Total:  10⁹⁹  EUR", "net", "item", "a   b", "", "with more", "box", "note", "below"],
        ["page 2"],
    ]


def test_formulas_ruby_text_and_shapes_are_separated_from_other_text() -> None:
    formula = "<math xmlns='http://www.w3.org/1998/Math/MathML'><mfrac><mn>1</mn><mn>{}</mn></mfrac></math>"
    frame = "<draw:frame><draw:object{}</draw:object><draw:image xlink:href='Replacement'/></draw:frame>"
    file, inside = frame.format(" xlink:href='./Object 1'>"), frame.format(f">{formula.format(4)}")
    ruby = "<text:ruby><text:ruby-base>{}</text:ruby-base><text:ruby-text>{}</text:ruby-text></text:ruby>"
    shape = "<draw:custom-shape><text:p>5</text:p><text:p>6</text:p></draw:custom-shape>"
    body = f"<text:p>2{file}3</text:p>{inside}<text:p>{ruby.format('漢字', 'かんじ')}{ruby.format(12, 34)}</text:p>"
    gone = f"<text:span text:style-name='gone'>{inside}</text:span>"
    body += f"<text:p>7{shape}</text:p><text:p>{gone}{frame.format('>')}</text:p>"
    (part,) = opendocument_parts(
        opendocument("text", body, **{"Object 1/content.xml": formula.format(2).encode()}), Limits()
    )
    assert part == ["2 1/2 3", "1/4", "漢字(かんじ)12(34)", "7", "5", "6", ""]
    assert part.hidden == ["1/4"] and len(part.pictures) == 1


def test_list_numbers_are_read_and_struck_out_text_gives_a_warning() -> None:
    item = "<text:list-item><text:p>{}</text:p>{}</text:list-item>"
    inner = f"<text:list>{item.format('c', '')}</text:list>"
    body = f"<text:list text:style-name='L'>{item.format('a', '')}{item.format('b', inner)}</text:list>"
    body += f"<text:list text:style-name='L'>{item.format('d', '')}</text:list>"
    body += f"<text:list text:style-name='L' text:continue-numbering='true'>{item.format('e', '')}</text:list>"
    body += "<text:p>now 49 <text:span text:style-name='old'>99 EUR</text:span></text:p>"
    (part,) = opendocument_parts(opendocument("text", body), Limits())
    assert [line.strip() for line in part] == ["(1) a", "(2) b", "A. c", "(1) d", "(2) e", "now 49"]
    assert part.struck == ["99", "EUR"]


@pytest.mark.parametrize(
    ("style", "shown"),
    [
        ("gone", "pale"), ("tiny", "pale"), ("mm", "pale"), ("percent", "pale"), ("child", "pale"), ("white", "pale"),
        ("white", "light"), ("black", "light"),
    ],
)  # fmt: skip
def test_hidden_text_is_left_out_and_counted(style: str, shown: str) -> None:
    body = f"<text:p>Total: 1<text:span text:style-name='{style}'>secret 4711</text:span></text:p>"
    (part,) = opendocument_parts(opendocument("text", body), Limits())
    assert (list(part), part.hidden) == (["Total: 1"], ["secret", "4711"])
    (part,) = opendocument_parts(opendocument("text", body.replace(style, shown)), Limits())
    assert (list(part), part.hidden) == (["Total: 1secret 4711"], [])


@pytest.mark.parametrize(("style", "words"), [("white", ["secret", "4711"]), ("pale", [])])
def test_white_text_in_a_shape_is_read_with_a_warning(style: str, words: list[str]) -> None:
    text = f"<text:p><text:span text:style-name='{style}'>secret 4711</text:span></text:p>"
    body = f"<text:p>Total<draw:frame><draw:text-box>{text}</draw:text-box></draw:frame></text:p>"
    (part,) = opendocument_parts(opendocument("text", body), Limits())
    assert (list(part), part.hidden, part.doubtful) == (["Total", "secret 4711"], [], words)


def test_deleted_text_is_not_read() -> None:
    body = (
        "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
        "<text:p>kept<office:annotation><text:p>comment</text:p></office:annotation> on</text:p>"
        "<text:section text:display='none'><text:p>hidden</text:p></text:section>"
    )
    (part,) = opendocument_parts(opendocument("text", body), Limits())
    assert (list(part), part.hidden) == (["kept on", "", "Comment: comment"], ["hidden"])


def test_cells_have_addresses_and_repeated_cells_are_repeated() -> None:
    cell = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>"
    body = (
        "<table:table table:name='Sums'><table:table-row>"
        + cell.format("", "Total")
        + "<table:table-cell table:number-columns-repeated='3'/>"
        + cell.format(" table:number-columns-repeated='2'", "42")
        + "</table:table-row><table:table-row table:number-rows-repeated='4'><table:table-cell/></table:table-row>"
        + "<table:table-row table:visibility='collapse'>"
        + cell.format("", "secret")
        + "</table:table-row>"
        + "<table:table-row>"
        + cell.format("", "end")
        + "</table:table-row>"
        + "<table:table-row table:number-rows-repeated='1048000'><table:table-cell/></table:table-row></table:table>"
        + "<table:table table:name='Off' table:style-name='off'><table:table-row>"
        + cell.format("", "away")
        + "</table:table-row></table:table>"
    )
    (part,) = opendocument_parts(opendocument("spreadsheet", body), Limits())
    assert list(part) == ["Sheet: Sums", "A1: Total   E1: 42   F1: 42", "A7: end"]
    assert part.hidden == ["secret", "away"]


def test_slides_become_pages_with_notes_and_hidden_slides_are_left_out() -> None:
    slide = "<draw:page{}><draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>{}</draw:page>"
    box = "<draw:frame><draw:text-box><text:p>said</text:p></draw:text-box></draw:frame>"
    notes = f"<presentation:notes>{box}</presentation:notes>"
    body = slide.format("", "one", notes) + slide.format(" draw:style-name='skipped'", "secret", "")
    first, *rest = opendocument_parts(opendocument("presentation", body), Limits())
    assert list(first) == ["one", "Notes:", "said"] and first.hidden == ["secret"]
    assert [line for part in rest for line in part if line] == []


def test_excessive_cell_repeats_are_refused() -> None:
    cell = "<table:table-cell{}><text:p>x</text:p></table:table-cell>"
    repeats = " table:number-{}-repeated='999999999'"
    for row, many in (("", repeats.format("columns")), (repeats.format("rows"), "")):
        table = f"<table:table><table:table-row{row}>{cell.format(many)}</table:table-row></table:table>"
        with pytest.raises(OverLimit):
            opendocument_parts(opendocument("spreadsheet", table), Limits())


def test_entities_passwords_and_missing_parts_are_refused() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
    with pytest.raises(Unsupported):
        opendocument_parts(make_zip({"content.xml": bomb}), Limits())
    with pytest.raises(PasswordProtected):
        opendocument_parts(make_zip({"META-INF/manifest.xml": b"<encryption-data/>", "content.xml": b"x"}), Limits())
    with pytest.raises(WrongType):
        opendocument_parts(make_zip({"a.xml": b"<a/>"}), Limits())


@pytest.mark.anyio
async def test_workbook_is_read_in_the_sandbox(tmp_path) -> None:
    table = (
        "<table:table table:name='S'><table:table-row><table:table-cell><text:p>Total: 1</text:p></table:table-cell>"
    )
    (tmp_path / "a").write_bytes(opendocument("spreadsheet", f"{table}</table:table-row></table:table>"))
    found = await read_file(tmp_path / "a", "a", Limits())
    assert found.media_type == sniff.ODS and "Total: 1" in found.pages[0].text


def test_cells_below_a_merged_cell_are_left_out_and_counted() -> None:
    row = (
        '<table:table-row><table:table-cell table:number-columns-spanned="2"><text:p>Desk</text:p></table:table-cell>'
        "<table:covered-table-cell><text:p>Old</text:p></table:covered-table-cell>"
        "<table:table-cell><text:p>Oak</text:p></table:table-cell></table:table-row>"
    )
    file = opendocument("spreadsheet", f'<table:table table:name="T">{row}</table:table>')

    (part,) = opendocument_parts(file, Limits())

    assert part[1:] == ["A1: Desk   C1: Oak"]
    assert part.hidden == ["Old"]


def test_comments_and_printed_headers_and_footers_are_read() -> None:
    comment = "<office:annotation><text:sender>Ann</text:sender><text:p>paid in May</text:p></office:annotation>"
    text = f"<text:p>Total{comment} 5</text:p>"
    assert opendocument_parts(opendocument("text", text), Limits()) == [["Total 5", "Comment: paid in May"]]
    gone = comment.replace("May", "June")
    rows = (
        f"<table:table-row><table:table-cell>{comment}<text:p>5</text:p></table:table-cell></table:table-row>"
        f'<table:table-row table:visibility="collapse"><table:table-cell>{gone}</table:table-cell></table:table-row>'
    )
    sheets = f'<table:table table:name="A" table:style-name="T">{rows}</table:table><table:table table:name="B"/>'
    styles = (
        f"<office:document-styles {NAMES}><office:automatic-styles><style:style style:family='table' style:name='T' "
        "style:master-page-name='M'/></office:automatic-styles><office:master-styles>"
        '<style:master-page style:name="M"><style:header><text:p>Acme Ltd</text:p></style:header>'
        "<style:footer><style:region-left><text:p>Page <text:page-number>1</text:page-number></text:p>"
        '</style:region-left></style:footer><style:header-left style:display="false"><text:p>x</text:p>'
        '</style:header-left></style:master-page><style:master-page style:name="N"><style:header><text:p>y</text:p>'
        "</style:header></style:master-page></office:master-styles></office:document-styles>"
    )
    data = opendocument("spreadsheet", sheets, **{"styles.xml": styles.encode()})
    first, second = opendocument_parts(data, Limits())
    assert first == ["Sheet: A", "A1: 5", "Comment: paid in May", "Header: Acme Ltd", "Footer: Page"]
    assert first.hidden == ["paid", "in", "June"] and second == ["Sheet: B"]


def test_macros_and_a_late_media_type_are_no_reason_to_refuse() -> None:
    source = zipfile.ZipFile(io.BytesIO(opendocument("text", "<text:p>Total 5</text:p>")))
    macro = b'<!DOCTYPE script:module PUBLIC "-//OpenOffice.org//DTD OfficeDocument 1.0//EN" "module.dtd"><a/>'
    files = {name: source.read(name) for name in source.namelist() if name != "mimetype"}
    data = make_zip({**files, "Basic/Standard/Module1.xml": macro, "mimetype": sniff.ODT.encode()})
    assert sniff.media_type(data, "a.odt") == sniff.ODT
    assert opendocument_parts(data, Limits()) == [["Total 5"]]
