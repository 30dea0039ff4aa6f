"""Charts and diagrams in Office files: their titles, and a table of their values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from pagewords.formula import OMML as _OMML
from pagewords.formula import gap, omml_line
from pagewords.open_xml import parse_xml
from pagewords.pagination import align, superscript

_A, _CHART = (f"{{http://schemas.openxmlformats.org/drawingml/2006/{name}}}" for name in ("main", "chart"))
CHART = f"{_CHART}chart"
DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"


def paragraphs(root: Any) -> Iterator[str]:
    """Return the lines of text in a drawing."""
    for paragraph in root.iter(f"{_A}p"):
        text = ""
        for node in paragraph.iter(f"{_A}t", f"{_A}br", f"{_OMML}oMath"):
            if node.tag == f"{_A}br":
                text += "\n"
            elif node.tag == f"{_A}t":
                text += _run_text(node, text)
            else:
                formula = omml_line(node, lambda run: "".join(part.text or "" for part in run.iter(f"{_OMML}t")))
                text += gap(text, formula) + formula
        yield from filter(None, map(str.strip, text.split("\n")))


def _run_text(node: Any, before: str) -> str:
    properties = node.getparent().find(f"{_A}rPr")
    shift = "" if properties is None else properties.get("baseline", "")
    text = node.text or ""
    return superscript(text, before, is_lowered=shift[:1] == "-") if shift.strip("0-%") else text


def drawing_lines(data: bytes) -> list[str]:
    """Return the lines of a chart or diagram: its texts, and a row of values per category."""
    root = parse_xml(data)
    columns: list[list[str]] = []
    for series in root.iter(f"{_CHART}ser"):
        name, categories, values = (
            [point.text or "" for kind in kinds for point in series.iterfind(f"{_CHART}{kind}//{_CHART}v")]
            for kinds in (("tx",), ("cat", "xVal"), ("val", "yVal"))
        )
        if not columns:
            columns.append(["", *categories])
        columns.append([" ".join(name), *values])
    return [*paragraphs(root), *align([list(row) for row in zip_longest(*columns, fillvalue="")])]
