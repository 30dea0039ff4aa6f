"""`fieldmark serve`: what it prints, how it ends, and what survives when it is killed."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
from uuid import uuid4

import httpx
import pytest
from commands import INVOICE, Commands, family

from child_processes import command_line, wait_all_ended
from extraction_case import until
from fieldmark.api.app import listen
from fieldmark.testing.script import Script
from running_server import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.xdist_group("cli-serve")]


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
        # Whichever model is asked for: what answers bears its own name.
        asked = {"document_id": document["id"], "model": "claude-opus-5"}
        result = (await http.post("/api/agent/extract", json=asked)).json()
        (used,) = (await http.get("/api/usage")).json()["items"]
        assert (used["model"], used["cost_usd"]) == ("offline", 0)
        assert result["status"] == "completed" and result["cost_usd"] == 0
        assert result["extraction"]["extracted_fields"]["invoice_number"] == "INV/2023/03/0008"

        # A token alone on standard output, for any user; another user sees nothing of this.
        for user, seen in (("00000000-0000-4000-8000-000000000001", 1), (str(uuid4()), 0)):
            token = await home.run("token", "--user", user)
            assert (token.code, token.err, token.out.count("\n")) == (0, "", 1)
            headers = {"authorization": f"Bearer {token.out.strip()}"}
            assert len((await http.get("/api/documents", headers=headers)).json()["items"]) == seen

        # A command beside the server shares its database: what it prints is what the API gives.
        printed = json.loads((await home.run("show", result["extraction"]["id"], "--json")).out)
        assert (await http.get(f"/api/extractions/{printed['id']}")).json() == printed
        assert (await http.get("/readyz")).status_code == 200

        taken = await home.run("serve", "--port", server.url.rsplit(":", 1)[1])
        assert taken.code == 3 and "Address already in use" in taken.err and "Traceback" not in taken.err
        server.process.send_signal(signal.SIGINT)
        assert await server.process.wait() == 0
    # No token: this is no terminal, and what is written here may lie in a log.
    said = "".join(server.lines)
    assert "eyJ" not in said and "Traceback" not in said
    assert home.is_stopped()


async def test_serve_prints_a_valid_sign_in_link_on_a_terminal(local_commands):
    async with (
        local_commands(Script([])) as fieldmark,
        fieldmark.at_terminal("serve", "--no-worker", "--port=0") as terminal,
    ):
        # The page's link, above it, bears a token of its own.
        shown = await until(lambda: re.search(r"valid for 12 hours:\s+(eyJ[\w.-]+)\s", terminal.shown), PATIENCE)
        url = terminal.shown.split("is running at ")[1].split()[0]
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
            answer = await http.get("/api/runs", headers={"authorization": f"Bearer {shown[1]}"})
            assert answer.status_code == 200
        terminal.process.send_signal(signal.SIGINT)


async def test_killed_service_restarts_with_its_data(home: Commands):
    async def document_of(http: httpx.AsyncClient) -> dict[str, object]:
        (found,) = (await http.get("/api/documents")).json()["items"]
        return found

    with socket.create_server(("127.0.0.1", 0)) as silent_model:
        silent_model.settimeout(PATIENCE)
        address = f"http://127.0.0.1:{silent_model.getsockname()[1]}"
        silent = home.having(ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL=address)
        user = {"authorization": f"Bearer {(await home.run('token', '--user', str(uuid4()))).out.strip()}"}
        async with silent.serving() as server:
            server.http.headers.update(user)
            await server.http.post("/api/documents", files={"file": ("kept.txt", b"Total: 1")})

            async def is_read() -> bool:
                return (await document_of(server.http))["status"] == "ready"

            await until(is_read)
            kept = await document_of(server.http)
            relatives = family(server.process)
            server.process.kill()
        assert wait_all_ended(relatives)
        async with silent.serving() as server:
            server.http.headers.update(user)  # the key is the home's, not the process's
            assert await document_of(server.http) == kept
            text = (await server.http.get(f"/api/documents/{kept['id']}/text")).json()
            assert "Total: 1" in text[0]["text"]
            body, stream = {"document_id": kept["id"]}, {"Accept": "text/event-stream"}
            async with server.http.stream("POST", "/api/agent/extract", json=body, headers=stream) as events:
                await anext(events.aiter_lines())
                # The agent asks its model, and is never answered.
                connection, _ = await asyncio.to_thread(silent_model.accept)
                with connection:
                    relatives = family(server.process)
                    assert any("claude" in command_line(one) for one in relatives)
                    server.process.terminate()
                    # Neither the run nor its reader would ever have ended.
                    assert await asyncio.wait_for(server.process.wait(), PATIENCE) == 0
        said = "".join(server.lines)
        assert "Traceback" not in said and said.rstrip().endswith("Ended.")
    assert wait_all_ended(relatives) and home.is_stopped()
