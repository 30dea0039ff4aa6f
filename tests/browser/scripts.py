"""What the scripted model does in tests of the web UI: it identifies an invoice, saves its fields and completes."""

from __future__ import annotations

from typing import Any

from extraction_case import until
from fieldmark.offline_model.messages import Call, call
from fieldmark.testing.script import Script
from running_server import RunningServer

IDENTIFIED = call("identify_document", {"document_type": "invoice", "confidence": 0.9})
COMPLETE = call("complete_extraction", {"summary": "Done."})


def saves(**fields: Any) -> Call:
    return call("extract_fields", {"fields": fields, "confidences": dict.fromkeys(fields, 0.9)})


def reading(**fields: Any) -> Script:
    """An extraction of these fields, one call at a time."""
    return Script([[IDENTIFIED], [saves(**fields)], [COMPLETE]])


async def extracted(server: RunningServer, text: str, name: str = "a.txt") -> tuple[str, str]:
    """The ids of a new document and of its completed extraction."""
    document = await server.upload_text(text, name)
    result = await server.extract(document)
    assert result["status"] == "completed", result
    return str(document), result["extraction"]["id"]


async def ask_before_writes(server: RunningServer, document: Any, *auto_approved: str) -> str:
    """Start an extraction, wait until it asks for an approval, and return its run's id."""
    tools = ["identify_document", *auto_approved]
    run_id = (await server.extract(document, approval="ask", wait=False, auto_approved_tools=tools))["run_id"]

    async def asks() -> bool:
        return (await server.get(f"runs/{run_id}"))["waits_for"] is not None

    await until(asks)  # a page that comes earlier looks again after many seconds
    return run_id
