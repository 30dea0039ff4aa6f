"""A correction changes exactly the fields it names, and the journal records author, run, time and old value."""

from __future__ import annotations

import pytest

from extraction_case import sql
from fieldmark.agents.extraction.offline import answer as by_rules
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

FIELDS = {
    "vendor": {"name": "Acme GmbH", "vat": "DE1"},
    "items": [{"price": 10.5}, {"price": 2}],
    "discount": 5,
    "total": 7.5,
}
PRINTED = "Acme GmbH, VAT: DE1\nBolt 10.50\nNut 2.00\nDiscount: 5.00\nTotal: 7.50 EUR\n"
WORDS = "the vendor is Acme Ltd, and remove the discount"

SCORES = {"vendor.name": 0.8, "discount": 0.7, "total": 0.9}
EXTRACTING = Script(
    [
        [call("extract_fields", {"fields": FIELDS, "confidences": SCORES})],
        [text("Done.")],
    ]
)
UPDATE = call("update_field", {"path": "vendor.name", "value": "Acme Ltd", "confidence": 1.0})
REMOVE = call("remove_field", {"path": "discount", "reason": "asked for"})
CORRECTING = Script([[call("get_current_extraction")], [UPDATE], [REMOVE], [text("Both done.")]])


def answer_by_script(body):
    return (CORRECTING if "<correction>" in str(body["messages"][0]) else EXTRACTING)(body)


def extract_by_script_correct_by_rules(body):
    return by_rules(body) if "<correction>" in str(body["messages"][0]) else EXTRACTING(body)


@pytest.mark.story
@pytest.mark.parametrize("model", [answer_by_script, extract_by_script_correct_by_rules], ids=["script", "rules"])
async def test_correction_changes_only_the_named_field(serve, clone, model):
    async with serve(model) as server:
        document_id = await server.upload_text(PRINTED)
        before = await server.extract(document_id)
        assert before["status"] == "completed", before
        extraction_id = before["extraction"]["id"]
        answer = await server.http.post("/api/agent/correct", json={"extraction_id": extraction_id, "message": WORDS})
        after = answer.json()
        assert after["status"] == "completed", after
        corrected = {**FIELDS, "vendor": {**FIELDS["vendor"], "name": "Acme Ltd"}}
        del corrected["discount"]
        assert after["extraction"]["extracted_fields"] == corrected
        # A value from the user's message has no location and no score.
        scores = after["extraction"]["confidence_scores"]
        assert scores.keys() == {"vendor.vat", "items[0].price", "items[1].price", "total"} and scores["total"] > 0.9
        assert after["extraction"]["evidence"]["vendor.name"]["state"] == "message"
        assert after["extraction"]["evidence"]["total"]["quote"] == "7.50"
        assert after["extraction"]["version"] == before["extraction"]["version"] + 2
        rows = sql(
            clone.owner_url,
            "select j.*, c.tool from public.extraction_journal j join public.tool_calls c on c.id = j.call_id "
            "where j.version > 1 order by j.id",
        )
        assert [(row["path"], row["old"], row["new"], row["tool"]) for row in rows] == [
            (["vendor", "name"], "Acme GmbH", "Acme Ltd", "update_field"),
            (["discount"], 5, None, "remove_field"),
        ]
        for row in rows:
            assert (row["actor"], row["created_by"]) == ("agent", server.scope.user_id)
            assert str(row["run_id"]) == after["run_id"] != before["run_id"]
            assert row["created_at"] is not None
        if model is answer_by_script:
            assert [row["call_id"] for row in rows] == [UPDATE.id, REMOVE.id]
