"""Fills tables from real documents with known values, and counts right and wrong cells.

    pip install '.[bench]' && python bench/table_values.py SAMPLES [--receipts 313] [--systems claude,gpt]

- `SAMPLES/sroie`: `key/NNN.json` has the company, date and total of a receipt, `box/NNN.csv` its text lines with boxes.
  A stack of PDFs with these lines is filled by the offline model, which reads labelled fields with fixed rules.
- `SAMPLES/docubench`: `documents`, `schemas/ID.json`, `labels/ID.json` with the values, and `results/SYSTEM/ID.json`
  with the recorded output of a real model. The model repeats the output; the tables of the schema are compared with
  the label: a row for each document, and for each item of each list. Cells that are blank in the label are not counted.

Values are compared without case, spaces and punctuation. Exits with 1 if a row, or a value of a recorded output, is
missing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from jsonschema import Draft202012Validator, FormatChecker

from fieldmark.offline_model.messages import Block, Body, call, text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.testing.script import count_model_answers
from grounding import schema_values
from page_site import write_pdf
from processes import Service, restore_signals, service, time_limit, upload

COLUMNS = [{"name": "company"}, {"name": "date", "type": "date"}, {"name": "total", "type": "number"}]
AT_ONCE = 4


def normalised(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(round(float(value), 6))
    return "".join(filter(str.isalnum, str(value).casefold())) or str(value)


def receipt_pdf(boxes: str) -> bytes:
    """Return a page with the lines of a receipt at their locations."""
    lines = [line.split(",", 8) for line in boxes.splitlines() if line.count(",") >= 8]
    corners = [[float(edge) for edge in line[:8]] for line in lines]
    height = max(max(edges[1::2]) for edges in corners)
    shown: list[bytes] = []
    for edges, line in zip(corners, lines, strict=True):
        size = max(0.75 * (max(edges[1::2]) - min(edges[1::2])), 1)
        stretch = 100 * (max(edges[::2]) - min(edges[::2])) / (0.6 * size * max(len(line[8]), 1))
        baseline = height - max(edges[1::2]) + size / 4
        start = f"/F1 {size:.2f} Tf {stretch:.2f} Tz 1 0 0 1 {min(edges[::2])} {baseline:.2f} Tm "
        printed = line[8].encode("cp1252", "replace")
        for character in (b"\\", b"(", b")"):
            printed = printed.replace(character, b"\\" + character)
        shown.append(start.encode() + b"(" + printed + b") Tj")
    return write_pdf([b"BT " + b" ".join(shown) + b" ET"], max(max(edges[::2]) for edges in corners) + 10, height + 10)


async def all_rows(http: httpx.AsyncClient, path: str, **query: Any) -> Iterator[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while True:
        page = (await http.get(path, params={**query, "limit": 500, "offset": len(rows)})).raise_for_status().json()
        rows += page["items"]
        if not page["items"]:
            return iter(rows)


async def fill_receipts(at: Service, folder: Path, most: int) -> bool:
    """Fill a stack of receipts, and print the right, wrong and missing cells of each column."""
    keys = sorted((folder / "key").glob("*.json"))[:most]
    gate = asyncio.Semaphore(AT_ONCE)
    async with at.client() as http:
        body: dict[str, Any] = {"name": "Receipts", "columns": COLUMNS}
        stack = (await http.post("/api/stacks", json=body)).raise_for_status().json()

        async def add(key: Path) -> str:
            async with gate:
                content = receipt_pdf((folder / "box" / f"{key.stem}.csv").read_text())
                return await upload(http, f"{key.stem}.pdf", content)

        ids = await asyncio.gather(*map(add, keys))
        for start in range(0, len(ids), 50):
            body = {"document_ids": ids[start : start + 50]}
            (await http.post(f"/api/stacks/{stack['id']}/documents", json=body)).raise_for_status()
        body = {"stack_id": stack["id"], "approval": "auto"}
        run = (await http.post("/api/agent/stack", json=body)).raise_for_status().json()
        while run["status"] not in ("completed", "failed", "cancelled"):
            await asyncio.sleep(0.5)
            run = (await http.get(f"/api/runs/{run['run_id']}")).raise_for_status().json()
        found = await all_rows(http, f"/api/tables/{stack['id']}/rows")
        rows = {row["filename"].removesuffix(".pdf"): row for row in found}
    print(f"{len(keys)} receipts; rows: {dict(Counter(row['status'] for row in rows.values()))}")
    counts: dict[str, Counter[str]] = {column["name"]: Counter() for column in COLUMNS}
    for key in keys:
        expected = schema_values({name: value for name, value in json.loads(key.read_text()).items() if value})
        for name, count in counts.items():
            cell = rows.get(key.stem, {}).get("cells", {}).get(name, {"value": None, "status": "not_in_document"})
            right, found = normalised(expected.get(name)), normalised(cell["value"])
            kind = "right" if found == right else "missing" if found is None else "wrong"
            count[kind] += 1
            count[f"{kind}, {cell['status']}"] += 1
    print("| column | right | wrong | missing | wrong, needs review or unclear |\n|---|---|---|---|---|")
    for name, count in counts.items():
        marked = count["wrong, needs_review"] + count["wrong, unclear"]
        print(f"| {name} | {count['right']} | {count['wrong']} | {count['missing']} | {marked} |", flush=True)
    return len(rows) == len(keys)


class RecordedModel:
    """A model that extracts `fields`, then completes the extraction."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}

    async def answer(self, body: Body) -> list[Block]:
        calls: list[Block] = [
            call("extract_fields", {"fields": self.fields, "confidences": {}}),
            call("complete_extraction", {"summary": "Recorded output."}),
        ]
        return [calls, calls[1:], [text("Done.")]][min(count_model_answers(body), 2)]


