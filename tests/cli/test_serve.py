"""`fieldmark serve`: its output and exit code, and that data survives a kill."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from uuid import uuid4

import httpx
import pytest
from commands import INVOICE, Commands, process_tree

from child_processes import command_line, wait_all_ended
from extraction_case import until
from fieldmark.api.app import listen
from fieldmark.testing.script import Script
from running_server import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.long]


def test_responses_are_sent_without_delayed_ack():
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_serve_prints_its_address_and_answers(home: Commands):
    async with home.serving(is_fresh=True) as server:
        http = server.http
        assert (await http.get("/readyz")).json() == {"status": "ready", "model": "offline"}
        document = (await http.post("/api/documents", files={"file": (INVOICE.name, INVOICE.read_bytes())})).json()
        # The offline model reports its own name, whichever model is requested.
        asked = {"document_id": document["id"], "model": "claude-opus-5"}
        result = (await http.post("/api/agent/extract", json=asked)).json()
        (used,) = (await http.get("/api/usage")).json()["items"]
        assert (used["model"], used["cost_usd"]) == ("offline", 0)
        assert result["status"] == "completed" and result["cost_usd"] == 0
        assert result["extraction"]["extracted_fields"]["invoice_number"] == "INV/2023/03/0008"

        # `token` prints a token for any user. Another user sees none of the data.
        for user, is_seen in (("00000000-0000-4000-8000-000000000001", True), (str(uuid4()), False)):
            token = await home.run("token", "--user", user)
            assert (token.code, token.err, token.out.count("\n")) == (0, "", 1)
            headers = {"authorization": f"Bearer {token.out.strip()}"}
            listed = (await http.get("/api/documents", headers=headers)).json()["items"]
            assert (document["id"] in [one["id"] for one in listed]) is bool(listed) is is_seen

        # A local command uses the same database: it prints what the API returns.
        printed = json.loads((await home.run("show", result["extraction"]["id"], "--json")).out)
        assert (await http.get(f"/api/extractions/{printed['id']}")).json() == printed
        assert (await http.get("/readyz")).status_code == 200

        port_taken = await home.run("serve", "--port", server.url.rsplit(":", 1)[1])
        assert port_taken.code == 3 and "Address already in use" in port_taken.err and "Traceback" not in port_taken.err
        server.process.send_signal(signal.SIGINT)
        assert await server.process.wait() == 0
    # No token without a terminal: the output may be stored in a log.
    said = "".join(server.lines)
    assert "eyJ" not in said and "Traceback" not in said
    assert home.is_stopped()


async def test_serve_prints_a_valid_sign_in_link_on_a_terminal(local_commands):
    async with (
        local_commands(Script([])) as fieldmark,
        fieldmark.at_terminal("serve", "--no-worker", "--port=0") as terminal,
    ):
        # The link to the web UI above it has its own token.
        shown = await until(lambda: re.search(r"valid for 12 hours:\s+(eyJ[\w.-]+)\s", terminal.shown), PATIENCE)
        url = terminal.shown.split("is running at ")[1].split()[0]
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
            answer = await http.get("/api/runs", headers={"authorization": f"Bearer {shown[1]}"})
            assert answer.status_code == 200
        terminal.process.send_signal(signal.SIGINT)


@pytest.mark.real_cli("its process ends")
async def test_killed_service_restarts_with_its_data(home: Commands):
    async def fetch_document(http: httpx.AsyncClient) -> dict[str, object]:
        (found,) = (await http.get("/api/documents")).json()["items"]
        return found

    with socket.create_server(("127.0.0.1", 0)) as silent_model:
        silent_model.settimeout(PATIENCE)
        address = f"http://127.0.0.1:{silent_model.getsockname()[1]}"
        silent = home.with_settings(ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL=address)
        user = {"authorization": f"Bearer {(await home.run('token', '--user', str(uuid4()))).out.strip()}"}
        async with silent.serving() as server:
            server.http.headers.update(user)
            await server.http.post("/api/documents", files={"file": ("kept.txt", b"Total: 1")})

            async def is_read() -> bool:
                return (await fetch_document(server.http))["status"] == "ready"

            await until(is_read)
            kept = await fetch_document(server.http)
            relatives = process_tree(server.process)
            server.process.kill()
        assert wait_all_ended(relatives)
        async with silent.serving() as server:
            server.http.headers.update(user)  # the signing key is stored in the home
            assert await fetch_document(server.http) == kept
            text = (await server.http.get(f"/api/documents/{kept['id']}/text")).json()
            assert "Total: 1" in text[0]["text"]
            body, stream = {"document_id": kept["id"]}, {"Accept": "text/event-stream"}
            async with server.http.stream("POST", "/api/agent/extract", json=body, headers=stream) as events:
                await anext(events.aiter_lines())
                # The model never answers.
                connection, _ = await asyncio.to_thread(silent_model.accept)
                with connection:
                    relatives = process_tree(server.process)
                    assert any("claude" in command_line(one) for one in relatives)
                    (run,) = (await server.http.get("/api/runs")).json()["items"]
                    waiting = asyncio.create_task(server.http.get(f"/api/runs/{run['id']}/result"))
                    await asyncio.sleep(1)  # until it has been received
                    server.process.terminate()
                    # Otherwise the run and its reader would never end.
                    assert await asyncio.wait_for(server.process.wait(), PATIENCE) == 0
                    assert (await waiting).status_code == 202
        said = "".join(server.lines)
        assert "Traceback" not in said and said.rstrip().endswith("Ended.")
    assert wait_all_ended(relatives) and home.is_stopped()


async def test_stopping_service_ends_streams_and_finishes_an_upload(home: Commands):
    async with home.serving("--no-worker", is_fresh=True) as server:
        http = server.http
        document = (await http.post("/api/documents", files={"file": ("a.txt", b"Total: 1")})).json()
        asked = {"document_id": document["id"], "wait": False}
        run = (await http.post("/api/agent/extract", json=asked)).json()["run_id"]
        sending, stream_ended = asyncio.Event(), asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="b.txt"\r\n\r\nTotal: '
            sending.set()
            await stream_ended.wait()
            yield b"2\r\n--x--\r\n"

        async def upload() -> int:
            headers = {"Content-Type": "multipart/form-data; boundary=x"}
            return (await http.post("/api/documents", content=body(), headers=headers)).status_code

        async with http.stream("GET", f"/api/runs/{run}/events") as stream:
            reading = aiter(stream.aiter_bytes())
            await anext(reading)
            uploading = asyncio.create_task(upload())
            await sending.wait()
            server.process.send_signal(signal.SIGTERM)
            with suppress(httpx.RemoteProtocolError):
                async for _ in reading:
                    pass
        await asyncio.sleep(2.5)
        stream_ended.set()
        assert await uploading == 201
        assert await server.process.wait() == 0
