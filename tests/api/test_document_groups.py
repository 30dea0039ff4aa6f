"""Groups of new documents: one table for those that look alike."""

from __future__ import annotations

from email.message import EmailMessage
from typing import Any

import pytest
from answers import assert_problem
from members import create_org, new_member

from encrypted_files import NEW_PDF
from extraction_case import sql, until

pytestmark = pytest.mark.anyio

RECEIPTS = [
    "Pennywise Hardware Ltd\nRECEIPT\nReceipt no: 7\nDate: 13.09.2026\nTotal: 28.29\n",
    "Corner Fig Cafe Ltd\nRECEIPT\nDate: 14.09.2026\nCashier: Ann\nTotal: 3.50\n",
    "Lark Taxi Ltd\nRECEIPT\nTotal: 9.00\n",
]
NOTE = "DELIVERY NOTE\nSupplier: Tarn\nNote no.: DN-{0}\nPallets: {0}\nDriver: R. Haas\nOrder no.: PO-{0}\n"


async def test_similar_documents_are_one_group_with_columns_and_a_preview(serve, clone):
    async with serve() as server:
        receipts = [str(await server.upload_text(text, f"r{at}.txt")) for at, text in enumerate(RECEIPTS)]
        notes = [str(await server.upload_text(NOTE.format(at), f"n{at}.txt")) for at in (1, 2)]
        copy = str(await server.upload_text(RECEIPTS[0], "copy.txt"))
        locked = (await server.http.post("/api/documents", files={"file": ("locked.pdf", NEW_PDF)})).json()["id"]
        await server.wait_until_read(locked)
        everything = {"document_ids": [*receipts, *notes, copy, locked]}

        async def grouped(**body: object) -> dict:
            answer = await server.http.post("/api/documents/groups", json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        found = await grouped(**everything)
        first, second = found["groups"]
        assert (first["kind"], first["title"], first["document_ids"]) == ("receipt", "Receipt", receipts)
        assert (second["kind"], second["title"], second["document_ids"]) == ("document", "Delivery note", notes)
        assert first["table"] is None and first["estimated_cost_usd"] is None
        assert [one["name"] for one in first["columns"]] == ["vendor", "date", "total"]
        assert [one["values"] for one in first["rows"]] == [
            {"vendor": "Pennywise Hardware Ltd", "date": "2026-09-13", "total": 28.29},
            {"vendor": "Corner Fig Cafe Ltd", "date": "2026-09-14", "total": 3.5},
            {"vendor": "Lark Taxi Ltd", "total": 9.0},
        ]
        assert {one["name"]: one["type"] for one in second["columns"]}["pallets"] == "number"
        assert [(one["filename"], one["original"]) for one in found["copies"]] == [("copy.txt", "r0.txt")]
        assert [(one["filename"], one["error_code"]) for one in found["failed"]] == [("locked.pdf", "password")]
        assert found["reading"] == 0

        # A table of receipts is known by the type of its documents, whatever their layout.
        columns = [{"name": "vendor"}, {"name": "total", "type": "number"}]
        stack = {"name": "Receipts", "document_ids": receipts[:2], "columns": columns}
        stack_id = (await server.http.post("/api/stacks", json=stack)).json()["id"]
        schema = (await server.http.get(f"/api/stacks/{stack_id}")).json()["schema_revid"]
        sql(
            clone.owner_url,
            """insert into extractions (org_id, document_id, created_by, schema_revid, status, document_type)
               select org_id, id, created_by, %s, 'completed', 'receipt' from documents where id = %s returning id""",
            schema,
            receipts[0],
        )
        (first, second) = (await grouped(**everything))["groups"]
        assert first["table"] == {
            "table_id": stack_id,
            "stack_id": stack_id,
            "schema_id": (await server.http.get(f"/api/stacks/{stack_id}")).json()["schema_id"],
            "name": "Receipts",
            "documents": 2,
        }
        assert (first["columns"], first["rows"], second["table"]) == ([], [], None)


async def test_a_group_has_what_a_rule_says_of_its_documents(serve):
    async with serve() as server:
        org = server.scope.org_id
        stack = (await server.http.post("/api/stacks", json={"name": "Scans"})).json()["id"]
        schema = {"type": "object", "properties": {"total": {"type": "number"}}}
        schema_id = (await server.http.post("/api/schemas", json={"name": "Receipts", "schema": schema})).json()["id"]
        rules = [
            {"filename": "scan*", "stack_id": stack},
            {"sender": "@vendor.example", "schema_id": schema_id},
            {"document_type": "receipt", "schema_id": schema_id},
        ]
        path = f"/api/organisations/{org}/upload_rules"
        (await server.http.put(path, json={"items": rules})).raise_for_status()
        mail = EmailMessage()
        mail["From"] = "b@vendor.example"
        mail.add_attachment(NOTE.format(1), filename="n1.txt")
        receipts = dict(zip(("scan.txt", "a.txt", "b.txt"), RECEIPTS, strict=True))
        files = {**receipts, "n2.txt": NOTE.format(2), "m.eml": mail.as_string()}
        ids = []
        for name, text in files.items():
            sent = {"file": (name, text.encode())}
            made = await server.http.post("/api/documents", files=sent, params={"auto_create": "false"})
            ids.append(made.json()["id"])
            await server.wait_until_read(ids[-1])

        async def all_are_read() -> Any:
            found = (await server.http.post("/api/documents/groups", json={"document_ids": ids})).json()
            return found if not found["reading"] else None

        found = await until(all_are_read)
        listed = (await server.get("documents"))["items"]
        name_of = {one["id"]: one["filename"] for one in listed}
        by_schema = {"schema_id": schema_id, "stack_id": None, "name": "Receipts"}
        by_name = {"schema_id": None, "stack_id": stack, "name": "Scans"}
        assert {tuple(name_of[one] for one in group["document_ids"]): group["rule"] for group in found["groups"]} == {
            ("a.txt", "b.txt"): by_schema,
            ("scan.txt",): by_name,
            ("n1.txt",): by_schema,
            ("n2.txt",): None,
            ("m.eml",): by_schema,
        }


async def test_documents_of_others_are_left_out_and_a_key_needs_both_scopes(serve):
    async with serve() as server:
        org = await create_org(server.http)
        server.http.headers["x-org-id"] = org
        body = {"document_ids": [str(await server.upload_text(RECEIPTS[0], "r.txt"))]}
        assert len((await server.http.post("/api/documents/groups", json=body)).json()["groups"]) == 1
        async with new_member(server, org, "viewer") as (viewer, _):
            assert len((await viewer.post("/api/documents/groups", json=body)).json()["groups"]) == 1
        async with server.client() as stranger:
            found = (await stranger.post("/api/documents/groups", json=body)).json()
            assert found == {"groups": [], "copies": [], "failed": [], "reading": 0}

        async def status(*scopes: str) -> int:
            made = await server.http.post("/api/keys", json={"name": "k", "scopes": scopes})
            key = {"Authorization": f"Bearer {made.json()['key']}"}
            return (await server.http.post("/api/documents/groups", json=body, headers=key)).status_code

        assert await status("documents:read", "extractions:read") == 200
        assert await status("documents:read") == await status("extractions:read") == 403
        assert_problem(await server.http.post("/api/documents/groups", json={"document_ids": []}), 422)
