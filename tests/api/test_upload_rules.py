"""Rules for uploaded documents: the first that matches says what a document becomes, unless its uploader did."""

from __future__ import annotations

from typing import Any

import pytest
from answers import assert_problem
from members import create_org, new_member

from extraction_case import until

pytestmark = pytest.mark.anyio

INVOICE = "Invoice\nInvoice number: 1\nTotal: 10.00 EUR\n"
RECEIPT = "Receipt\nTotal: 5.00 EUR\n"
SOME_ID = "00000000-0000-4000-8000-000000000000"
SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}}
MAIL = (
    "From: Billing <billing@vendor.example>\r\nTo: us@example.com\r\nSubject: Yours\r\nMIME-Version: 1.0\r\n"
    'Content-Type: multipart/mixed; boundary="x"\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\nSee the file.\r\n'
    '--x\r\nContent-Type: text/plain; name="a.txt"\r\nContent-Disposition: attachment; filename="a.txt"\r\n\r\n'
    "Total: 7.00 EUR\r\n--x--\r\n"
)


async def set_rules(http: Any, org: Any, *rules: dict[str, Any]) -> Any:
    return await http.put(f"/api/organisations/{org}/upload_rules", json={"items": list(rules)})


async def runs_of(server: Any) -> list[tuple[str, str]]:
    return [(one["document_id"], one["task"]) for one in (await server.get("runs"))["items"]]


async def has_runs(server: Any, count: int) -> list[tuple[str, str]]:
    async def are_there() -> bool:
        return len(await runs_of(server)) >= count

    await until(are_there)
    return await runs_of(server)


async def test_a_document_of_a_type_gets_its_schema_and_others_a_suggestion(serve):
    async with serve() as server:
        org = server.scope.org_id
        stored = (await server.http.post("/api/schemas", json={"name": "Invoices", "schema": SCHEMA})).json()
        made = await set_rules(server.http, org, {"document_type": "Invoice", "schema_id": stored["id"]})
        assert made.status_code == 200, made.text
        assert await server.get(f"organisations/{org}/upload_rules") == made.json()
        (await server.http.patch(f"/api/organisations/{org}", json={"auto_create": True})).raise_for_status()
        invoice = await server.upload_text(INVOICE, "invoice.txt")
        assert await has_runs(server, 1) == [(str(invoice), "extract")]
        (run,) = (await server.get("runs"))["items"]
        assert (await server.extraction(run["extraction_id"]))["schema_revid"] == stored["schema_revid"]
        assert (await server.get(f"documents/{invoice}"))["auto_create"] is None
        receipt = await server.upload_text(RECEIPT, "receipt.txt")
        assert (await server.get(f"documents/{receipt}"))["auto_create"] is not None


async def test_a_rule_names_its_schema_or_stack_by_name_or_id(serve):
    async with serve() as server:
        schema = (await server.http.post("/api/schemas", json={"name": "Invoices", "schema": SCHEMA})).json()
        stack = (
            await server.http.post("/api/stacks", json={"name": "Receipts", "columns": [{"name": "total"}]})
        ).json()
        for schema_name, stack_name in (
            ("INVOICES", "receipts"),
            (schema["id"], stack["id"]),
            (schema["schema_revid"], stack["id"]),
        ):
            rules = ({"filename": "*", "schema_id": schema_name}, {"filename": "*", "stack_id": stack_name})
            made = (await set_rules(server.http, server.scope.org_id, *rules)).json()["items"]
            assert [(one["schema_id"], one["stack_id"]) for one in made] == [(schema["id"], None), (None, stack["id"])]
        for name in ("schema_id", "stack_id"):
            assert_problem(await set_rules(server.http, server.scope.org_id, {"filename": "*", name: "nothing"}), 404)


