"""The HTML export: self-contained, linked in both directions, with all text escaped."""

from __future__ import annotations

import re
from typing import Any

import lxml.html
import pytest
from extraction_row import DOCUMENT, extraction, found_evidence

from fieldmark.services.exports.page import Sheet, as_html

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
SHEET = Sheet(1, 600, 800, PNG)


def page(row: dict[str, Any], *sheets: Sheet, filename: str = "invoice.pdf") -> Any:
    return lxml.html.document_fromstring(as_html(row, DOCUMENT | {"filename": filename}, sheets or [SHEET]).decode())


ROW = extraction(
    {
        "number": "RE-1",
        "address": "Main St 1\nUlm",
        "vendor": {"name": "Acme"},
        "items": [{"name": "Screws", "price": 12.5}, {"name": "Nuts", "price": 7}],
        "missing": "9",
        "elsewhere": "x",
    },
    confidence_scores={"number": 0.97, "address": 0.8, "items[0].price": 0.4},
    evidence={
        "number": found_evidence(1, [0.1, 0.1, 0.2, 0.12], quote="RE 1"),
        "address": found_evidence(1, [0.1, 0.2, 0.3, 0.22], [0.1, 0.23, 0.2, 0.25]),
        "items[0].price": found_evidence(1, [0.8, 0.4, 0.9, 0.42]),
        "missing": {"state": "not_found"},
        "elsewhere": found_evidence(30, [0, 0, 1, 1]),
    },
    statuses={
        "number": {"status": "found", "reason": None},
        "missing": {"status": "needs_review", "reason": "not_found"},
        "date": {"status": "needs_review", "reason": "missing"},
        "items[0].price": {"status": "unclear", "reason": "low_confidence"},
    },
    review_count=3,
    locks={"vendor.name": {"by": "x", "at": "y"}},
    proposals=[{"path": "vendor.name", "new": "Acme <i>Ltd</i>", "removed": False}],
)


def test_values_and_boxes_link_to_each_other() -> None:
    root = page(ROW)
    boxes = root.xpath("//a[contains(@class,'box')]")
    assert len(boxes) == 4
    ids = root.xpath("//@id")
    assert len(ids) == len(set(ids))
    for box in boxes:
        (field,) = root.xpath(f"//*[@id='{box.get('href')[1:]}']")
        (back,) = field.xpath(".//a[starts-with(@href,'#b')]")
        (first,) = root.xpath(f"//*[@id='{back.get('href')[1:]}']")
        assert first.getparent() is box.getparent()
    number = root.xpath("//a[@title='number: RE-1']")[0]
    assert "left:10.000%;top:10.000%;width:10.000%;height:2.000%" in number.get("style")
    assert number.get("class") == "box found"
    # Every link has a target, and all boxes are on a sheet.
    assert all(link.startswith("#") and link[1:] in ids for link in root.xpath("//a/@href"))
    assert all("sheet" in box.getparent().getparent().get("class") for box in boxes)


def test_value_is_shown_with_evidence_locks_and_proposals() -> None:
    root = page(ROW)
    texts = {field.xpath("string(dt)"): field.text_content() for field in root.xpath("//div[contains(@class,'field')]")}
    assert "97%" in texts["number"] and "page 1" in texts["number"] and "“RE 1”" in texts["number"]
    assert "not found" in texts["missing"] and "missing" in texts["date"] and "page 30" in texts["elsewhere"]
    assert "set by a person" in texts["name"] and "Acme <i>Ltd</i>" in texts["name"]
    table = root.xpath("//table")[0]
    assert [cell.text_content() for cell in table.xpath(".//td")] == ["12.5", "Screws", "7", "Nuts"]
    assert "not shown: 30." in root.text_content()
    assert table.xpath(".//td/@class")[0] == "unclear number"
    assert "3 to review · 1 proposal waiting" in root.xpath("string(//header)")
    # The legend has the statuses that occur, the most urgent first.
    assert root.xpath("//header//li/@class") == ["needs_review", "unclear", "found"]


def test_page_loads_nothing_and_has_no_scripts() -> None:
    text = as_html(ROW, DOCUMENT, [SHEET]).decode()
    root = lxml.html.document_fromstring(text)
    assert not root.xpath("//script|//link|//iframe|//object|//embed|//form|//base|//*[starts-with(name(@*),'on')]")
    assert all(source.startswith("data:image/png;base64,") for source in root.xpath("//@src"))
    assert not re.search(r"url\(|@import|https?:|javascript:", text)
    (policy,) = root.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline';")


HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</style><script>alert(1)</script>",
    "{% raw %}{{ self.__init__ }}{# %}",
    "}body{background:url(//x)}",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_escaped_everywhere(text: str) -> None:
    row = extraction(
        {text: text, "o": {text: {text: 1}}, "items": [{text: text}], "tags": [text]},
        document_type=text,
        evidence={"tags[0]": found_evidence(1, [0, 0, 1, 1], quote=text + "!"), text: {"state": text, "page": 1}},
        proposals=[{"path": "tags[0]", "new": text, "removed": False}],
    )
    root = page(row, Sheet(1, 600, 800, None), filename=text)
    assert not root.xpath("//script|//img|//svg|//comment()")
    for node in root.iter():
        assert not [name for name in node.attrib if name.startswith("on")]
        assert node.tag != "a" or node.get("href").startswith("#")
    assert len(root.xpath("//style")) == 1 and "url(" not in root.xpath("string(//style)")
    assert root.xpath("string(//h1)") == text and text in root.xpath("string(//dd)")
    assert root.xpath("string(//title)") == text


def test_page_shows_at_most_ten_thousand_values() -> None:
    # Long values are truncated, and bidirectional controls are replaced.
    hostile = page(extraction({"a": "x" * 5_000, "b": "x\u202eevil\x00\x1b[31m\ud800"}))
    assert hostile.xpath("//dd/text()[contains(., 'xxx')]")[0].strip().endswith("x…")
    assert "x\ufffdevil\ufffd\ufffd[31m\ufffd" in hostile.text_content()
    fields = {"items": [{"a": at, "b": at} for at in range(5_100)], "more": "x" * 5_000}
    evidence = {f"items[{at}].a": found_evidence(1, [0.1, 0.1, 0.2, 0.2]) for at in range(3_000)}
    root = page(extraction(fields, evidence=evidence))
    assert len(root.xpath("//td[@id]")) == 10_000
    assert "201 more values" in root.text_content()
    assert len(root.xpath("//a[contains(@class,'box')]")) == 3_000
