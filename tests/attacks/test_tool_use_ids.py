"""Ids of tool calls come from the model's service: long, repeated or odd ids lose no write and repeat none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from extraction_case import INVOICE
from fieldmark.offline_model.messages import Call, call
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

DONE = [call("complete_extraction", {"summary": "Done."})]


def update(path: str, value: Any, call_id: str) -> Call:
    return replace(call("update_field", {"path": path, "value": value}), id=call_id)


ONE, TWO, THREE = ("number", "1"), ("total", 10), ("vendor", "Acme GmbH")
IDS: dict[str, list[list[Call]]] = {
    "long": [[update(*ONE, "c" * 950)], [update(*TWO, "c" * 4000)], [update(*THREE, "c" * 3999 + "d")]],
    "repeated": [[update(*ONE, "call_0")], [update(*TWO, "call_0")], [update(*THREE, "call_0")]],
    "twice in a message": [[update(*ONE, "a"), update(*TWO, "a")], [update(*THREE, "a")]],
    "the tool's name": [[update(*ONE, "update_field")], [update(*TWO, "update_field"), update(*THREE, "x y/é")]],
}


@pytest.mark.parametrize("turns", IDS.values(), ids=IDS.keys())
async def test_calls_with_odd_ids_are_each_carried_out_once(serve, turns):
    async with serve(Script([*turns, DONE])) as server:
        document_id = await server.upload_text(INVOICE, "a.txt")
        result = await server.extract(document_id)
        fields = {"number": "1", "total": 10, "vendor": "Acme GmbH"}
        assert result["status"] == "completed" and result["extraction"]["extracted_fields"] == fields, json.dumps(
            result
        )
        events = await server.events(result["run_id"])
        ends = [one for one in events if one.get("tool_result") == "update_field"]
        assert [one["status"] for one in ends] == ["complete"] * 3
        assert result["extraction"]["version"] == 3


async def test_waiting_calls_with_one_id_are_decided_one_after_the_other(serve):
    turns = [[update(*ONE, "c" * 950)], [update(*TWO, "c" * 950)], [update(*TWO, "c" * 950)], DONE]
    async with serve(Script(turns)) as server:
        document_id = await server.upload_text(INVOICE, "a.txt")
        result = await server.extract(document_id, approval="ask")
        seen: list[str] = []
        while result["status"] == "awaiting_approval":
            seen.append(result["waits_for"]["call_id"])
            result = (await server.decide(result, approved=len(seen) != 2)).json()
        assert len({*seen}) == 3 and result["status"] == "completed"
        assert result["extraction"]["extracted_fields"] == {"number": "1", "total": 10}
        assert result["extraction"]["version"] == 2
