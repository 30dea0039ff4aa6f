"""Editing extractions over HTTP: fields, history, versions, locks and proposals."""

from __future__ import annotations

from contextlib import asynccontextmanager
from decimal import Decimal
from secrets import token_hex
from uuid import uuid4

import pytest
from answers import assert_problem

from extraction_case import sql
from fieldmark.offline_model.messages import text
from fieldmark.stores import extractions
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

FIELDS = {"vendor": {"name": "Acme"}, "items": [{"price": 1}, {"price": 2}], "total": 3}


class ExtractionClient:
    """An extraction filled by an agent, and the HTTP client of its user."""

    def __init__(self, server, extraction_id):
        self.server, self.http, self.id = server, server.http, str(extraction_id)
        self.path = f"/api/extractions/{extraction_id}"

    async def save_as_agent(self, fields, scores=None, evidence=None):
        async with self.server.runtime.database.as_user(self.server.scope) as conn:
            await conn.execute(
                "select set_config('fieldmark.run_id', %s, true), set_config('fieldmark.call_id', 'call', true)",
                (str(uuid4()),),
            )
            await extractions.save_fields(conn, self.id, fields, scores or {}, evidence or {})

    async def now(self):
        return (await self.http.get(self.path)).json()

    async def get_valid_from_list(self):
        (listed,) = (await self.http.get("/api/extractions")).json()["items"]
        return listed["valid"]

    async def set(self, path, value, **headers):
        return await self.http.patch(f"{self.path}/fields", json={"path": path, "value": value}, headers=headers)

    async def remove(self, path, **headers):
        return await self.http.delete(f"{self.path}/fields", params={"path": path}, headers=headers)

    async def decide(self, *decisions, http=None):
        body = {"decisions": [{"id": proposal, "accepted": accepted} for proposal, accepted in decisions]}
        return await (http or self.http).post(f"{self.path}/proposals", json=body)

    async def history(self, **query):
        answer = await self.http.get(f"{self.path}/history", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def edited_extraction(serve, schema=None):
    async with serve(Script([[text("Done.")]])) as server:
        document_id = await server.upload_text()
        async with server.runtime.database.as_user(server.scope) as conn:
            extraction_id = await extractions.add(
                conn, org_id=server.scope.org_id, document_id=document_id, schema=schema
            )
        one = ExtractionClient(server, extraction_id)
        await one.save_as_agent(FIELDS, {"total": 0.5}, {"total": {"page": 1}})
        yield one


async def test_invisible_characters_get_422(serve):
    async with edited_extraction(serve) as one:
        before = await one.now()
        for path, value, code in (
            ("vendor.name", "Acme\u202e", "invisible_character"),
            ("vendor", {"na\u200bme": "Acme"}, "invisible_character"),
            ("tota\u2060l", 1, "invalid_path"),
        ):
            assert_problem(await one.set(path, value), 422, code)
        answer = await one.http.patch(one.path, json={"document_type": "in\u200bvoice"})
        assert_problem(answer, 422, "invisible_character")
        assert_problem(await one.http.patch(one.path, json={"document_type": ""}), 422)
        assert await one.now() == before
        assert (await one.http.patch(one.path, json={"document_type": "receipt"})).json()["document_type"] == "receipt"
        assert (
            await one.set("vendor.name", "\u0645\u06cc\u200c\u062e")
        ).status_code == 200  # a joiner within its script


async def test_fields_are_set_and_removed(serve):
    async with edited_extraction(serve) as one:
        user = str(one.server.scope.user_id)
        answer = await one.set("vendor.address.city", "Ulm")
        assert answer.status_code == 200 and answer.json() == {**await one.now(), "problems": [], "errors": []}
        assert answer.json()["extracted_fields"]["vendor"] == {"name": "Acme", "address": {"city": "Ulm"}}
        assert answer.json()["version"] == 2 and answer.json()["locks"].keys() == {"vendor.address.city"}
        assert answer.json()["locks"]["vendor.address.city"]["by"] == user
        assert (await one.set("items[2].price", 9)).json()["extracted_fields"]["items"][2] == {"price": 9}
        removed = (await one.remove("items[0]")).json()
        assert removed["extracted_fields"]["items"] == [{"price": 2}, {"price": 9}]
        assert removed["locks"].keys() == {"vendor.address.city", "items[1].price"}
        assert (await one.set("total", None)).json()["extracted_fields"]["total"] is None
        # An agent's evidence is removed with its value. A user's value is searched on the page and needs no confidence.
        now = await one.now()
        states = {name: proof["state"] for name, proof in now["evidence"].items()}
        assert states == {"vendor.address.city": "not_found", "items[1].price": "not_found", "total": "blank"}
        assert now["confidence_scores"] == {} and all(proof["claim"] is None for proof in now["evidence"].values())
        assert (await one.set("total", 10)).json()["evidence"]["total"]["quote"] == "10.00"
        assert (await one.now())["confidence_scores"] == {"total": 0.99}
        refused = [
            await one.set("a..b", 1),
            await one.set("total.net", 1),
            await one.set("total", "\0"),
            await one.remove("nothing"),
            await one.http.patch(f"{one.path}/fields", json={"path": "total"}),
            await one.http.patch(f"{one.path}/fields", json={"path": "a", "value": 1, "confidence": 1}),
            await one.http.delete(f"{one.path}/fields"),
            await one.http.post(f"{one.path}/restore", json={"version": True}),
        ]
        for answer in refused:
            assert_problem(answer, 422, answer.json()["code"])
        assert (await one.now())["version"] == 6
        # Without a schema `valid` is null.
        assert (await one.now())["valid"] is await one.get_valid_from_list() is None
        # Agents may change an unlocked value again.
        answer = await one.http.delete(f"{one.path}/locks", params={"path": "total"})
        assert answer.status_code == 200 and "total" not in answer.json()["locks"]
        assert_problem(await one.http.delete(f"{one.path}/locks", params={"path": "total"}), 422)


SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "number"}, "net": {"type": "number", "x-fieldmark": {"grounded": True}}},
    "required": ["number"],
    "x-fieldmark": {"rules": [{"equals": ["total", "net"]}]},
}


