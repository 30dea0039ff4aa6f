"""bench/extractbench.py writes the prediction format of ExtractBench."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from fieldmark.services.evidence import ground_in
from page_words import document_index

_FILE = Path(__file__).parents[1] / "bench" / "extractbench.py"


def _program() -> Any:
    spec = importlib.util.spec_from_file_location("extractbench", _FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_prediction_has_a_citation_for_each_line_of_a_value_and_one_for_the_whole() -> None:
    fields = {"name": "Acme Trading Company", "total": 12.5, "note": None, "vat": 3}
    found = ground_in(document_index("Acme Trading\nCompany\nTotal 12.50\n"), fields, {})
    extraction = {
        "extracted_fields": fields,
        "evidence": {one["path"]: one for one in found},
        "confidence_scores": {one["path"]: one["confidence"] for one in found},
    }
    written = _program().prediction("group/a", Path("group/a.pdf"), {"type": "object"}, "fieldmark", extraction, 1.5)
    output = written["output"]
    assert (output["extracted_data"], output["task_type"], written["latency_in_ms"]) == (fields, "extract", 1500)
    boxes = {path: [one["bbox"] for one in output["field_citations"] if one["field_path"] == path] for path in fields}
    assert {path: len(some) for path, some in boxes.items()} == {"name": 3, "total": 1, "note": 0, "vat": 0}
    first, second, whole = boxes["name"]
    lines = [
        [x0, y0, round(x1 - x0, 5), round(y1 - y0, 5)] for x0, y0, x1, y1 in extraction["evidence"]["name"]["boxes"]
    ]
    assert [first, second] == lines  # x, y, width, height in fractions of the page
    assert whole[:2] == [min(first[0], second[0]), first[1]]
    assert round(whole[1] + whole[3], 5) == round(second[1] + second[3], 5)
    assert {one["page"] for one in output["field_citations"]} == {1}
