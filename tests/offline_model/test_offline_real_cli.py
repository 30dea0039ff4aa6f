"""The real Agent SDK and its CLI work with the offline model: by rules, by script, through faults."""

from __future__ import annotations

import pytest
from conversation import Desk, converse

from fieldmark.agents.extraction.offline import answer as answer_by_rules
from fieldmark.agents.offline_rules import NOTE
from fieldmark.offline_model.messages import Turn, call, raw_call, text, thinking
from fieldmark.offline_model.server import OfflineModel
from fieldmark.testing.script import Script, drop, endless, http_error

pytestmark = pytest.mark.anyio

INVOICE = "--- page 1 of 1 ---\nInvoice number: A-77\nTotal: 12.50 EUR\n"


async def test_a_whole_extraction_by_rules(tmp_path):
    async with OfflineModel(answer_by_rules) as model:
        desk = await converse(Desk(document=INVOICE), model.base_url, "Extract the fields of a.pdf.", tmp_path)
    assert [name for name, _ in desk.calls] == [
        "get_document_text",
        "identify_document",
        "extract_fields",
        "complete_extraction",
    ]
    assert desk.calls[2][1]["fields"] == {"invoice_number": "A-77", "total": 12.5, "currency": "EUR"}
    assert NOTE in desk.answer
    assert desk.result
    assert not desk.result.is_error
    assert desk.thoughts
    assert {"text_delta", "thinking_delta", "signature_delta", "input_json_delta"} <= desk.deltas


async def test_a_correction_by_rules(tmp_path):
    desk = Desk(extraction={"vendor": {"name": "Old"}, "discount": 5.0, "total": 10.0})
    task = "Correct it.\n<correction>\nthe vendor is Acme Ltd, and remove the discount\n</correction>"
    async with OfflineModel(answer_by_rules) as model:
        await converse(desk, model.base_url, task, tmp_path)
    assert [(name, arguments.get("path")) for name, arguments in desk.calls] == [
        ("get_current_extraction", None),
        ("update_field", "vendor.name"),
        ("remove_field", "discount"),
    ]
    assert desk.calls[1][1]["value"] == "Acme Ltd"
    assert 'Set vendor.name to "Acme Ltd". Removed discount.' in desk.answer


async def test_thinking_text_and_calls_arrive_and_the_usage_adds_up(tmp_path):
    turns = [[thinking("Where is it?"), text("Reading."), call("get_document_text")], [text("All done.")]]
    async with OfflineModel(Script(turns)) as model:
        desk = await converse(Desk(document=INVOICE), model.base_url, "Extract", tmp_path)
        assert model.requests[1]["messages"][0] == {"role": "user", "content": "Extract"}
    assert desk.thoughts == ["Where is it?"]
    assert desk.calls == [("get_document_text", {})]
    assert desk.answer == "All done."
    assert desk.result
    assert desk.result.usage
    assert desk.result.usage["input_tokens"] > 100


@pytest.mark.parametrize(
    "fault",
    [http_error(429, retry_after=0.1), http_error(529), drop(text("this half is lost"))],
    ids=["429", "529", "drop"],
)
async def test_a_fault_that_passes_is_got_over(tmp_path, fault):
    async with OfflineModel(Script([fault, [call("get_document_text")], [text("fine")]])) as model:
        desk = await converse(Desk(), model.base_url, "Extract", tmp_path)
        assert len(model.requests) == 3
    assert (desk.calls, desk.answer) == ([("get_document_text", {})], "fine")


async def test_a_refusal_that_stays_ends_as_an_error(tmp_path):
    async with OfflineModel(Script([endless(http_error(400, message="No such thing."))])) as model:
        desk = await converse(Desk(), model.base_url, "Extract", tmp_path)
    assert desk.result
    assert desk.result.is_error
    assert "No such thing." in desk.answer


async def test_malformed_arguments_never_reach_a_tool(tmp_path):
    async with OfflineModel(Script([[raw_call("extract_fields", '{"fields": {"a": 1,')], [text("fine")]])) as model:
        desk = await converse(Desk(), model.base_url, "Extract", tmp_path)
        result = model.requests[1]["messages"][3]["content"][0]
    assert desk.calls == []
    assert result["is_error"]
    assert desk.answer == "fine"


async def test_parallel_calls_are_one_turn_of_the_script(tmp_path):
    pair = [call("identify_document", {"document_type": "x"}), call("get_document_text")]
    async with OfflineModel(Script([pair, [text("two")]])) as model:
        desk = await converse(Desk(), model.base_url, "Extract", tmp_path)
    assert sorted(name for name, _ in desk.calls) == ["get_document_text", "identify_document"]
    assert desk.answer == "two"


async def test_the_clients_own_nudge_does_not_start_the_script_again(tmp_path):
    async with OfflineModel(Script([Turn([text("cut off he")], "max_tokens"), [text("re.")]])) as model:
        desk = await converse(Desk(), model.base_url, "Extract", tmp_path)
    assert desk.answer == "re."