async def test_edit_that_breaks_the_schema_is_stored_with_its_errors(serve):
    async with edited_extraction(serve, SCHEMA) as one:

        async def get_problems(http=one.http):
            return await http.get(f"{one.path}/problems")

        missing = "number: is missing, and the schema requires it"
        violation = {"path": "number", "code": "required", "message": missing, "about": []}
        violation["params"] = {"expected": ["number"]}
        assert (await get_problems()).json() == {"version": 1, "problems": [missing], "errors": [violation]}
        assert (await one.now())["valid"] is False and await one.get_valid_from_list() is False
        wrong_type = 'total: "10 EUR" is not of type "number"'
        answer = await one.set("total", "10 EUR")
        assert answer.status_code == 200 and answer.json()["extracted_fields"]["total"] == "10 EUR"
        assert answer.json()["problems"][0].startswith(wrong_type) and answer.json()["problems"][1:] == [missing]
        # An agent's value that is not found on the page is an error too, a user's is not.
        await one.save_as_agent({"net": 9})
        not_found = (await one.set("number", "1")).json()["problems"][1]
        assert not_found.startswith("net: 9 was not found in the document")
        (broken,) = (await one.set("net", 9.5)).json()["problems"][1:]
        assert '"10 EUR"' in broken and "9.5" in broken
        completed = await one.http.post(f"{one.path}/complete")
        assert (
            completed.status_code == 200
            and completed.json()["status"] == "completed"
            and len(completed.json()["problems"]) == 2
        )
        assert (await get_problems()).json()["problems"] == completed.json()["problems"]
        assert completed.json()["valid"] is False and await one.get_valid_from_list() is False
        assert [(one["path"], one["code"]) for one in completed.json()["errors"]] == [("total", "type"), ("", "equals")]
        fixed = (await one.set("total", 9.5)).json()
        assert fixed["problems"] == (await get_problems()).json()["problems"] == []
        # Every view shows the same validity.
        assert fixed["valid"] is (await one.now())["valid"] is await one.get_valid_from_list() is True
        assert (await one.set("total", 9.6)).json()["valid"] is (await one.now())["valid"] is False
        assert await one.get_valid_from_list() is False
        exported = (await one.http.get(f"{one.path}/export")).json()
        assert exported["valid"] is False and [one["code"] for one in exported["problems"]] == ["equals"]
        async with one.server.client() as stranger:
            assert_problem(await get_problems(stranger), 404)
    # A schema with an external reference, as a front end may have stored it.
    async with edited_extraction(serve, {"properties": {"a": {"$ref": "elsewhere"}}}) as one:
        answer = await one.set("total", 1)
        assert answer.status_code == 200 and "only references inside it" in answer.json()["problems"][0]


