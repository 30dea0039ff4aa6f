"""Uploads by another system: one call uploads and extracts, a repeated call changes nothing, and its own key and data
come back with everything."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import zipfile
from typing import Any

import httpx
import openpyxl
import pytest
from answers import assert_problem

from extraction_case import sql, until

pytestmark = pytest.mark.anyio

TEXT = b"Invoice number: 1\nTotal: 10.00 EUR\n"


async def upload(http: httpx.AsyncClient, content: bytes = TEXT, key: str | None = None, **more: Any) -> httpx.Response:
    form = {name: more.pop(name) for name in ("external_id", "metadata", "callback") if name in more}
    headers = {} if key is None else {"Idempotency-Key": key}
    return await http.post(
        "/api/documents", files={"file": ("a.txt", content)}, data=form, params=more, headers=headers
    )


async def upload_batch(
    http: httpx.AsyncClient, files: dict[str, bytes], key: str | None = None, **options: Any
) -> httpx.Response:
    parts = [("files", (name, content)) for name, content in files.items()]
    headers = {} if key is None else {"Idempotency-Key": key}
    return await http.post("/api/documents/batch", files=parts, params=options, headers=headers)


def archive(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as written:
        for name, content in files.items():
            written.writestr(name, content)
    return packed.getvalue()


async def test_one_call_uploads_and_extracts_with_a_schema_by_name_id_or_version(serve):
    async with serve() as server:
        schema = {"type": "object", "properties": {"total": {"type": "number"}}}
        stored = (await server.http.post("/api/schemas", json={"name": "Invoices", "schema": schema})).json()
        revids = {}
        for name in ("Invoices", stored["id"], stored["schema_revid"], ""):
            made = await upload(server.http, extract=name)
            assert made.status_code == 201, made.text

            async def has_ended(run: str = made.json()["run_id"]) -> bool:
                return (await server.get(f"runs/{run}"))["status"] == "completed"

            await until(has_ended)
            run = await server.get(f"runs/{made.json()['run_id']}")
            revids[name] = (await server.extraction(run["extraction_id"]))["schema_revid"]
        assert list(revids.values()) == [stored["schema_revid"]] * 3 + [None]
        assert (await upload(server.http)).json()["run_id"] is None
        assert_problem(await upload(server.http, extract="Nothing"), 404)


COLUMNS = [{"name": "total", "type": "number"}]


async def end_of(server: Any, run_id: str) -> dict[str, Any]:
    async def has_ended() -> bool:
        return (await server.get(f"runs/{run_id}"))["status"] == "completed"

    await until(has_ended)
    return await server.get(f"runs/{run_id}")


async def test_a_document_becomes_a_row_of_a_table_by_name_or_id(serve):
    async with serve() as server:
        stack = (await server.http.post("/api/stacks", json={"name": "Bills", "columns": COLUMNS})).json()
        schema = {"type": "object", "properties": {"total": {"type": "number"}}}
        stored = (await server.http.post("/api/schemas", json={"name": "Invoices", "schema": schema})).json()
        for table in ("bills", stack["id"]):
            made = await upload(server.http, f"Total: 1{len(table)}.00 EUR\n".encode(), table=table)
            assert made.status_code == 201, made.text
            await end_of(server, made.json()["run_id"])
        rows = (await server.get(f"tables/{stack['id']}/rows"))["items"]
        assert sorted(row["cells"]["total"]["value"] for row in rows) == [15, 136]
        made = await upload(server.http, table="Invoices")
        run = await end_of(server, made.json()["run_id"])
        assert (await server.extraction(run["extraction_id"]))["schema_revid"] == stored["schema_revid"]


async def test_a_refused_upload_stores_nothing(serve):
    async with serve() as server:
        (await server.http.post("/api/stacks", json={"name": "No columns"})).raise_for_status()
        (await server.http.post("/api/stacks", json={"name": "Bills", "columns": COLUMNS})).raise_for_status()
        for status, options in (
            (404, {"extract": "Nothing"}),
            (404, {"table": "Nothing"}),
            (404, {"table": "Bills", "extract": "Nothing"}),
            (409, {"table": "No columns"}),
            (422, {"table": ""}),
        ):
            assert_problem(await upload(server.http, **options), status)
            assert_problem(await upload_batch(server.http, {"a.txt": TEXT}, **options), status)
        async with server.client() as stranger:
            assert_problem(await upload(stranger, table="Bills"), 404)
        assert (await server.get("documents"))["items"] == []


async def test_each_file_of_an_archive_is_extracted_into_the_table(serve):
    async with serve() as server:
        stack = (await server.http.post("/api/stacks", json={"name": "Bills", "columns": COLUMNS})).json()
        files = {f"{number}.txt": f"Total: {number}.00 EUR\n".encode() for number in (1, 2, 3)}
        packed = archive(files)
        made = (await upload(server.http, packed, table="Bills", key="k")).json()
        assert made["run_id"] is None

        async def values() -> list[Any]:
            rows = (await server.get(f"tables/{stack['id']}/rows"))["items"]
            return [row["cells"]["total"]["value"] for row in rows if row["status"] == "done"]

        async def are_read() -> bool:
            return len(await values()) == 3

        await until(are_read)
        assert sorted(await values()) == [1, 2, 3]
        runs = (await server.get("runs"))["items"]
        children = (await server.get(f"documents/{made['id']}"))["children"]
        assert {one["document_id"] for one in runs} == {one["id"] for one in children}
        assert (await upload(server.http, packed, table="Bills", key="k")).json()["id"] == made["id"]
        assert len((await server.get("runs"))["items"]) == 3


async def test_a_file_that_looks_like_an_archive_is_extracted_too(serve):
    async with serve() as server:
        made = (await upload(server.http, b"PK\nTotal: 7.00 EUR\n", extract="")).json()
        assert made["run_id"] is None

        async def is_extracted() -> bool:
            return [one["status"] for one in (await server.get("runs"))["items"]] == ["completed"]

        await until(is_extracted)
        (run,) = (await server.get("runs"))["items"]
        assert (run["document_id"], run["task"]) == (made["id"], "extract")


async def test_a_batch_lists_each_file_with_its_document_and_run_or_why_it_was_refused(serve, clone):
    async with serve(max_file_mb=1) as server:
        schema = {"type": "object", "properties": {"total": {"type": "number"}}}
        (await server.http.post("/api/schemas", json={"name": "Invoices", "schema": schema})).raise_for_status()
        files = {"a.txt": TEXT, "large.txt": b"x" * 1_100_000, "broken.pdf": b"%PDF-1.7 no", "ü.txt": b"Total: 3.00"}
        answer = await upload_batch(server.http, files, key="k", extract="Invoices")
        assert answer.status_code == 201, answer.text
        items = answer.json()["items"]
        assert [one["filename"] for one in items] == list(files)
        assert [(one["error"] or {}).get("code") for one in items] == [None, "too_large", None, None]
        for number in (0, 3):
            await end_of(server, items[number]["document"]["run_id"])
        assert sql(clone.owner_url, "select distinct background from public.runs") == [{"background": True}]
        again = (await upload_batch(server.http, files, key="k", extract="Invoices")).json()["items"]
        ids, same = (
            [one["document"] and (one["document"]["id"], one["document"]["run_id"]) for one in listed]
            for listed in (items, again)
        )
        assert ids == same
        assert len((await server.get("documents"))["items"]) == 3


A_PART = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\nb\r\n'


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b""),
        ("multipart/form-data; boundary=x", b"--x--\r\n"),
        ("multipart/form-data; boundary=x", b"no form"),
        ("multipart/form-data; boundary=x", A_PART % b"a" + b"--x--\r\n"),
        ("multipart/form-data; boundary=x", b"--x\r\n" + b"a: b\r\n" * 100 + b"\r\n"),
        ("multipart/form-data; boundary=x", A_PART % b'files"; filename="a' * 1001 + b"--x--\r\n"),
    ],
    ids=["json", "no boundary", "empty", "no form", "a field", "many headers", "1,001 files"],
)
async def test_a_malformed_batch_is_refused(serve, content_type, body):
    async with serve() as server:
        headers = {"Content-Type": content_type}
        assert_problem(await server.http.post("/api/documents/batch", content=body, headers=headers), 422)
        assert (await server.get("documents"))["items"] == []


async def test_a_repeated_key_returns_the_same_document_and_run(serve, clone):
    async with serve() as server:
        answers = await asyncio.gather(*(upload(server.http, key="k1", extract="") for _ in range(4)))
        assert {one.status_code for one in answers} == {201}, [one.text for one in answers]
        assert len({(one.json()["id"], one.json()["run_id"]) for one in answers}) == 1
        assert_problem(await upload(server.http, b"Other 2", key="k1"), 422, "idempotency_key_reused")
        document = answers[0].json()["id"]
        assert (await server.http.get(f"/api/documents/{document}/file")).content == TEXT
        assert (await upload(server.http, key="k2")).json()["id"] != document
        async with server.client() as stranger:  # a key belongs to its caller
            assert (await upload(stranger, b"Other 2", key="k1")).json()["id"] != document
        assert len(sql(clone.owner_url, "select id from public.documents")) == 3


async def test_own_key_and_data_come_back_with_the_document_and_its_changes(serve):
    async with serve() as server:
        own = {"order": 1017, "who": {"team": "Zürich"}}
        made = (await upload(server.http, external_id="order 1017", metadata=json.dumps(own))).json()
        assert (made["external_id"], made["metadata"]) == ("order 1017", own)
        (listed,) = (await server.get("documents"))["items"]
        assert (listed["external_id"], listed["metadata"]) == ("order 1017", own)

        async def is_ready() -> bool:
            return any(one["type"] == "document.ready" for one in (await server.get("changes"))["items"])

        await until(is_ready)
        (change,) = (await server.get("changes?type=document.ready"))["items"]
        shown = change["data"]["document"]
        assert (shown["external_id"], shown["metadata"]) == ("order 1017", own)
        changed = await server.http.patch(f"/api/documents/{made['id']}", json={"metadata": {}})
        assert (changed.json()["external_id"], changed.json()["metadata"]) == ("order 1017", {})


async def test_an_external_id_belongs_to_one_document_of_an_organisation(serve):
    async with serve() as server:
        answers = await asyncio.gather(*(upload(server.http, external_id="a") for _ in range(4)))
        assert sorted(one.status_code for one in answers) == [201, 409, 409, 409]
        (made,) = [one.json()["id"] for one in answers if one.status_code == 201]
        taken = next(one for one in answers if one.status_code == 409).json()
        assert (taken["code"], taken["document_id"]) == ("external_id_taken", made)
        other = (await upload(server.http, external_id="b")).json()["id"]
        answer = await server.http.patch(f"/api/documents/{other}", json={"external_id": "a"})
        assert (answer.status_code, answer.json()["code"]) == (409, "external_id_taken")
        again = await server.http.patch(f"/api/documents/{made}", json={"external_id": "a"})
        assert again.status_code == 200
        async with server.client() as stranger:
            assert (await upload(stranger, external_id="a")).status_code == 201


@pytest.mark.parametrize(
    "form",
    [
        {"metadata": "[]"},
        {"metadata": "no"},
        {"metadata": json.dumps({"a": "x" * 2000})},
        {"metadata": "x" * 1_000_000},
        {"metadata": '{"a": "\\u0000"}'},
        {"metadata": '{"a": 1.00000000000000000000001}'},
        {"metadata": '{"a":' * 900 + "1" + "}" * 900},
        {"external_id": ""},
        {"external_id": "a\nb"},
        {"external_id": "x" * 201},
        {"callback": "{"},
        {"callback": '{"url": "https://example.com", "secret": "whsec_AAAA"}'},
    ],
    ids=str,
)
async def test_other_own_data_is_refused(serve, form):
    async with serve() as server:
        answer = await upload(server.http, **form)
        assert_problem(answer, 422)
        assert next(iter(form)) in answer.json()["detail"]
        assert (await server.get("documents"))["items"] == []


async def test_own_key_and_data_come_back_with_runs_rows_and_exports(serve):
    async with serve() as server:
        schema = {"type": "object", "properties": {"total": {"type": "number"}}}
        stored = (await server.http.post("/api/schemas", json={"name": "Bills", "schema": schema})).json()
        own = {"external_id": "=order 1", "metadata": {"team": "north"}}
        made = await upload(
            server.http, external_id=own["external_id"], metadata=json.dumps(own["metadata"]), extract="Bills"
        )
        run, document = made.json()["run_id"], made.json()["id"]
        result = (await server.http.get(f"/api/runs/{run}/result")).json()
        (listed,) = (await server.get("runs"))["items"]
        exported = (await server.http.get(f"/api/extractions/{result['extraction']['id']}/export?format=json")).json()
        rows = (await server.http.get("/api/tables/bills/rows")).json()["items"]
        table = (await server.http.get("/api/tables/Bills/export?format=json")).json()
        for one in (result, listed, exported["document"], *rows, *table):
            assert {name: one[name] for name in own} == own, one
        lines = list(csv.DictReader(io.StringIO((await server.http.get("/api/tables/Bills/export?format=csv")).text)))
        assert (lines[0]["external_id"], json.loads(lines[0]["metadata"])) == ("'=order 1", own["metadata"])
        workbook = openpyxl.load_workbook(
            io.BytesIO((await server.http.get("/api/tables/Bills/export?format=xlsx")).content)
        )
        assert [cell.data_type for cell in workbook["Bills"][2]][-3:] == ["s"] * 3
        # A schema goes by name, id or a version's id, wherever it is named.
        for name in ("bills", stored["id"], stored["schema_revid"]):
            assert (await server.get(f"schemas/{name}"))["id"] == stored["id"]
            assert len((await server.get(f"schemas/{name}/versions"))["items"]) == 1
            assert (await server.get(f"schemas/{name}/quality"))["documents"] == 1
            assert (await server.get(f"tables/{name}/rows"))["total"] == 1
            assert [one["document_id"] for one in (await server.get(f"extractions?schema_id={name}"))["items"]] == [
                document
            ]
        async with server.client() as stranger:
            for name in ("bills", stored["id"], stored["schema_revid"]):
                for path in (f"schemas/{name}", f"tables/{name}/rows", f"tables/{name}/export"):
                    assert_problem(await stranger.get(f"/api/{path}"), 404)


async def test_a_key_needs_the_right_to_run_for_one_call(serve):
    async with serve() as server:
        for scopes, status in ((["documents:write"], 403), (["documents:write", "runs:write"], 201)):
            key = (await server.http.post("/api/keys", json={"name": "k", "scopes": scopes})).json()["key"]
            async with server.client_with_token(key) as robot:
                assert (await upload(robot)).status_code == 201
                assert (await upload(robot, extract="")).status_code == status
                assert (await upload_batch(robot, {"a.txt": TEXT}, extract="")).status_code == status
                assert (await upload(robot, table="Nothing")).status_code == 403
