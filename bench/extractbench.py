"""Writes predictions in the format of ExtractBench: the fields of each document and where each value is printed.

    pip install '.[bench]' && python bench/extractbench.py CASES OUTPUT [--pipeline fieldmark]

CASES has `GROUP/NAME.pdf` beside `GROUP/NAME.test.json`, of which only `data_schema` is read. Each document is read by
`fieldmark extract`, with the model and key of its settings; OUTPUT gets `PIPELINE/GROUP/NAME.result.json`. A document
without an extraction gets no file. `extract-bench run PIPELINE --skip_inference` then scores them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def citations(evidence: Mapping[str, Mapping[str, Any]], confidences: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    """Yield one citation for each line of a value, and one for the whole if it has several."""
    for path, proof in evidence.items():
        boxes: list[list[float]] = [list(box) for box in proof["boxes"]]
        if len(boxes) > 1:
            lefts, tops, rights, bottoms = zip(*boxes, strict=True)
            boxes.append([min(lefts), min(tops), max(rights), max(bottoms)])
        for x0, y0, x1, y1 in boxes:
            yield {
                "field_path": path,
                "page": proof["page"],
                "bbox": [x0, y0, round(x1 - x0, 5), round(y1 - y0, 5)],
                "reference_text": proof["quote"],
                "confidence": confidences.get(path),
                "source": "fieldmark",
            }


def prediction(
    example_id: str, file: Path, schema: Mapping[str, Any], pipeline: str, extraction: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """Return the prediction for a document. `extraction` is the output of `fieldmark extract --json`."""
    ended = datetime.now(UTC)
    started = datetime.fromtimestamp(ended.timestamp() - seconds, UTC)
    return {
        "request": {
            "example_id": example_id,
            "source_file_path": str(file),
            "product_type": "extract",
            "schema_override": schema,
        },
        "pipeline_name": pipeline,
        "product_type": "extract",
        "raw_output": {"fields": extraction["extracted_fields"]},
        "output": {
            "task_type": "extract",
            "example_id": example_id,
            "pipeline_name": pipeline,
            "extracted_data": extraction["extracted_fields"],
            "field_citations": list(citations(extraction["evidence"], extraction["confidence_scores"])),
        },
        "started_at": started.isoformat(),
        "completed_at": ended.isoformat(),
        "latency_in_ms": round(seconds * 1000),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--pipeline", default="fieldmark")
    options = parser.parse_args()
    for case in sorted(options.cases.glob("*/*.test.json")):
        name = case.name.removesuffix(".test.json")
        file = case.with_name(f"{name}.pdf")
        schema = json.loads(case.read_text())["data_schema"]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as schema_file:
            schema_file.write(json.dumps(schema))
            schema_file.flush()
            start = time.monotonic()
            command = ["fieldmark", "extract", str(file), "--schema", schema_file.name, "--json"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        extraction = json.loads(done.stdout or "{}")
        if "extracted_fields" not in extraction:
            print(f"{file}: not extracted. {extraction.get('error') or done.stderr}", file=sys.stderr)
            continue
        example = f"{case.parent.name}/{name}"
        result = prediction(example, file, schema, options.pipeline, extraction, time.monotonic() - start)
        target = options.output / options.pipeline / f"{example}.result.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(result, ensure_ascii=False))


if __name__ == "__main__":
    main()