async def test_the_first_rule_that_matches_applies(serve):
    async with serve() as server:
        org = server.scope.org_id
        column = {"name": "total", "type": "number"}
        stacks = [
            (await server.http.post("/api/stacks", json={"name": name, "columns": [column]})).json()["id"]
            for name in ("By name", "By sender", "The rest")
        ]
        answer = await set_rules(
            server.http,
            org,
            {"filename": "Scan_[1]*.TXT", "document_type": "receipt", "stack_id": stacks[0]},
            {"sender": "@VENDOR.example", "stack_id": stacks[1]},
            {"filename": "*", "stack_id": stacks[2]},
        )
        assert answer.status_code == 200, answer.text
        await server.upload_text(RECEIPT, "scan_[1] a.txt")
        await server.upload_text(RECEIPT, "scan_1 a.txt")
        await server.upload("mail.eml", MAIL.encode())
        await has_runs(server, 4)  # the mail and the file in it
        tables = [await server.get(f"tables/{stack}/rows") for stack in stacks]
        names = [sorted(row["filename"] for row in table["items"]) for table in tables]
        assert names == [["scan_[1] a.txt"], ["a.txt", "mail.eml"], ["scan_1 a.txt"]]


async def test_no_rule_applies_to_a_document_whose_uploader_said_what_it_becomes(serve):
    async with serve() as server:
        stored = (await server.http.post("/api/schemas", json={"name": "Invoices", "schema": SCHEMA})).json()
        stack = (await server.http.post("/api/stacks", json={"name": "Mine"})).json()
        await set_rules(server.http, server.scope.org_id, {"filename": "*", "schema_id": stored["id"]})
        for options in ({"stack_id": stack["id"]}, {"extract": ""}, {"auto_create": "false"}):
            answer = await server.http.post("/api/documents", files={"file": ("a.txt", b"Total: 1")}, params=options)
            await server.wait_until_read(answer.json()["id"])
        runs = (await server.get("runs"))["items"]
        assert [(await server.extraction(run["extraction_id"]))["schema_revid"] for run in runs] == [None]


async def test_a_rule_whose_schema_was_deleted_does_not_apply(serve):
    async with serve() as server:
        org = server.scope.org_id
        stored = (await server.http.post("/api/schemas", json={"name": "Invoices", "schema": SCHEMA})).json()
        await set_rules(server.http, org, {"filename": "*", "schema_id": stored["id"]})
        (await server.http.delete(f"/api/schemas/{stored['id']}")).raise_for_status()
        assert (await server.get(f"organisations/{org}/upload_rules"))["items"] == []
        await server.upload_text()
        assert await runs_of(server) == []


async def test_only_owners_set_rules_and_only_for_their_own_schemas(serve):
    async with serve() as server:
        org = await create_org(server.http)
        stored = await server.http.post(
            "/api/schemas", json={"name": "Mine", "schema": SCHEMA}, headers={"X-Org-Id": str(org)}
        )
        rule = {"filename": "*", "schema_id": stored.json()["id"]}
        assert (await set_rules(server.http, org, rule)).status_code == 200
        async with new_member(server, org, "member") as (member, _):
            assert_problem(await set_rules(member, org), 403, "owner_needed")
            shown = await member.get(f"/api/organisations/{org}/upload_rules")
            assert [one["schema_id"] for one in shown.json()["items"]] == [rule["schema_id"]]
        async with server.client() as stranger:
            assert_problem(await set_rules(stranger, org), 404)
            own = (await stranger.get("/api/me")).json()["org_id"]
            assert_problem(await set_rules(stranger, own, rule), 404)


@pytest.mark.parametrize(
    "rule",
    [
        {"schema_id": SOME_ID},
        {"filename": "*"},
        {"filename": "*", "schema_id": SOME_ID, "stack_id": SOME_ID},
        {"filename": "", "schema_id": SOME_ID},
        {"filename": "x" * 201, "schema_id": SOME_ID},
        {"sender": "\x00", "schema_id": SOME_ID},
    ],
    ids=str,
)
async def test_other_rules_are_refused(serve, rule):
    async with serve() as server:
        assert_problem(await set_rules(server.http, server.scope.org_id, rule), 422)
        assert_problem(await set_rules(server.http, server.scope.org_id, *[rule] * 51), 422)
