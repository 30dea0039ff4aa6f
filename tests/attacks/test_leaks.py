"""Internal errors reach neither the model nor users with their details."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import pytest

from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

UPDATE = call("update_field", {"path": "total", "value": 1, "confidence": 1.0})
INTERNAL = "Internal error. Calling again will not help."


async def test_tool_exception_text_is_never_exposed(case, clone):
    case.sql("revoke execute on function public.identify_document(uuid, text) from authenticated")
    identify = call("identify_document", {"document_type": "invoice", "confidence": 1.0})
    finished = await case.execute_run(Script([[identify], [UPDATE], [text("Done.")]]))
    (refused, internal), (stored, succeeding_call) = finished.results
    assert (refused, internal) == (f'{INTERNAL}\n{{"code":"internal"}}', True)
    assert "Stored" in stored and not succeeding_call  # and the run continues
    assert [entry["status"] for entry in finished.ledger] == ["failed", "done"]
    assert (finished.ledger[0]["result"], finished.ledger[0]["code"]) == (INTERNAL, "internal")
    visible = finished.sent + json.dumps(finished.events)
    assert INTERNAL in visible
    secrets = ["permission denied", "identify_document(uuid", urlsplit(clone.app_url).password, "postgresql://"]
    assert not [secret for secret in secrets if secret in visible]


async def test_database_refusals_reach_the_model_as_messages(case):
    """Control: messages of expected database errors are shown."""
    finished = await case.execute_run(Script([[call("remove_field", {"path": "nowhere"})], [text("Done.")]]))
    assert finished.results == [('There is no value at path nowhere.\n{"code":"invalid"}', True)]
