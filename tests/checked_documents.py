"""Documents that a scripted model reads and people check, for tests of cost and quality."""

from __future__ import annotations

from typing import Any

from fieldmark.offline_model.messages import Turn, call, text
from fieldmark.testing.script import Script
from running_server import RunningServer

FIELDS = {"total": 10, "vendor": "Acme"}
USED = {"input_tokens": 50_000, "output_tokens": 1_000}  # 0.11 USD
SCHEMA = {
    "type": "object",
    "required": ["number"],
    "properties": {"total": {"type": "number"}, "vendor": {"type": "string"}, "number": {"type": "string"}},
}


def script() -> Script:
    save = call("extract_fields", {"fields": FIELDS, "confidences": {}, "evidence": {}})
    return Script([Turn([save], usage=USED), Turn([text("Done.")], usage=USED)])


async def read_document(server: RunningServer, schema_id: str | None = None, **body: Any) -> dict[str, Any]:
    document_id = await server.upload_text("Total: 10\nVendor: Acme\n")
    of_schema = {} if schema_id is None else {"schema_id": schema_id}
    return await server.extract(document_id, **of_schema, **body)


async def schema_named(server: RunningServer, name: str) -> str:
    made = await server.http.post("/api/schemas", json={"name": name, "schema": SCHEMA})
    return made.json()["id"]


async def set_value(server: RunningServer, extraction_id: str, path: str, value: Any) -> None:
    url = f"/api/extractions/{extraction_id}/fields"
    version = (await server.extraction(extraction_id))["version"]
    answer = await server.http.patch(url, json={"path": path, "value": value}, headers={"If-Match": str(version)})
    assert answer.status_code == 200, answer.text
