"""Charts and diagrams of Office files: their titles, and a table of their values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from fieldmark.documents.reading.archive import parse_xml
from fieldmark.documents.reading.pagination import align

_A, _CHART = (f"{{http://schemas.openxmlformats.org/drawingml/2006/{name}}}" for name in ("main", "chart"))
CHART = f"{_CHART}chart"
DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"


def paragraphs(root: Any) -> Iterator[str]:
    """The paragraphs of text in a drawing."""
    for paragraph in root.iter(f"{_A}p"):
        if line := "".join(node.text or "" for node in paragraph.iter(f"{_A}t")).strip():
            yield line


def drawing_lines(data: bytes) -> list[str]:
    """Return the lines of a chart or a diagram: its texts, and a row of values for each category."""
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
