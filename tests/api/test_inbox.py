"""The inbox: everything that waits for a person is in one list, with the answers that the page offers."""

from __future__ import annotations

import pytest
from answers import assert_problem
from psycopg.types.json import Jsonb

from extraction_case import sql, until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

RECEIPT = """PENNYWISE HARDWARE
Receipt 20832
Date 03/11/2026
Padlock 50 mm  8.25
Wall plugs  3.90
Masking tape  3.40
TO PAY  15.55
Cash  20.00
Change  4.45
"""
SCHEMA = {
    "type": "object",
    "required": ["total"],
    "properties": {
        "vendor": {"type": "string"},
        "date": {"type": "string", "format": "date"},
        "total": {"type": "number"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"amount": {"type": "number"}}}},
    },
}
FIELDS = {
    "vendor": "Pennywise Hardware",
    "date": "2026-11-03",
    "items": [{"amount": 8.25}, {"amount": 3.9}, {"amount": 3.4}],
}
READ = [[call("extract_fields", {"fields": FIELDS})], [call("complete_extraction", {})], [text("Done.")]]


async def _inbox(server, **query):
    answer = await server.http.get("/api/inbox", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _counts(page) -> dict[str, int]:
    return {kind: one["count"] for kind, one in page["counts"].items()}


async def test_inbox_has_each_kind_with_true_counts(serve):
    script = Script([*READ, [call("extract_fields", {"fields": {**FIELDS, "total": 15.55}})], [text("Done.")]])
    async with serve(script) as server:
        broken = (await server.http.post("/api/documents", files={"file": ("broken.pdf", b"%PDF-1.7 x")})).json()["id"]
        await server.wait_until_read(broken)
        schema = (await server.http.post("/api/schemas", json={"name": "Receipts", "schema": SCHEMA})).json()
        receipt = await server.upload_text(RECEIPT, "pennywise.txt")
        await server.extract(receipt, schema_revid=schema["schema_revid"])
        other = await server.upload_text(RECEIPT, "second.txt")
        waiting = await server.extract(other, schema_revid=schema["schema_revid"], approval="ask")

        async def is_checked() -> bool:
            return _counts(await _inbox(server))["value"] > 1

        await until(is_checked)
        page = await _inbox(server)
        kinds = [one["kind"] for one in page["items"]]
        assert _counts(page) == {kind: kinds.count(kind) for kind in ("value", "approval", "suggestion", "failed")}
        assert (page["items"][-1]["kind"], page["items"][-1]["error_code"]) == ("failed", "damaged")
        approval = page["items"][0]
        assert (approval["run_id"], approval["tool"], approval["filename"], approval["table"]) == (
            waiting["run_id"],
            "extract_fields",
            "second.txt",
            "Receipts",
        )
        assert approval["changes"] == 5
        values = {one["path"]: one for one in page["items"] if one["kind"] == "value"}
        assert {path: (one["status"], one["reason"]) for path, one in values.items()} == {
            "total": ("needs_review", "missing"),
            "date": ("unclear", "ambiguous_date"),
        }
        assert {one["table"] for one in values.values()} == {"Receipts"}

        # Filters also count.
        table = await _inbox(server, schema_id=schema["id"], kind="value")
        assert [one["path"] for one in table["items"]] == list(values)
        assert _counts(table) == {"value": 2, "approval": 1, "suggestion": 0, "failed": 0}
        field = await _inbox(server, field="total")
        assert [one["path"] for one in field["items"]] == ["total"]
        assert _counts(field) == {"value": 1, "approval": 0, "suggestion": 0, "failed": 0}
        assert _counts(await _inbox(server, field="vendor")) == dict.fromkeys(_counts(page), 0)
        assert _counts(await _inbox(server, since="2100-01-01T00:00:00Z")) == dict.fromkeys(_counts(page), 0)
        mine = await _inbox(server, created_by=str(server.scope.user_id))
        assert mine["items"] == page["items"]
        assert (await _inbox(server, created_by=schema["id"]))["items"] == []

        # Pages follow one another without gaps.
        found, before = [], {}
        while True:
            part = await _inbox(server, limit=1, **before)
            found += part["items"]
            if part["next"] is None:
                break
            before = {"before": part["next"]}
        assert found == page["items"]

        async with server.client() as stranger:
            empty = (await stranger.get("/api/inbox")).json()
            assert (empty["items"], set(_counts(empty).values())) == ([], {0})


async def test_answers_are_printed_values_with_their_location_and_reason(serve):
    async with serve(Script(READ)) as server:
        receipt = await server.upload_text(RECEIPT, "pennywise.txt")
        await server.extract(receipt, schema=SCHEMA)
        extraction = (await server.get(f"documents/{receipt}"))["shown_extraction_id"]

        async def answers(path: str):
            answer = await server.http.get(f"/api/extractions/{extraction}/answers", params={"path": path})
            return answer.json()["items"]

        total = await answers("total")
        assert (total[0]["value"], total[0]["code"], total[0]["data"]) == (
            15.55,
            "sum",
            {"label": "TO PAY", "quote": "15.55", "of": "items[].amount"},
        )
        assert (20.0, "near", "Cash") in [(one["value"], one["code"], one["data"]["label"]) for one in total]
        assert all(one["page"] == 1 and one["boxes"] for one in total)

        date = await answers("date")
        assert [(one["value"], one["code"]) for one in date] == [
            ("2026-11-03", "day_first"),
            ("2026-03-11", "month_first"),
        ]
        # The answer to a question leaves the inbox.
        saved = await server.http.patch(
            f"/api/extractions/{extraction}/fields", json=[{"path": "total", "value": total[0]["value"]}]
        )
        assert saved.json()["statuses"]["total"] == {"status": "confirmed", "reason": None}
        assert "total" not in [one["path"] for one in (await _inbox(server))["items"]]


@pytest.mark.parametrize(
    ("printed", "fields", "path", "expected"),
    [
        ("Total 1.250 EUR\n", {"total": 1.25}, "total", [(1.25, "printed"), (1250, "other_reading")]),
        ("Item   TEUR\nTotal  50\n", {"total": 50}, "total", [(50, "printed"), (50_000, "other_reading")]),
        ("Item   TEUR\nTotal  2.01\n", {"total": 2.01}, "total", [(2.01, "printed"), (2010, "other_reading")]),
        ("Item   TEUR\nTotal  50\n", {"total": 50_000}, "total", [(50_000, "printed"), (50, "other_reading")]),
        ("Soll: 50.00\n", {"total": 50}, "total", [(50, "printed"), (-50, "other_reading")]),
        (
            "United Kingdom\nDate 04/12/2026\n",
            {"date": "2026-12-04"},
            "date",
            [("2026-12-04", "day_first"), ("2026-04-12", "month_first")],
        ),
        ("Total $ 10.00\n", {"currency": "MYR"}, "currency", []),
        (
            "Total $ 10.00\n",
            {"currency": "CAD"},
            "currency",
            [("CAD", "printed"), ("USD", "symbol"), ("AUD", "symbol")],
        ),
        (
            "Invoice number 60318\nOrder 44712\n",
            {"invoice_number": "60318", "order_number": None},
            "order_number",
            [("44712", "label")],
        ),
        ("Invoice number 60318\n", {"invoice_number": "60318", "order_number": None}, "order_number", []),
        (
            "Invoice number 60318\n",
            {"order_number": "60318", "invoice_number": None},
            "invoice_number",
            [("60318", "label")],
        ),
        ("Net 50.00\nTotal 50.00\n", {"net": 50, "total": None}, "total", [(50, "label")]),
        ("Tea 32.23\nNut 27.37\nSubtotal 123.12\n", {"net": 123.12, "total": None}, "total", []),
        ("Tea 32.23\nCash 150.00\nSubtotal 123.12\n", {"net": 123.12, "total": None}, "total", [(150, "near")]),
        ("Tea 32.23\nSubtotal 123.12\n", {"net": 123.12, "tax": None}, "tax", [(32.23, "near")]),
    ],
    ids=[
        "number",
        "scale",
        "scale of a fraction",
        "scaled",
        "debit",
        "date",
        "not printed",
        "currency",
        "beside another field",
        "of another field",
        "of another field, below the whole name",
        "the value of another field, elsewhere",
        "no total below another amount",
        "a total above another amount",
        "a tax below another amount",
    ],
)
async def test_printed_text_is_read_in_each_way(serve, printed, fields, path, expected):
    script = Script([[call("extract_fields", {"fields": fields})], [call("complete_extraction", {})], [text("Done.")]])
    async with serve(script) as server:
        document = await server.upload_text(printed)
        amounts = {name: {"type": ["number", "null"]} for name in ("net", "tax", "total")}
        await server.extract(document, schema={"type": "object", "properties": amounts})
        extraction = (await server.get(f"documents/{document}"))["shown_extraction_id"]
        answer = await server.http.get(f"/api/extractions/{extraction}/answers", params={"path": path})
        found = [(one["value"], one["code"]) for one in answer.json()["items"]]
        assert found[: len(expected)] == expected
        assert expected or not found


async def test_doubted_row_is_one_value_to_review_until_a_person_keeps_it(serve):
    fields = {**FIELDS, "items": [*FIELDS["items"], {"amount": 15.55}], "total": 15.55}
    printed = "Pennywise Hardware\nNut 8.25\nBolt 3.90\nRing 3.40\nTO PAY 15.55\n2026-11-13\n"
    named = [
        {"name": name, **one} for name, one in zip(("Nut", "Bolt", "Ring", "TO PAY"), fields["items"], strict=True)
    ]
    fields = {**fields, "date": "2026-11-13", "items": [*named[:3], {**named[3], "name": None}]}
    script = Script([[call("extract_fields", {"fields": fields})], [call("complete_extraction", {})], [text("Done.")]])
    async with serve(script) as server:
        receipt = await server.upload_text(printed, "pennywise.txt")
        await server.extract(receipt, schema=SCHEMA)
        extraction = (await server.get(f"documents/{receipt}"))["shown_extraction_id"]

        async def to_review() -> dict[str, str]:
            page = await _inbox(server, kind="value")
            return {one["path"]: one["reason"] for one in page["items"]}

        assert await to_review() == {"items[3]": "subtotal"}
        stored = await server.get(f"extractions/{extraction}")
        assert "row" in stored["evidence"]["items[3].amount"]["doubts"]
        assert stored["evidence"]["items"]["supports"] == ["sum"]
        kept = await server.http.patch(
            f"/api/extractions/{extraction}/fields", json={"path": "items[3]", "value": fields["items"][3]}
        )
        assert kept.status_code == 200, kept.text
        assert await to_review() == {}
        stored = await server.get(f"extractions/{extraction}")
        assert stored["statuses"]["items[3]"] == {"status": "accepted", "reason": "subtotal"}


async def test_order_by_value_begins_with_what_is_probably_wrong_and_soon_done(serve, clone):
    # By document: the confidence of each value.
    read = {"many.txt": {"a": 0.3, "b": 0.1}, "sure.txt": {"a": 0.45}, "wrong.txt": {"a": 0.4}}
    script = [
        step
        for confidences in read.values()
        for step in (
            [call("extract_fields", {"fields": dict.fromkeys(confidences, "one")})],
            [call("complete_extraction", {})],
            [text("Done.")],
        )
    ]
    lower = "update extractions set confidences = confidences || %s where id = %s returning id"
    async with serve(Script(script)) as server:
        for name, confidences in read.items():
            document = await server.upload_text("one two", name)
            made = (await server.extract(document))["extraction"]["id"]
            sql(clone.owner_url, lower, Jsonb(confidences), made)

        async def listed(**query) -> tuple[list[tuple[str, str]], str | None]:
            page = await _inbox(server, kind="value", **query)
            return [(one["filename"], one["path"]) for one in page["items"]], page["next"]

        newest, _ = await listed()
        assert newest == [("wrong.txt", "a"), ("sure.txt", "a"), ("many.txt", "a"), ("many.txt", "b")]
        first, following = await listed(order="value", limit=2)
        assert first == [("wrong.txt", "a"), ("sure.txt", "a")]
        assert await listed(order="value", limit=2, before=following) == (
            [("many.txt", "b"), ("many.txt", "a")],
            None,
        )
        assert_problem(await server.http.get("/api/inbox", params={"order": "value"}), 422, "invalid")
