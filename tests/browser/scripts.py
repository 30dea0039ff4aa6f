"""Scripted models and server calls for tests of the web UI."""

from __future__ import annotations

from typing import Any

from extraction_case import until
from fieldmark.offline_model.messages import Call, call
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
