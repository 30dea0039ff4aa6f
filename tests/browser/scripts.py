"""Scripted models and server calls for tests of the web UI."""

from __future__ import annotations

from typing import Any

from extraction_case import until
from fieldmark.offline_model.messages import Call, call
from fieldmark.stores import extractions
from fieldmark.testing.script import Script
from running_server import RunningServer

IDENTIFY = call("identify_document", {"document_type": "invoice", "confidence": 0.9})
COMPLETE = call("complete_extraction", {"summary": "Done."})


def save_fields(**fields: Any) -> Call:
    return call("extract_fields", {"fields": fields, "confidences": dict.fromkeys(fields, 0.9)})


def extraction_script(**fields: Any) -> Script:
    """Return a model that identifies an invoice, saves these fields and completes the extraction."""
    return Script([[IDENTIFY], [save_fields(**fields)], [COMPLETE]])


async def new_extraction(server: RunningServer, text: str, name: str = "a.txt") -> tuple[str, str]:
    """Upload a document and extract it. Return the ids of the document and the extraction."""
    document = await server.upload_text(text, name)
    result = await server.extract(document)
    assert result["status"] == "completed", result
    return str(document), result["extraction"]["id"]


async def extract_until_approval(server: RunningServer, document: Any, *auto_approved: str) -> str:
    """Start an extraction and wait until a call needs approval. Return the run's id."""
    tools = ["identify_document", *auto_approved]
    run_id = (await server.extract(document, approval="ask", wait=False, auto_approved_tools=tools))["run_id"]

    async def asks() -> bool:
        return (await server.get(f"runs/{run_id}"))["waits_for"] is not None

    await until(asks)  # a page opened earlier would only poll again after many seconds
    return run_id


MISREAD_TEXT = "Net 100.00\nTax 19.00\nTotal 119.00\nCustomer number 191\nTotal 119.00\n"
RULE = {"type": "object", "x-fieldmark": {"rules": [{"sum": ["net", "tax"], "equals": "total"}]}}


async def misread_extraction(server) -> str:
    """Create an extraction whose total appears on the page but is not the total. Return the extraction's id."""
    document = await server.upload_text(MISREAD_TEXT, "misread.txt")
    async with server.runtime.database.as_user(server.scope) as conn:
        given = {**RULE, "properties": {name: {"type": "number"} for name in ("net", "tax", "total")}}
        made = await extractions.add(conn, org_id=server.scope.org_id, document_id=document, schema=given)
    writes = [{"path": path, "value": value} for path, value in {"net": 100, "tax": 19, "total": 191}.items()]
    answer = await server.http.patch(f"/api/extractions/{made}/fields", json=writes)
    assert answer.status_code == 200, answer.text
    freed = await server.http.delete(f"/api/extractions/{made}/locks", params={"path": "total"})
    assert freed.status_code == 200, freed.text
    return str(made)


ITEMS = [{"name": "Item A", "price": 10.0}, {"name": "Item B", "price": 20.0}]
ITEMS_TEXT = "Item A 10.00\nItem B 20.00\n"


async def reads_lines_in_another_order(body):
    """A model that reads the items in another order when it is asked again."""
    is_again = "once more" in str(body["messages"])
    return await extraction_script(items=ITEMS[::-1] if is_again else ITEMS)(body)


async def proposed_list(server) -> tuple[str, str]:
    """Create an extraction with a proposal for a list. Return the document and extraction ids."""
    document, made = await new_extraction(server, ITEMS_TEXT)
    confirmed = await server.http.post(f"/api/extractions/{made}/locks", params={"path": "items[0].price"})
    assert confirmed.status_code == 200, confirmed.text
    result = await server.extract(document, extraction_id=made, instructions="Read it once more.")
    assert [one["path"] for one in result["extraction"]["proposals"]] == ["items"]
    return document, made


async def is_items(server, extraction_id: str, items: list[dict[str, object]]) -> bool:
    return (await server.extraction(extraction_id))["extracted_fields"]["items"] == items