async def test_number_is_stored_with_all_its_digits_or_refused(serve, clone):
    async with edited_extraction(serve) as one:

        async def send(number):
            body = f'{{"path": "total", "value": {number}}}'
            path, headers = f"{one.path}/fields", {"content-type": "application/json"}
            return await one.http.patch(path, content=body, headers=headers)

        for number in ("9007199254740993", "123456789012345678901234567890", "0.1", "1e-7", "0.30000000000000004"):
            answer = await send(number)
            assert answer.status_code == 200 and f'"total":{number}' in answer.text.replace("1e-07", "1e-7")
            (row,) = sql(clone.owner_url, "select (extracted_fields -> 'total')::numeric as total from extractions")
            assert row["total"] == Decimal(number)
        for number in ("12345678901234567.89", "0.12345678901234567890", "1e999", "1.0e-400"):
            assert_problem(await send(number), 422, "invalid")
        assert (await one.now())["extracted_fields"]["total"] == 0.30000000000000004


async def test_confirmed_value_is_locked_unchanged_to_the_last_digit(serve, clone):
    long = "123456789012345.50"
    async with edited_extraction(serve) as one:
        total = f'{{"total": {long}}}'
        sql(clone.owner_url, "select public.save_extraction_fields(%s, %s)", one.path.rsplit("/", 1)[1], total)
        before = await one.now()
        assert before["locks"] == {}
        confirmed = await one.http.post(f"{one.path}/locks", params={"path": "total"})
        assert confirmed.status_code == 200
        (row,) = sql(clone.owner_url, "select extracted_fields ->> 'total' as total from extractions")
        assert row["total"] == long
        assert confirmed.json()["locks"].keys() == {"total"} and confirmed.json()["version"] == before["version"]
        # A stale version and a path without a value are refused.
        if_match = {"if-match": f'"{before["version"] - 1}"'}
        assert_problem(await one.http.post(f"{one.path}/locks", params={"path": "total"}, headers=if_match), 409)
        assert_problem(await one.http.post(f"{one.path}/locks", params={"path": "nowhere"}), 422, "invalid")


async def test_setting_the_current_value_locks_it_and_keeps_its_evidence(serve):
    async with edited_extraction(serve) as one:
        now = (await one.set("total", 3)).json()
        assert now["locks"].keys() == {"total"} and now["version"] == 1
        assert now["evidence"] == {"total": {"page": 1}} and now["confidence_scores"] == {"total": 0.5}
        now = (await one.set("items[0]", {"price": 1, "unit": "EUR"})).json()
        assert now["locks"].keys() == {"total", "items[0].price", "items[0].unit"}
        # A value without evidence is searched on the page.
        assert now["evidence"].keys() == {"total", "items[0].price", "items[0].unit"}
        assert now["evidence"]["items[0].unit"]["quote"] == "EUR"


async def test_stale_if_match_gets_409(serve):
    async with edited_extraction(serve) as one:
        await one.set("total", 4)
        stale = [
            await one.set("total", 5, **{"if-match": '"1"'}),
            await one.remove("total", **{"if-match": "1"}),
            await one.http.post(f"{one.path}/restore", json={"version": 0}, headers={"if-match": '"1"'}),
            await one.http.delete(f"{one.path}/locks", params={"path": "total"}, headers={"if-match": '"1"'}),
            await one.http.post(f"{one.path}/complete", headers={"if-match": '"1"'}),
        ]
        for answer in stale:
            assert_problem(answer, 409)
        assert_problem(await one.set("total", 5, **{"if-match": "yesterday"}), 422)
        assert (await one.set("total", 5, **{"if-match": '"2"'})).json()["version"] == 3
        assert (await one.set("total", 6, **{"if-match": "*"})).json()["version"] == 4


async def test_history_page_of_large_values_has_fewer_entries(serve):
    async with edited_extraction(serve) as one:
        for _ in range(6):
            await one.save_as_agent({"note": token_hex(150_000)})
        first = await one.history(path="note")
        assert 1 <= len(first["items"]) < 6 and len(str(first)) < 3_000_000
        found, following = first["items"], first["next"]
        while following is not None:
            part = await one.history(path="note", before=following)
            found, following = found + part["items"], part["next"]
        assert [item["version"] for item in found] == [7, 6, 5, 4, 3, 2]


