"""Questions that are reckoned over many documents, by the scripted model and by the offline rules."""

from __future__ import annotations

import pytest

from desk import sql, until
from fieldmark.agents.registry import answer_offline
from fieldmark.offline_model.messages import call
from fieldmark.testing.script import Script
from shelf import Shelved, put

pytestmark = pytest.mark.anyio

INTENT = call("record_intent", {"intent": "calculation", "confidence": 0.9, "reasoning": "A count."})
SURVEY = "Survey of the house\n\nThe roof leaks at the chimney.\nThe gutters are sound.\n"


def invoices() -> list[Shelved]:
    totals = [("Acme", 500), ("Acme", 1500.5), ("Globex", 2000), ("Globex", 900)]
    found = [Shelved({"vendor": vendor, "total": total}, filename=f"{vendor}-{total}.pdf") for vendor, total in totals]
    return [*found, Shelved(None, filename="unread.pdf")]


async def ask(http, message: str) -> dict:
    answer = await http.post("/api/agent/ask", json={"message": message})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def indexed(served) -> None:
    async def is_there() -> bool:
        return (await served.http.get("/api/search?q=anything")).json()["behind"] == 0

    await until(is_there)


def over(value: int) -> dict:
    return {"document_type": "invoice", "fields": [{"path": "total", "op": ">", "value": value}]}


async def test_a_count_says_what_it_covers_whether_the_model_does_or_not(serve, clone):
    script = Script(
        [
            [INTENT, call("query_fields", {"where": over(1000), "aggregates": [{"op": "count"}]})],
            [
                call(
                    "submit_calculation",
                    {"answer": "There are 2.", "formula": "invoices over 1,000", "result": "2", "confidence": 1.0},
                )
            ],
        ]
    )
    async with serve(script) as served:
        put(clone.owner_url, served.scope, invoices())
        result = await ask(served.http, "How many invoices are over 1,000?")
        told = result["result"]
        assert (told["kind"], told["result"], told["fallback"]) == ("calculation", "2", None)
        (coverage,) = told["coverage"]
        assert (coverage["documents"], coverage["with_field"], coverage["not_read"]) == (4, 4, 1)
        assert coverage["text"] in result["answer"] and "4 of 4" in coverage["text"]
        assert told["expression"].startswith("count where total > 1000")


async def test_a_count_counts_only_what_the_persons_filters_leave(serve, clone):
    acme = {"fields": [{"path": "total", "op": ">", "value": 1000.25}]}
    script = Script(
        [
            [INTENT, call("query_fields", {"where": {"filename": "acme"}, "aggregates": [{"op": "count"}]})],
            [
                call(
                    "submit_calculation",
                    {"answer": "There is 1.", "formula": "documents", "result": "1", "confidence": 1.0},
                )
            ],
        ]
    )
    async with serve(script) as served:
        put(clone.owner_url, served.scope, invoices())
        answer = await served.http.post("/api/agent/ask", json={"message": "How many?", "filters": acme})
        told = answer.json()["result"]
        assert (told["kind"], told["result"], told["fallback"]) == ("calculation", "1", None)


async def test_a_count_that_nobody_made_is_not_given(serve, clone):
    wrong = {"answer": "There are 102.", "formula": "invoices", "result": "102", "confidence": 1.0}
    script = Script(
        [
            [INTENT, call("query_fields", {"aggregates": [{"op": "count"}]})],
            [call("submit_calculation", wrong)],
            [call("submit_calculation", wrong)],
        ]
    )
    async with serve(script) as served:
        put(clone.owner_url, served.scope, invoices())
        result = await ask(served.http, "How many?")
        assert result["result"]["fallback"]["code"] == "answer_invalid" and "102" not in result["answer"]


@pytest.mark.parametrize(
    ("question", "result", "says"),
    [
        ("how many invoices are over 1,000?", "2", ["2. "]),
        ("sum of totals by vendor", None, ["Globex: 2900", "Acme: 2000.5"]),
        ("what is the highest total of the invoices?", "2000", ["2000"]),
        ("how many invoices are there?", "4", ["4."]),
    ],
)
async def test_the_rules_reckon(serve, clone, question, result, says):
    async with serve(answer_offline) as served:
        put(clone.owner_url, served.scope, invoices())
        said = await ask(served.http, question)
        told = said["result"]
        assert told["kind"] == "calculation" and told["fallback"] is None, said
        assert result in (None, told["result"])
        assert all(one in said["answer"] for one in says), said["answer"]
        assert "no language model" in said["answer"]


@pytest.mark.parametrize(
    ("question", "kind", "says"),
    [
        ("what does survey.txt say about the roof?", "answer", "The roof leaks at the chimney"),
        ("who feeds the dragons?", "answer", "nothing"),
    ],
)
async def test_the_rules_look_up_and_cite(serve, question, kind, says):
    async with serve(answer_offline) as served:
        document_id = await served.document(SURVEY, "survey.txt")
        await indexed(served)
        said = await ask(served.http, question)
        told = said["result"]
        assert (told["kind"], told["fallback"]) == (kind, None), said
        assert says in said["answer"]
        assert {one["document_id"] for one in told["sources"]} == (set() if says == "nothing" else {str(document_id)})


async def test_who_asks_for_a_field_that_there_is_not_is_told_which_there_are(serve, clone):
    amount = {"fields": [{"path": "amount", "op": ">", "value": 1}]}
    script = Script(
        [
            [
                INTENT,
                call("query_fields", {"aggregates": [{"op": "sum", "path": "amount"}]}),
                call("query_fields", {"where": {"document_type": "bill"}}),
                call("query_fields", {"aggregates": [{"op": "sum", "path": "total"}]}),
                call("search_documents", {"query": "acme", "filters": amount}),
                call("search_documents", {"query": "dragons"}),
            ],
            [call("submit_answer", {"answer": "Nothing.", "nothing_found": True, "confidence": 1.0})],
        ]
    )
    async with serve(script) as served:
        put(clone.owner_url, served.scope, invoices())
        assert (await ask(served.http, "What do they come to?"))["status"] == "completed"
        rows = sql(clone.owner_url, "select arguments::text as asked, data -> 'fields' as fields from tool_calls")
        there = [
            {"document_type": "invoice", "path": "total", "documents": 4, "kinds": ["number"]},
            {"document_type": "invoice", "path": "vendor", "documents": 4, "kinds": ["text"]},
        ]
        for row in rows:
            assert row["fields"] == (there if "amount" in row["asked"] or "bill" in row["asked"] else None), row
        assert sum(row["fields"] is not None for row in rows) == 3