def allowed(output: Any, schema: dict[str, Any], count: Counter[str]) -> Any:
    """Leave out nulls and the values that the schema refuses, as a model does once a write is refused."""
    output = without_nulls(output)
    checker = FormatChecker(["date"])
    for error in list(Draft202012Validator(schema, format_checker=checker).iter_errors(output)):
        *parents, last = error.absolute_path or [None]
        if error.validator in ("type", "enum", "format", "pattern") and last is not None:
            parent = output
            for step in parents:
                parent = parent[step]
            if isinstance(parent, dict) and last in parent:
                del parent[last]
                count["refused"] += 1
    return output


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


async def compare_documents(at: Service, model: RecordedModel, folder: Path, systems: Sequence[str]) -> bool:
    """Extract each document with each recorded output, and print the rows of its tables compared with the label."""
    is_complete = True
    documents: dict[str, str] = {}
    async with at.client() as http:
        gate = asyncio.Semaphore(AT_ONCE)

        async def add(path: Path) -> None:
            async with gate:
                documents[path.stem] = await upload(http, path.name, path.read_bytes())

        await asyncio.gather(*map(add, sorted((folder / "documents").iterdir())))
        print("\n| system | documents | rows of labels | right | wrong | missing | extra | cells right | output kept |")
        print("|---|---|---|---|---|---|---|---|---|")
        for system in systems:
            count, kept = Counter[str](), Counter[str]()
            for name, document_id in sorted(documents.items()):
                schema = json.loads((folder / "schemas" / f"{name}.json").read_text())
                recorded = folder / "results" / system / f"{name}.json"
                output = json.loads(recorded.read_text()).get("data") if recorded.exists() else None
                model.fields = allowed(output or {}, schema, count)
                if not model.fields:
                    count["without output"] += 1
                    continue
                made = await http.post("/api/schemas", json={"name": f"{name} {system}", "schema": schema})
                made = made.raise_for_status().json()
                body = {"document_id": document_id, "schema_revid": made["schema_revid"]}
                run = (await http.post("/api/agent/extract", json=body)).raise_for_status().json()
                if not run["extraction"]["extracted_fields"]:
                    print(f"{system}: nothing is stored for {name}")
                if run["extraction"]["status"] != "completed":  # the output breaks the schema: a person accepts it
                    count["completed by a person"] += 1
                    at_extraction = f"/api/extractions/{run['extraction']['id']}"
                    (await http.post(f"{at_extraction}/complete")).raise_for_status()
                label = json.loads((folder / "labels" / f"{name}.json").read_text())
                path = f"/api/tables/{made['id']}/rows"
                lists = (await http.get(path)).raise_for_status().json()["lists"]
                for list_name in [None, *lists]:
                    query = {} if list_name is None else {"list": list_name}
                    page = (await http.get(path, params={**query, "limit": 500})).raise_for_status().json()
                    compare_rows(page, list_name, label, count)
                    compare_rows(page, list_name, model.fields, kept)
                count["documents"] += 1
            cells = f"{count['right cells']} of {count['cells']}"
            figures = [count[kind] for kind in ("documents", "rows", "right", "wrong", "missing", "extra")]
            print(
                f"| {system} | {' | '.join(map(str, figures))} | {cells} | {kept['right cells']} of {kept['cells']} |",
                flush=True,
            )
            print(
                f"({count['without output']} documents without output, {count['completed by a person']} completed by a "
                f"person; {count['refused']} values that the schema refuses)"
            )
            is_complete = is_complete and kept["right cells"] == kept["cells"]
    return is_complete