async def test_history_is_paged_and_every_version_is_readable(serve):
    async with edited_extraction(serve) as one:
        user = str(one.server.scope.user_id)
        expected_fields = {0: {}, 1: FIELDS}
        for path, value in [("total", 4), ("items[0].price", None), ("vendor", {})]:
            now = (await one.set(path, value)).json()
            expected_fields[now["version"]] = now["extracted_fields"]
        await one.remove("items[1]")
        expected_fields[5] = (await one.now())["extracted_fields"]
        history = await one.history()
        assert history["next"] is None
        entries = [
            tuple(item[key] for key in ("version", "path", "old", "new", "added", "removed", "actor", "call_id"))
            for item in history["items"]
        ]
        assert entries[:5] == [
            (5, "items[1].price", 2, None, False, True, "user", None),
            (4, "vendor.name", "Acme", None, False, True, "user", None),
            (4, "vendor", None, {}, True, False, "user", None),
            (3, "items[0].price", 1, None, False, False, "user", None),
            (2, "total", 3, 4, False, False, "user", None),
        ]
        assert {line[0] for line in entries[5:]} == {1} and {line[-2:] for line in entries[5:]} == {("agent", "call")}
        assert all(item["user_id"] == user and item["created_at"] for item in history["items"])
        paged, before = [], None
        while before is not None or not paged:
            part = await one.history(limit=2, **({} if before is None else {"before": before}))
            paged += part["items"]
            before = part["next"]
        assert paged == history["items"]
        items_only = await one.history(path="items")
        assert [item["path"] for item in items_only["items"]] == [
            path for _, path, *_ in entries if path.startswith("items")
        ]
        assert (await one.history(path="items.0"))["items"] == []  # a key, not an index
        assert_problem(await one.http.get(f"{one.path}/history", params={"path": "["}), 422, "invalid_path")
        for version, fields in expected_fields.items():
            past = (await one.http.get(one.path, params={"version": version})).json()
            assert past.pop("changed_at")
            assert past == {
                "id": one.id,
                "document_id": (await one.now())["document_id"],
                "version": version,
                "latest_version": 5,
                "extracted_fields": fields,
            }
        assert_problem(await one.http.get(one.path, params={"version": 6}), 404)
        assert_problem(await one.http.get(one.path, params={"version": -1}), 422)
        restored = (await one.http.post(f"{one.path}/restore", json={"version": 1})).json()
        assert (restored["version"], restored["extracted_fields"]) == (6, FIELDS)
        assert restored["locks"].keys() == {"vendor.name", "items[0].price", "items[1].price", "total"}
        assert restored["evidence"].keys() == restored["locks"].keys()
        assert restored["evidence"]["items[0].price"]["quote"] == "1"  # searched again
        await one.save_as_agent({"note": "n"}, {"note": 0.5}, {"note": {"page": 1}})
        again = (await one.http.post(f"{one.path}/restore", json={"version": 7})).json()
        assert again["evidence"]["note"] == {"page": 1}  # restored with its value
        assert_problem(await one.http.post(f"{one.path}/restore", json={"version": 8}), 422)


async def test_proposals_are_decided_once(serve):
    async with edited_extraction(serve) as one:
        await one.set("total", 4)
        await one.set("vendor.name", "Acme Ltd")
        await one.save_as_agent(
            {"total": 5, "vendor": {"name": None}}, {"total": 0.75}, {"total": {"state": "found", "page": 2}}
        )
        now = await one.now()
        assert now["extracted_fields"]["total"] == 4 and now["version"] == 3
        total, vendor = now["proposals"]
        assert (total["path"], total["old"], total["new"], total["removed"]) == ("total", 4, 5, False)
        assert (vendor["path"], vendor["old"], vendor["new"], vendor["removed"]) == (
            "vendor.name",
            "Acme Ltd",
            None,
            False,
        )
        assert (total["confidence_scores"], total["evidence"]) == (
            {"total": 0.75},
            {"total": {"state": "found", "page": 2}},
        )
        assert total["run_id"] and total["created_at"]
        assert (await one.http.get("/api/extractions")).json()["items"][0]["proposals"] == 2
        # All decisions of a request are applied, or none.
        detail = assert_problem(await one.decide((total["id"], True), (str(uuid4()), True)), 404)
        assert detail == "There is no such proposal." and await one.now() == now
        async with one.server.client() as stranger:
            unknown = assert_problem(await one.decide((str(uuid4()), True), http=stranger), 404)
            assert assert_problem(await one.decide((total["id"], True), http=stranger), 404) == unknown
        decided = await one.decide((total["id"], True), (vendor["id"], False))
        assert decided.status_code == 200 and decided.json() == {**await one.now(), "problems": [], "errors": []}
        after = decided.json()
        assert (after["extracted_fields"]["total"], after["extracted_fields"]["vendor"]) == (5, {"name": "Acme Ltd"})
        assert after["proposals"] == [] and after["locks"].keys() == {"total", "vendor.name"}
        assert after["confidence_scores"]["total"] == 0.75 and after["evidence"]["total"]["page"] == 2
        for proposal in (total, vendor):
            assert_problem(await one.decide((proposal["id"], True)), 409)
        assert_problem(await one.decide(), 422)
        assert_problem(await one.http.post(f"{one.path}/proposals", json={"decisions": [{"id": total["id"]}]}), 422)
