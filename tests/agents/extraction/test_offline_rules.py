"""The offline model extracts labelled values, and applies corrections to the named fields only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.rules_player import BOUNDARY_WORD, CallsByMessage, ToolResults, enclose, play_rules
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.agents.extraction.offline import answer
from fieldmark.agents.offline_rules import NOTE

INVOICE = f"[{BOUNDARY_WORD} page 1 of 2]\nInvoice number: A-77\nTotal: 12.50 EUR\n"
XML_PAGE = f"[{BOUNDARY_WORD} page 2 of 2, embedded XML]\nExchangedDocument.Note.Content: Thanks\nID: A-78\n"
DONE_RESULT = ("Done.", "done", None)


def play_extraction(document: str, answers: ToolResults, more: str = "") -> tuple[list[CallsByMessage], str]:
    return play_rules(answer, EXTRACTION.toolset.tools, f"{more}\n{enclose({'document': document})}", answers)


def test_short_document_takes_one_model_message():
    made, _ = play_extraction(INVOICE + XML_PAGE, {})
    ((saved,),) = made
    assert NOTE in saved[1].pop("summary")
    assert saved == (
        "extract_fields",
        {
            "document_type": "invoice",
            "fields": {"invoice_number": "A-77", "total": 12.5, "currency": "EUR"},
            "confidences": {"invoice_number": 0.9, "total": 0.9, "currency": 0.6},
            "evidence": {
                "invoice_number": {"quote": "A-77", "page": 1},
                "total": {"quote": "12.50 EUR", "page": 1},
                "currency": {"quote": "12.50 EUR", "page": 1},
            },
        },
    )
    ((saved,),) = play_extraction(XML_PAGE, {})[0]  # where there is nothing else
    assert saved[1]["fields"]["id"] == "A-78" and saved[1]["evidence"]["id"]["page"] == 2
    made, said = play_extraction(f"[{BOUNDARY_WORD} page 1 of 1]\nHello\n", {"identify_document": [DONE_RESULT]})
    assert [name for ((name, _),) in made] == ["identify_document"] and NOTE in said


def test_long_document_is_read_to_its_end():
    goes_on = f'\n[{BOUNDARY_WORD} the document goes on: call get_document_text with pages "7-"]'
    reads: ToolResults = {
        "get_document_text": [
            ("--- page 7 of 9 ---\nx\n", "more", {"pages": "7-", "offset": 40000}),
            ("--- page 9 of 9 ---\nDue date: 2024-05-01\n", "ok", None),
        ]
    }
    task = enclose({"document": INVOICE}) + goes_on
    (first, second, (saved,)), _ = play_rules(answer, EXTRACTION.toolset.tools, task, reads)
    assert [*first, *second] == [
        ("get_document_text", {"pages": "7-"}),
        ("get_document_text", {"pages": "7-", "offset": 40000}),
    ]
    assert saved[1]["evidence"]["due_date"]["page"] == 9 and saved[1]["fields"]["total"] == 12.5
    endless: ToolResults = {"get_document_text": [("x", "more", {"pages": "7-"})] * 200}
    assert len(play_rules(answer, EXTRACTION.toolset.tools, task, endless)[0]) <= 101


def test_retry_leaves_out_rejected_fields():
    refused = ("No.", "schema_violation!", {"paths": ["total"]})
    saved = ("Saved.", "stored", {"complete_extraction": "schema_violation"})
    (_, ((tool, again),)), said = play_extraction(INVOICE, {"extract_fields": [refused, saved]})
    assert tool == "extract_fields" and again["fields"] == {"invoice_number": "A-77", "currency": "EUR"}
    assert "not complete" in said
    made, said = play_extraction(INVOICE, {"extract_fields": [refused, refused]})
    assert len(made) == 2 and "No." in said


def test_write_that_did_not_complete_is_completed_by_a_call_of_its_own():
    answers: ToolResults = {"extract_fields": [("Saved.", "stored", {"version": 1})]}
    (_, ((tool, completed),)), _ = play_extraction(INVOICE, answers)
    assert tool == "complete_extraction" and NOTE in completed["summary"]


def test_offline_rules_follow_the_schema_and_report_ignored_instructions():
    schema = {"type": "object", "properties": {"amounts": {"properties": {"grandTotal": {"type": "number"}}}}}
    more = f"<schema>\n{json.dumps(schema)}\n</schema>\n<instructions>In cents</instructions>"
    ((saved,),), _ = play_extraction(INVOICE, {}, more)
    assert saved[1]["fields"] == {"amounts": {"grandTotal": 12.5}}
    assert "instructions in words were not followed" in saved[1]["summary"]


FIELDS: dict[str, Any] = {
    "invoice_date": "2024-01-02",
    "total": 10.5,
    "vendor": {"name": "Old", "vat_id": "DE1"},
    "buyer": {"name": "Bob"},
    "discount": 5.0,
    "items": [{"price": 1.0}, {"price": 2.0}],
}


def play_correction(
    correction: str, answers: ToolResults, status: str = "in_progress"
) -> tuple[list[CallsByMessage], str]:
    current = json.dumps({"extracted_fields": FIELDS, "status": status})
    task = f"<correction>\n{correction}\n</correction>\n{enclose({'extraction': current})}"
    return play_rules(answer, EXTRACTION.toolset.tools, task, answers)


@pytest.mark.parametrize(
    ("correction", "changes"),
    [
        ("set vendor.name to Acme", [("vendor.name", "Acme")]),
        ("the vendor is Acme Ltd, and remove the discount", [("vendor.name", "Acme Ltd"), ("discount",)]),
        ("The total should be 1.250,00", [("total", 1250.0)]),
        ("remove items[0]; remove items[1]", [("items[1]",), ("items[0]",)]),
        ("Change the invoice date to 5 March 2024", [("invoice_date", "2024-03-05")]),
        ("the supplier is Smith and Sons; delete discount", [("vendor.name", "Smith and Sons"), ("discount",)]),
        ("set buyer.name to “remove the total, and more”", [("buyer.name", "remove the total, and more")]),
        ("the due date is 2024-05-01", [("due_date", "2024-05-01")]),
    ],
)
def test_correction_changes_only_named_fields(correction, changes):
    (calls,), _ = play_correction(correction, {})
    assert [(one["path"], one["value"]) if "value" in one else (one["path"],) for _, one in calls] == changes
    _, said = play_correction(correction, {"update_field": [DONE_RESULT] * 2, "remove_field": [DONE_RESULT] * 2})
    assert NOTE in said and all(path in said for path, *_ in changes)


@pytest.mark.parametrize(
    "correction", ["the vendor is wrong", "set name to X", "remove the unicorn", "set total to a lot"]
)
def test_unclear_correction_changes_nothing_and_says_so(correction):
    made, said = play_correction(correction, {})
    assert made == [] and NOTE in said and "Set" not in said


def test_corrected_extraction_is_completed_again():
    ((changed, completed),), _ = play_correction("set total to 5", {}, "completed")
    assert (changed[0], completed[0]) == ("update_field", "complete_extraction")
    kept = ("A person set it.", "not_stored", {"version": 2})
    must_read_first = ("Look first.", "answer_unread!", None)
    answers: ToolResults = {"update_field": [kept], "complete_extraction": [must_read_first, DONE_RESULT]}
    (_, again), said = play_correction("set total to 5", answers, "completed")
    assert [name for name, _ in again] == ["complete_extraction"]
    assert "total could not be changed: A person set it." in said and "Set total" not in said
