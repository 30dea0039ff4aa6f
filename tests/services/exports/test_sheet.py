"""CSV and XLSX exports: values are preserved, numbers stay numbers, and no text becomes a formula."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from typing import Any

import openpyxl
import pytest
from extraction_row import extraction, found_evidence

from fieldmark.errors import NotFound
from fieldmark.services.exports.shape import leaves_of
from fieldmark.services.exports.sheet import COLUMNS, as_csv, as_xlsx

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
    evidence={"number": found_evidence(2, [0.1, 0.1, 0.2, 0.2], quote="RE 1"), "total": {"state": "not_found"}},
    statuses={
        "number": {"status": "found", "reason": None},
        "total": {"status": "needs_review", "reason": "not_found"},
        "vendor.name": {"status": "needs_review", "reason": "proposal"},
        "items[1].price": {"status": "needs_review", "reason": "missing"},
        "date": {"status": "accepted", "reason": "missing"},
        "tags": {"status": "needs_review", "reason": "breaks_schema"},
    },
    locks={"vendor.name": {"by": "x", "at": "y"}},
    proposals=[{"path": "vendor.name", "new": "Mueller", "removed": False}],
)


def parse_csv(content: bytes) -> list[list[str]]:
    csv.field_size_limit(1_000_000)  # a global limit that other tests change
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def parse_sheets(content: bytes) -> dict[str, list[list[Any]]]:
    book = openpyxl.load_workbook(io.BytesIO(content))
    return {sheet.title: [list(row) for row in sheet.iter_rows(values_only=True)] for sheet in book.worksheets}


def test_csv_has_a_row_per_value_with_its_evidence() -> None:
    content = as_csv(INVOICE, None)
    assert content.startswith(b"\xef\xbb\xbfpath,") and content.endswith(b"\r\n")
    head, *body = parse_csv(content)
    assert head == list(COLUMNS)
    by_path = {row[0]: row[1:] for row in body}
    assert by_path["number"] == ["RE-1", "found", "", "0.97", "2", "RE 1", "", "", ""]
    assert by_path["total"] == ["-19.5", "needs_review", "not_found", "0.0", "", "", "", "", ""]
    assert by_path["paid"][0] == "false" and by_path["notes"][0] == "" and by_path["empty"][0] == "[]"
    assert by_path["vendor.name"] == ["Müller & Söhne", "needs_review", "proposal", "", "", "", "true", '"Mueller"', ""]
    assert list(by_path)[8:14] == [
        "items[0].name",
        "items[0].price",
        "items[0].taxes[0].rate",
        "items[0].taxes[1].rate",
        "items[0].sizes[0]",
        "items[0].sizes[1]",
    ]


def test_missing_fields_have_rows_where_the_schema_has_them() -> None:
    by_path = {row[0]: row[1:4] for row in parse_csv(as_csv(INVOICE, None))[1:]}
    assert by_path["date"] == ["", "accepted", "missing"] and by_path["tags"] == ["", "needs_review", "breaks_schema"]
    assert by_path["items[1].price"] == ["", "needs_review", "missing"]
    schema = {"properties": {"date": {}, "number": {}, "items": {"items": {"properties": {"price": {}, "name": {}}}}}}
    listed = [row[0] for row in parse_csv(as_csv(INVOICE | {"schema": schema}, None))[1:]]
    assert listed[:2] == ["date", "number"] and listed[-1] == "tags"
    assert listed.index("items[1].price") + 1 == listed.index("items[1].name")


def test_proposal_for_a_list_is_shown_at_each_of_its_values() -> None:
    new = [{"name": "Bolts"}, {"name": None}]
    row = extraction(
        {"items": [{"name": "Screws", "price": 1}, {"name": "Nuts"}], "total": 2, "totals": 3},
        proposals=[{"path": "items", "new": new, "removed": False}, {"path": "total", "new": None, "removed": True}],
    )
    shown = {line[0]: line[-2] for line in parse_csv(as_csv(row, None))[1:]}
    assert shown == {
        "items[0].name": '"Bolts"', "items[0].price": "removed", "items[1].name": "null", "total": "removed",
        "totals": "",
    }  # fmt: skip


def test_csv_of_a_list_has_a_row_per_item() -> None:
    assert parse_csv(as_csv(INVOICE, "items")) == [
        ["path", "name", "price", "sizes[0]", "sizes[1]", "amount", "to_review"],
        ["items[0]", "Screws", "12.5", "1", "2", "", ""],
        ["items[1]", "Nuts", "", "", "", "3", "price: missing"],
    ]
    assert parse_csv(as_csv(INVOICE, "items[].taxes"))[1:] == [
        ["items[0].taxes[0]", "19", ""],
        ["items[0].taxes[1]", "7", ""],
    ]
    with pytest.raises(NotFound, match=r"items\[\]\.taxes"):
        as_csv(INVOICE, "tags")


def test_workbook_has_a_sheet_of_fields_and_one_per_list() -> None:
    found_sheets = parse_sheets(as_xlsx(INVOICE))
    assert list(found_sheets) == ["Fields", "items", "items .taxes"]
    head, *body = found_sheets["Fields"]
    assert head == list(COLUMNS)
    assert body[0] == ["number", "RE-1", "found", None, 0.97, 2, "RE 1", None, None, None]
    assert (
        body[1][:5] == ["total", -19.5, "needs_review", "not_found", 0] and body[2][1] is False and body[3][1] is None
    )
    assert found_sheets["items"] == [
        ["path", "name", "price", "sizes[0]", "sizes[1]", "amount", "to_review"],
        ["items[0]", "Screws", 12.5, 1, 2, None, None],
        ["items[1]", "Nuts", None, None, None, 3, "price: missing"],
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
# Spreadsheets that split at semicolons, or ignore quotes, would find a formula here.
TEXTS_WITH_SEPARATORS = ["x;=1+cmd|' /C calc'!A0;", "a\n=1+1", 'a; "=1', "a\t@x", "a;＝1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_formula_like_text_stays_text(text: str) -> None:
    row = extraction({"field": text, "items": [{text: text}]}, evidence={"field": {"quote": text, "state": "blank"}})
    for name in (None, "items"):
        for line in parse_csv(as_csv(row, name)):
            assert all(not cell or cell[0] not in "=+-@\t\r\n" for cell in line), line
            # Escaped again after a line break or tab, where another cell could start.
            shown = re.sub("^([\t\r\n])=", r"\1'=", text)
            assert f"'{shown}" in line or "path" in line
    content = as_xlsx(row)
    book = openpyxl.load_workbook(io.BytesIO(content))
    cell = book["Fields"]["B2"]
    assert (cell.data_type, cell.quotePrefix, cell.value) == ("s", True, text)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert not [name for name in archive.namelist() if b"<f>" in archive.read(name) or b"<f " in archive.read(name)]


@pytest.mark.parametrize("text", TEXTS_WITH_SEPARATORS)
def test_formula_after_a_separator_within_a_cell_stays_text(text: str) -> None:
    row = extraction({"field": text})
    shown = parse_csv(as_csv(row, None))[1][1]
    assert not re.search('[;\t\r\n][\\s"]*[=+@＝]', shown) and shown.replace("'", "") == text.replace("'", "")
    assert openpyxl.load_workbook(io.BytesIO(as_xlsx(row)))["Fields"]["B2"].value == text


def test_numbers_stay_numbers_and_digits_stay_text() -> None:
    values = {"a": -5, "b": -0.25, "c": "0049", "d": 1e300, "e": 2**60, "f": "1e5", "g": "#N/A", "h": "5-3 x@y a=b"}
    values["i"] = 1234567890123456.75
    row = extraction(values)
    assert [line[1] for line in parse_csv(as_csv(row, None))[1:]] == [
        "-5", "-0.25", "0049", "1e+300", "1152921504606846976", "1e5", "#N/A", "5-3 x@y a=b", "1234567890123456.8",
    ]  # fmt: skip
    book = openpyxl.load_workbook(io.BytesIO(as_xlsx(row)))
    cells = [book["Fields"].cell(line, 2) for line in range(2, 11)]
    # A spreadsheet would round 2**60.
    shown = [-5, -0.25, "0049", 1e300, str(2**60), "1e5", "#N/A", "5-3 x@y a=b", "1234567890123456.8"]
    assert [cell.value for cell in cells] == shown
    assert [cell.data_type for cell in cells] == ["n", "n", "s", "n", "s", "s", "s", "s", "s"]


def test_values_that_excel_cannot_store_are_adapted() -> None:
    row = extraction({"control": "a\x01b\ud800", "long": "x" * 40_000})
    body = parse_sheets(as_xlsx(row))["Fields"]
    assert body[1][1] == "a\ufffdb\ufffd" and len(body[2][1]) == 32_001
    assert parse_csv(as_csv(row, None))[1][1] == "a\ufffdb\ufffd"


def test_sheet_titles_are_valid_and_unique() -> None:
    names = ["Fields", "fields", "a/b:c*?[]\\", "x" * 40, "x" * 41, "'", "history", "=1", "a\uffff"]
    row = extraction({name: [{"a": 1}] for name in names})
    titles = list(parse_sheets(as_xlsx(row)))
    assert len({title.casefold() for title in titles}) == len(titles) == len(names) + 1
    assert all(0 < len(title) <= 31 and not re.search(r"[\[\]:*?/\\']", title) for title in titles)
    assert "history" not in titles


def test_number_of_sheets_and_columns_is_limited() -> None:
    fields: dict[str, Any] = {"items": [{f"k{at}": at, "n": at} for at in range(300)]}
    fields |= {f"list{at}": [{"a": 1}] for at in range(100)}
    row = extraction(fields)
    found_sheets = parse_sheets(as_xlsx(row))
    assert len(found_sheets["Fields"]) == 701 and len(found_sheets) == 51
    assert len(found_sheets["items"]) == 301 and len(found_sheets["items"][0]) == 202
    assert len(parse_csv(as_csv(row, None))) == 701


@pytest.mark.parametrize(
    "evidence",
    [None, [], {"state": ["found"]}, {"state": "=1", "page": "1", "quote": 5}, {"page": True}, {"boxes": "x"}],
)  # fmt: skip
def test_malformed_evidence_is_left_out(evidence: Any) -> None:
    row = extraction({"a": 1}, evidence={"a": evidence}, confidence_scores={"a": "high"}, locks=[], proposals=None)
    assert parse_csv(as_csv(row, None))[1] == ["a", "1", *[""] * 8]


@pytest.mark.parametrize(
    "box", [[0, 0, 2, 1], [0.5, 0, 0.4, 1], [0, 0, 1, float("nan")], ["0", 0, 1, 1], [0, 0, 1], "0011", None]
)
def test_boxes_off_the_page_are_dropped_and_boxes_are_limited(box: list[float]) -> None:
    valid_box = [0.1, 0.1, 0.2, 0.2]
    row = extraction({"a": 1}, evidence={"a": {"state": "found", "page": 1, "boxes": [box, *[valid_box] * 200]}})
    assert leaves_of(row)[0].boxes == [(0.1, 0.1, 0.2, 0.2)] * 99


def test_columns_of_a_list_are_those_of_the_schema_then_from_left_to_right() -> None:
    names = ("total", "name", "z", "a", "price")
    evidence = {"items[0].a": found_evidence(1, [0.5, 0.1, 0.6, 0.2]), "items[1].z": found_evidence(1, [0, 0, 1, 1])}
    row = extraction({"items": [{"a": 1, "total": 2}, dict.fromkeys(names, 3)]}, evidence=evidence)
    row["schema"] = {"properties": {"items": {"items": {"properties": {"name": {}, "price": {}, "total": {}}}}}}
    assert parse_csv(as_csv(row, "items"))[0][1:-1] == ["name", "price", "total", "z", "a"]


def test_problems_are_in_the_row_of_their_value() -> None:
    row = extraction({"total": "x", "items": [{"price": 1}, {"price": "=2"}]}) | {
        "valid": False,
        "problems": [
            {"path": "total", "code": "type", "message": "total: must be a number"},
            {"path": "total", "code": "equals", "message": "they must be equal"},
            {"path": "items[1].price", "code": "type", "message": "=wrong"},
            {"path": "number", "code": "required", "message": "number: is missing"},
        ],
    }
    by_path = {path: problem for path, *_, problem in parse_csv(as_csv(row, None))[1:]}
    assert by_path == {
        "total": "total: must be a number; they must be equal",
        "items[0].price": "",
        "items[1].price": "'=wrong",
        "number": "number: is missing",
    }
    assert [line[-1] for line in parse_csv(as_csv(row, "items"))] == ["problem", "", "'=wrong"]
    assert parse_sheets(as_xlsx(row))["Fields"][0][-1] == "problem"
    assert [line[-1] for line in parse_sheets(as_xlsx(row))["items"]] == ["problem", None, "=wrong"]
