"""Fields have the order of the schema in every place where a person or a program sees them."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import openpyxl
import psycopg
import pytest

from browser.window import label
from fieldmark.offline_model.messages import Body, call
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

# In the order of the schema. jsonb sorts keys by length, and the page prints them from last to first.
FIELDS = {"vendor": "Acme", "date": "2026-01-02", "number": "R-17", "total": 12.5, "tax": 2, "cash": 20}
OUTSIDE = {"cashier": "Eve", "till": "K4"}
PAGE = "\n".join(f"{name.title()}: {value}" for name, value in reversed((FIELDS | OUTSIDE).items()))
SCHEMA = {
    "type": "object",
    "required": ["total"],
    "properties": {name: {"type": "string" if isinstance(value, str) else "number"} for name, value in FIELDS.items()},
}


async def test_fields_have_the_order_of_the_schema_everywhere(serve, browsing, clone):
    fields = dict(sorted((FIELDS | OUTSIDE).items()))
    script = Script([[call("extract_fields", {"fields": fields})], [call("complete_extraction", {})]])
    sent: list[str] = []

    async def answer(body: Body, *others: Any) -> Any:
        sent.append(json.dumps(body))
        return await script(body, *others)

    async with serve(answer) as server, browsing(server) as window:
        schema = (await server.http.post("/api/schemas", json={"name": "Receipt", "schema": SCHEMA})).json()
        result = await server.extract(await server.upload_text(PAGE), schema="Receipt")
        shown = [*FIELDS, *reversed(OUTSIDE)]  # outside the schema: as printed

        assert list(schema["schema"]["properties"]) == [*FIELDS]
        assert '"vendor":{"type":"string"},"date"' in sent[0].replace(" ", "").replace("\\", "")  # the prompt
        extraction = await server.extraction(result["extraction"]["id"])
        assert list(extraction["extracted_fields"]) == shown
        export = f"/api/extractions/{extraction['id']}/export?format="
        assert list((await server.http.get(f"{export}json")).json()["extracted_fields"]) == shown
        lines = csv.reader(io.StringIO((await server.http.get(f"{export}csv")).content.decode("utf-8-sig")))
        assert [line[0] for line in lines][1:] == shown
        html = (await server.http.get(f"{export}html")).text
        assert sorted(FIELDS, key=lambda name: html.index(f">{name}<")) == [*FIELDS]

        records = f"/api/tables/{schema['id']}/rows"
        table = (await server.http.get(records)).json()
        assert [column["path"] for column in table["columns"]] == list(table["items"][0]["cells"]) == [*FIELDS]
        content = (await server.http.get(f"/api/tables/{schema['id']}/export?format=csv")).content.decode("utf-8-sig")
        assert next(csv.reader(io.StringIO(content)))[-len(FIELDS) :] == [*FIELDS]
        content = (await server.http.get(f"/api/tables/{schema['id']}/export?format=xlsx")).content
        head = [cell.value for cell in openpyxl.load_workbook(io.BytesIO(content))["Receipt"][1]]
        assert head[-len(FIELDS) - 3 : -3] == [*FIELDS]
        view = (await server.get(f"tables/{schema['id']}/view"))["sql"]
        with psycopg.connect(clone.owner_url) as conn:
            conn.execute(view)
            columns = [column.name for column in conn.execute("select * from records_receipt").description or ()]
        assert columns[-len(FIELDS) :] == [*FIELDS]

        await window.open(f"/documents/{extraction['document_id']}")
        rows = window.page.get_by_role("tree", name=label("document.fields")).get_by_role("treeitem")
        await rows.nth(len(shown) - 1).wait_for()
        assert await rows.evaluate_all("rows => rows.map((one) => one.dataset.path)") == shown
        # A missing field is in its place.
        await server.http.delete(f"/api/extractions/{extraction['id']}/fields?path=total")
        await window.page.reload()
        await window.field_row("total").get_by_text(label("fields.reasons.missing")).first.wait_for()
        assert await rows.evaluate_all("rows => rows.map((one) => one.dataset.path)") == shown
