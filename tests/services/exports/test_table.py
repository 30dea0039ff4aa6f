"""CSV and XLSX: what went in comes out, numbers as numbers, and nothing is a formula."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from typing import Any

import openpyxl
import pytest
from made_extraction import extraction, found

from fieldmark.errors import NotFound
from fieldmark.services.exports.shape import leaves_of
from fieldmark.services.exports.table import COLUMNS, as_csv, as_xlsx

INVOICE = extraction(
    {
        "number": "RE-1",
        "total": -19.5,
        "paid": False,
        "notes": None,
        "vendor": {"name": "Müller & Söhne"},
        "tags": ["a", "b"],
        "empty": [],
        "items": [
            {"name": "Screws", "price": 12.5, "taxes": [{"rate": 19}, {"rate": 7}], "sizes": [1, 2]},
            {"name": "Nuts", "amount": 3},
        ],
    },
    confidence_scores={"number": 0.97, "total": 0},
    evidence={"number": found(2, [0.1, 0.1, 0.2, 0.2], quote="RE 1"), "total": {"state": "not_found"}},
    locks={"vendor.name": {"by": "x", "at": "y"}},
    proposals=[{"path": "vendor.name", "new": "Mueller", "removed": False}],
)


def rows(content: bytes) -> list[list[str]]:
    csv.field_size_limit(1_000_000)  # the limit is the process's, and a reader of documents may have set another
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def sheets(content: bytes) -> dict[str, list[list[Any]]]:
    book = openpyxl.load_workbook(io.BytesIO(content))
    return {sheet.title: [list(row) for row in sheet.iter_rows(values_only=True)] for sheet in book.worksheets}


def test_csv_has_a_row_for_each_leaf_with_where_it_stands() -> None:
    content = as_csv(INVOICE, None)
    assert content.startswith(b"\xef\xbb\xbfpath,") and content.endswith(b"\r\n")
    head, *body = rows(content)
    assert head == list(COLUMNS)
    by_path = {row[0]: row[1:] for row in body}
    assert by_path["number"] == ["RE-1", "0.97", "found", "2", "RE 1", "", "", ""]
    assert by_path["total"] == ["-19.5", "0.0", "not_found", "", "", "", "", ""]
    assert by_path["paid"][0] == "false" and by_path["notes"][0] == "" and by_path["empty"][0] == "[]"
    assert by_path["vendor.name"] == ["Müller & Söhne", "", "", "", "", "true", '"Mueller"', ""]
    assert list(by_path)[-8:-2] == [
        "items[0].name",
        "items[0].price",
        "items[0].taxes[0].rate",
        "items[0].taxes[1].rate",
        "items[0].sizes[0]",
        "items[0].sizes[1]",
    ]


def test_csv_of_a_list_has_a_row_for_each_item() -> None:
    assert rows(as_csv(INVOICE, "items")) == [
        ["path", "name", "price", "sizes[0]", "sizes[1]", "amount"],
        ["items[0]", "Screws", "12.5", "1", "2", ""],
        ["items[1]", "Nuts", "", "", "", "3"],
    ]
    assert rows(as_csv(INVOICE, "items[].taxes"))[1:] == [["items[0].taxes[0]", "19"], ["items[0].taxes[1]", "7"]]
    with pytest.raises(NotFound, match=r"items\[\]\.taxes"):
        as_csv(INVOICE, "tags")


def test_a_workbook_has_a_sheet_of_fields_and_one_for_each_list() -> None:
    found_sheets = sheets(as_xlsx(INVOICE))
    assert list(found_sheets) == ["Fields", "items", "items .taxes"]
    head, *body = found_sheets["Fields"]
    assert head == list(COLUMNS)
    assert body[0] == ["number", "RE-1", 0.97, "found", 2, "RE 1", None, None, None]
    assert body[1][:4] == ["total", -19.5, 0, "not_found"] and body[2][1] is False and body[3][1] is None
    assert found_sheets["items"] == [
        ["path", "name", "price", "sizes[0]", "sizes[1]", "amount"],
        ["items[0]", "Screws", 12.5, 1, 2, None],
        ["items[1]", "Nuts", None, None, None, 3],
    ]


FORMULAS = [
    "=1+1",
    "+49 30 1234",
    "-5",
    "@SUM(A1)",
    "\t=1",
    "\n=1",
    "  =1+1",
    "\u00a0\u3000=1",
    "\u200b=1",
    "＝1+1",
    "−1",
]
# What a spreadsheet that splits at semicolons, or knows no quotes within a cell, would find a formula in.
CELLS_WITHIN = ["x;=1+cmd|' /C calc'!A0;", "a\n=1+1", 'a; "=1', "a\t@x", "a;＝1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_could_be_a_formula_is_text(text: str) -> None:
    row = extraction({"field": text, "items": [{text: text}]}, evidence={"field": {"quote": text, "state": "blank"}})
    for name in (None, "items"):
        for line in rows(as_csv(row, name)):
            assert all(not cell or cell[0] not in "=+-@\t\r\n" for cell in line), line
            # Behind a line break or tab, where another cell could begin, it is told to be text once more.
            shown = re.sub("^([\t\r\n])=", r"\1'=", text)
            assert f"'{shown}" in line or "path" in line
    content = as_xlsx(row)
    book = openpyxl.load_workbook(io.BytesIO(content))
    cell = book["Fields"]["B2"]
    assert (cell.data_type, cell.quotePrefix, cell.value) == ("s", True, text)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert not [name for name in archive.namelist() if b"<f>" in archive.read(name) or b"<f " in archive.read(name)]


@pytest.mark.parametrize("text", CELLS_WITHIN)
def test_a_cell_within_a_cell_is_no_formula_either(text: str) -> None:
    row = extraction({"field": text})
    shown = rows(as_csv(row, None))[1][1]
    assert not re.search('[;\t\r\n][\\s"]*[=+@＝]', shown) and shown.replace("'", "") == text.replace("'", "")
    assert openpyxl.load_workbook(io.BytesIO(as_xlsx(row)))["Fields"]["B2"].value == text


def test_numbers_stay_numbers_also_below_nought_and_text_of_digits_stays_text() -> None:
    values = {"a": -5, "b": -0.25, "c": "0049", "d": 1e300, "e": 2**60, "f": "1e5", "g": "#N/A", "h": "5-3 x@y a=b"}
    row = extraction(values)
    assert [line[1] for line in rows(as_csv(row, None))[1:]] == [
        "-5", "-0.25", "0049", "1e+300", "1152921504606846976", "1e5", "#N/A", "5-3 x@y a=b",
    ]  # fmt: skip
    book = openpyxl.load_workbook(io.BytesIO(as_xlsx(row)))
    cells = [book["Fields"].cell(line, 2) for line in range(2, 10)]
    # A spreadsheet would round 2**60.
    assert [cell.value for cell in cells] == [-5, -0.25, "0049", 1e300, str(2**60), "1e5", "#N/A", "5-3 x@y a=b"]
    assert [cell.data_type for cell in cells] == ["n", "n", "s", "n", "s", "s", "s", "s"]


def test_what_a_workbook_cannot_hold_is_made_to_fit() -> None:
    row = extraction({"control": "a\x01b\ud800", "long": "x" * 40_000})
    body = sheets(as_xlsx(row))["Fields"]
    assert body[1][1] == "a\ufffdb\ufffd" and len(body[2][1]) == 32_001
    assert rows(as_csv(row, None))[1][1] == "a\ufffdb\ufffd"


def test_titles_of_sheets_are_titles_whatever_the_list_is_called() -> None:
    names = ["Fields", "fields", "a/b:c*?[]\\", "x" * 40, "x" * 41, "'", "history", "=1", "a\uffff"]
    row = extraction({name: [{"a": 1}] for name in names})
    titles = list(sheets(as_xlsx(row)))
    assert len({title.casefold() for title in titles}) == len(titles) == len(names) + 1
    assert all(0 < len(title) <= 31 and not re.search(r"[\[\]:*?/\\']", title) for title in titles)
    assert "history" not in titles


def test_thousands_of_leaves_and_lists_stay_within_bounds() -> None:
    fields: dict[str, Any] = {"items": [{f"k{at}": at, "n": at} for at in range(300)]}
    fields |= {f"list{at}": [{"a": 1}] for at in range(100)}
    row = extraction(fields)
    found_sheets = sheets(as_xlsx(row))
    assert len(found_sheets["Fields"]) == 701 and len(found_sheets) == 51
    assert len(found_sheets["items"]) == 301 and len(found_sheets["items"][0]) == 201
    assert len(rows(as_csv(row, None))) == 701


@pytest.mark.parametrize(
    "given",
    [None, [], {"state": ["found"]}, {"state": "=1", "page": "1", "quote": 5}, {"page": True}, {"boxes": "x"}],
)  # fmt: skip
def test_evidence_that_is_none_is_left_out(given: Any) -> None:
    row = extraction({"a": 1}, evidence={"a": given}, confidence_scores={"a": "high"}, locks=[], proposals=None)
    assert rows(as_csv(row, None))[1] == ["a", "1", "", "", "", "", "", "", ""]


@pytest.mark.parametrize(
    "box", [[0, 0, 2, 1], [0.5, 0, 0.4, 1], [0, 0, 1, float("nan")], ["0", 0, 1, 1], [0, 0, 1], "0011", None]
)
def test_a_box_off_the_page_is_none_and_there_is_an_end_to_boxes(box: list[float]) -> None:
    on_it = [0.1, 0.1, 0.2, 0.2]
    row = extraction({"a": 1}, evidence={"a": {"state": "found", "page": 1, "boxes": [box, *[on_it] * 200]}})
    assert leaves_of(row)[0].boxes == [(0.1, 0.1, 0.2, 0.2)] * 99


def test_rows_stand_in_the_order_of_the_page_and_those_of_one_thing_together() -> None:
    def line(y: float) -> dict[str, object]:
        return found(1, [0.1, y, 0.2, y + 0.01])

    row = extraction(
        {"b": 1, "items": [{"p": 1, "q": 2}, {"p": 3, "q": 4}], "total": 9, "vendor": {"x": 1, "y": 2}},
        evidence={"total": line(0.9), "items[1].q": line(0.3), "vendor.y": line(0.1), "vendor.x": line(0.95)},
    )
    names = [cells[0] for cells in csv.reader(io.StringIO(as_csv(row, None).decode("utf-8-sig")))]
    together = ["vendor.y", "vendor.x", "items[0].p", "items[0].q", "items[1].q", "items[1].p"]
    assert names == ["path", *together, "total", "b"]


def test_what_is_wrong_stands_beside_the_value_or_in_a_row_of_its_own() -> None:
    row = extraction({"total": "x", "items": [{"price": 1}, {"price": "=2"}]}) | {
        "valid": False,
        "problems": [
            {"path": "total", "code": "type", "message": "total: a number is wanted"},
            {"path": "total", "code": "equals", "message": "they must be equal"},
            {"path": "items[1].price", "code": "type", "message": "=wrong"},
            {"path": "number", "code": "required", "message": "number: is missing"},
        ],
    }
    by_path = {path: said for path, *_, said in rows(as_csv(row, None))[1:]}
    assert by_path == {
        "total": "total: a number is wanted; they must be equal",
        "items[0].price": "",
        "items[1].price": "'=wrong",
        "number": "number: is missing",
    }
    assert [line[-1] for line in rows(as_csv(row, "items"))] == ["problem", "", "'=wrong"]
    assert sheets(as_xlsx(row))["Fields"][0][-1] == "problem"
    assert [line[-1] for line in sheets(as_xlsx(row))["items"]] == ["problem", None, "=wrong"]