def compare_rows(page: dict[str, Any], list_name: str | None, label: Any, count: Counter[str]) -> None:
    """Pair the rows of a table with those of the label, the most similar first, and count them and their cells."""
    start = "" if list_name is None else f"{list_name}[]"
    columns = [one["path"] for one in page["columns"] if one["path"].startswith(start)]
    expected = [label] if list_name is None else [item for item in label.get(list_name) or [] if isinstance(item, dict)]
    wanted = [
        {column: normalised(value_at(item, column.removeprefix(start))) for column in columns} for item in expected
    ]
    found = [{column: normalised(row["cells"][column]["value"]) for column in columns} for row in page["items"]]
    likeness = {
        (i, j): sum(a[column] == b[column] is not None for column in columns)
        for i, a in enumerate(wanted)
        for j, b in enumerate(found)
    }
    of_label, of_table = set[int](), set[int]()
    for i, j in sorted(likeness, key=lambda pair: -likeness[pair]):
        if i not in of_label and j not in of_table and likeness[i, j]:
            of_label.add(i)
            of_table.add(j)
            count["right" if wanted[i] == found[j] else "wrong"] += 1
            count["right cells"] += likeness[i, j]
    count["rows"] += len(wanted)
    count["cells"] += sum(value is not None for row in wanted for value in row.values())
    count["missing"] += len(wanted) - len(of_label)
    count["extra"] += len(found) - len(of_table)


def value_at(item: Any, path: str) -> Any:
    for key in filter(None, path.split(".")):
        item = item.get(key) if isinstance(item, dict) else None
    return item


async def run(home: Path, options: argparse.Namespace) -> bool:
    model = RecordedModel()
    is_complete = True
    if options.receipts:
        with service(home / "receipts", "") as at:
            is_complete = await fill_receipts(at, options.samples / "sroie", options.receipts)
    if options.systems:
        async with OfflineModel(model.answer, keeps_requests=False) as server:
            with service(home / "documents", server.base_url) as at:
                systems = options.systems.split(",")
                is_complete &= await compare_documents(at, model, options.samples / "docubench", systems)
    return is_complete


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--receipts", type=int, default=1000, help="most receipts; 0: none")
    parser.add_argument("--systems", default="claude,gpt,gemini,extend", help="recorded outputs; empty: none")
    parser.add_argument("--seconds", type=float, default=3600, help="time limit")
    options = parser.parse_args()
    restore_signals()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for folder in (home, home / "receipts", home / "documents"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        stack.enter_context(time_limit(options.seconds, home))
        is_complete = asyncio.run(run(home, options))
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
