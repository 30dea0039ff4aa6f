"""The MCP server over HTTP: the API's own authentication and rights, every revision of the protocol, and no agent that
approves what it proposed."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from answers import assert_problem
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from members import create_org, new_member

from extraction_case import until
from fieldmark.api.agent import WAITS
from fieldmark.domain.permissions import Permission
from fieldmark.mcp_server.tools import TOOLS
from mcp_calls import VERSIONS, McpCalls, create_objects, draw_calls

pytestmark = pytest.mark.anyio

ALL_SCOPES = list(Permission)
SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}}


def data_of(result: dict[str, Any]) -> dict[str, Any]:
    assert not result.get("isError"), result
    return result["structuredContent"]


def code_of(result: dict[str, Any]) -> str:
    assert result["isError"], result
    return json.loads(result["content"][0]["text"])["code"]


async def test_at_most_15_tools_are_listed_and_described(serve):
    async with serve() as server:
        listed = (await McpCalls(server.http).request("tools/list", {})).json()["result"]["tools"]
    assert {tool["name"] for tool in listed} == TOOLS.keys() and len(listed) <= 15
    for tool in listed:
        assert tool["description"].endswith(".") and tool["inputSchema"]["type"] == "object"


@pytest.mark.parametrize("mode", ["auto", "legacy", VERSIONS[0]])
async def test_clients_of_the_newest_and_of_earlier_revisions_work(serve, mode):
    async with serve() as server:
        document = await server.upload_text()
        async with httpx2.AsyncClient(headers={"Authorization": server.http.headers["authorization"]}) as http:
            transport = streamable_http_client(f"{server.base_url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS.keys()
                read = await client.call_tool("read_pages", {"document_id": str(document)})
                assert "Total: 10.00" in read.structured_content["pages"][0]["text"]
                refused = await client.call_tool("get_run", {"run_id": str(uuid4())})
                assert refused.is_error


async def test_a_document_is_extracted_and_its_evidence_read(serve):
    async with serve() as server:
        mcp, document = McpCalls(server.http), str(await server.upload_text())
        made = await server.http.post("/api/schemas", json={"name": "Bill", "schema": SCHEMA})
        run = data_of(await mcp.call("extract", document_id=document, schema_name="bill"))
        assert run["status"] == "completed"
        read = data_of(await mcp.call("get_extraction", extraction_id=run["extraction"]["id"]))
        proof = read["values"]["total"]
        assert read["fields"]["total"] == 10 and (proof["state"], proof["page"], proof["status"]) == (
            "found",
            1,
            "found",
        )
        table = data_of(await mcp.call("read_table", table_id=made.json()["id"]))
        assert [row["document_id"] for row in table["items"]] == [document]
        found = data_of(await mcp.call("ground", document_id=document, values={"total": 10, "vendor": "Nobody"}))
        assert {one["path"]: one["state"] for one in found["items"]} == {"total": "found", "vendor": "not_found"}
        assert data_of(await mcp.call("list_to_review"))["counts"]
        listed = data_of(await mcp.call("list_documents", filename="a.txt"))["items"]
        assert [one["id"] for one in listed] == [document]


async def propose(mcp: McpCalls, extraction: str) -> dict[str, Any]:
    """Propose a correction. Return the arguments of a decision on it."""
    run = data_of(await mcp.call("propose_correction", extraction_id=extraction, message="set total to 12"))
    assert run["status"] == "awaiting_approval", run
    assert run["waits_for"]["changes"][0]["path"] == "total"
    return {"run_id": run["run_id"], "call_id": run["waits_for"]["call_id"]}


async def test_an_agent_does_not_decide_what_an_agent_of_the_same_person_proposed(serve):
    async with serve() as server:
        server.http.headers["x-org-id"] = await create_org(server.http)
        extraction = (await server.extract(await server.upload_text()))["extraction"]["id"]
        key = (await server.http.post("/api/keys", json={"name": "k", "scopes": ALL_SCOPES})).json()["key"]
        mcp = McpCalls(server.http)
        async with server.client_with_token(key) as robot:
            for proposer, decider in ((mcp, mcp), (mcp, McpCalls(robot)), (McpCalls(robot), mcp)):
                waiting = await propose(proposer, extraction)
                for approved in (True, False):
                    refused = await decider.call("decide", **waiting, approved=approved)
                    assert code_of(refused) == "second_person_needed"
        assert (await server.extraction(extraction))["extracted_fields"]["total"] == 10
        # The person decides it in the web UI.
        body = {"run_id": waiting["run_id"], "approvals": [{"call_id": waiting["call_id"], "approved": True}]}
        decided = await server.http.post("/api/agent/approve", json=body)
        assert decided.status_code == 200, decided.text
        assert (await server.extraction(extraction))["extracted_fields"]["total"] == 12


async def test_an_agent_decides_what_its_person_started_and_what_others_proposed(serve):
    async with serve() as server:
        org = await create_org(server.http)
        server.http.headers["x-org-id"] = org
        extraction = (await server.extract(await server.upload_text()))["extraction"]["id"]
        mcp = McpCalls(server.http)
        body = {"extraction_id": extraction, "message": "set total to 11", "approval": "ask"}
        run = (await server.http.post("/api/agent/correct", json=body)).json()
        waiting = {"run_id": run["run_id"], "call_id": run["waits_for"]["call_id"]}
        run = data_of(await mcp.call("decide", **waiting, approved=True))
        while run["status"] == "awaiting_approval":
            run = data_of(
                await mcp.call("decide", run_id=run["run_id"], call_id=run["waits_for"]["call_id"], approved=True)
            )
        assert run["status"] == "completed"
        assert (await server.extraction(extraction))["extracted_fields"]["total"] == 11

        await server.http.patch(f"/api/organisations/{org}", json={"second_person": True})
        async with new_member(server, org, "member") as (member, _):
            waiting = await propose(McpCalls(member), extraction)
            rejected = await mcp.call("decide", **waiting, approved=False, reason="It is printed.", wait_seconds=50)
            assert data_of(rejected)["run_id"] == waiting["run_id"]
        assert (await server.extraction(extraction))["extracted_fields"]["total"] == 11


async def test_tools_have_the_rights_of_the_token(serve):
    async with serve() as server, server.client() as stranger:
        own, foreign = await create_objects(server.http, False), await create_objects(stranger, True)
        key = {"name": "k", "scopes": ["documents:read"]}
        key = (await server.http.post("/api/keys", json=key)).json()["key"]
        by_id = {
            "get_document": ("document_id", 0),
            "read_pages": ("document_id", 0),
            "get_extraction": ("extraction_id", 1),
            "get_run": ("run_id", 2),
            "read_table": ("table_id", 3),
        }
        mcp = McpCalls(server.http)
        for tool, (name, place) in by_id.items():
            assert data_of(await mcp.call(tool, **{name: own[place]})), tool
            assert code_of(await mcp.call(tool, **{name: foreign[place]})) == "not_found", tool
        for tool, more in (("extract", {"wait_seconds": 0}), ("ground", {"values": {"total": 10}})):
            assert data_of(await mcp.call(tool, document_id=own[0], **more)), tool
            assert code_of(await mcp.call(tool, document_id=foreign[0], **more)) == "not_found", tool
        for tool, arguments in {
            "propose_correction": {"extraction_id": foreign[1], "message": "set total to 1"},
            "decide": {"run_id": foreign[2], "call_id": "toolu_1", "approved": True},
            "ask": {"question": "Total?", "thread_id": foreign[4]},
        }.items():
            assert code_of(await mcp.call(tool, **arguments)) == "not_found", tool
        async with server.client_with_token(key) as reader:
            allowed = McpCalls(reader)
            assert data_of(await allowed.call("get_document", document_id=own[0]))["id"] == own[0]
            assert code_of(await allowed.call("extract", document_id=own[0])) == "scope_missing"
            assert code_of(await allowed.call("get_document", document_id=foreign[0])) == "not_found"


async def test_without_a_valid_token_nothing_is_served(serve):
    async with serve() as server, server.client_with_token("fm_wrong") as stranger:
        answer = await McpCalls(stranger).request("tools/list", {})
        assert_problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert_problem(await stranger.get("/.well-known/oauth-protected-resource"), 404)  # no OAuth server
        assert (await server.http.get("/mcp")).status_code == 405


async def test_clients_learn_where_to_get_a_token(serve):
    settings = {"supabase_url": "https://project.supabase.example", "supabase_jwt_secret": "s" * 32}
    async with serve(**settings) as server, server.client_with_token("wrong") as stranger:
        answer = await McpCalls(stranger).request("tools/list", {})
        address = answer.headers["www-authenticate"].removeprefix('Bearer resource_metadata="').removesuffix('"')
        metadata = (await stranger.get(address)).json()
        assert metadata["resource"] == f"{server.base_url}/mcp"
        assert metadata["authorization_servers"] == ["https://project.supabase.example/auth/v1"]


async def test_an_upload_address_is_a_key_that_can_only_upload_for_minutes(serve):
    async with serve() as server:
        made = data_of(await McpCalls(server.http).call("upload_address"))
        async with server.client_with_token(made["key"]) as uploader:
            sent = await uploader.post(made["url"], files={"file": ("a.txt", b"Total: 1.00")})
            assert sent.status_code == 201
            assert_problem(await uploader.get(f"/api/documents/{sent.json()['id']}"), 403, "scope_missing")
        key = {"name": "k", "scopes": ["documents:add"]}
        key = (await server.http.post("/api/keys", json=key)).json()["key"]
        async with server.client_with_token(key) as robot:  # has a key already
            assert "expires_at" not in data_of(await McpCalls(robot).call("upload_address"))


async def test_a_client_that_goes_away_frees_its_place_and_the_run_goes_on(serve):
    async with serve(with_worker=False) as server:
        document = (await server.http.post("/api/documents", files={"file": ("a.txt", b"Total: 1.00")})).json()["id"]
        waiting = asyncio.create_task(McpCalls(server.http).call("extract", document_id=document, wait_seconds=50))

        async def has_started() -> bool:
            return len((await server.get("runs"))["items"]) == 1

        await until(has_started)
        assert WAITS._waiting
        waiting.cancel()
        await until(lambda: not WAITS._waiting)
        (run,) = (await server.get("runs"))["items"]
        assert run["status"] == "queued"


async def test_bad_calls_are_refused_with_a_code(serve):
    async with serve() as server:
        mcp = McpCalls(server.http)
        assert code_of(await mcp.call("drop_tables")) == "not_found"
        assert code_of(await mcp.call("get_run", run_id="../documents")) == "invalid"
        assert code_of(await mcp.call("get_run")) == "invalid"
        assert code_of(await mcp.call("list_documents", organisation="x")) == "invalid"
        for body in (b"", b"{", b"[]", b'{"jsonrpc": "2.0", "id": 1, "method": "nothing"}', b"[" * 10_000):
            headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
            assert (await server.http.post("/mcp", content=body, headers=headers)).status_code < 500


@pytest.mark.long
async def test_drawn_calls_never_fail_and_never_return_foreign_data(serve, tmp_path):
    user_id = uuid4()
    async with serve(home=tmp_path) as server, server.client(user_id) as own, server.client() as stranger:
        ids = [*await create_objects(own, False), *await create_objects(stranger, True)]
    # Without a worker: what the calls start stays queued.
    async with serve(home=tmp_path, with_worker=False) as server, server.client(user_id) as own:
        kinds, faults = await draw_calls(own, ids, calls=150, seed=1)
    assert not faults, faults[:3]
    assert sum(kinds.values()) == 150
