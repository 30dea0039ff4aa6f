"""`fieldmark serve`: what it prints, how it ends, and what survives when it is killed."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from uuid import uuid4

import httpx
import pytest
from command import SAMPLES, Home, family, finish, serving, signalled

from desk import until
from fieldmark.api.app import listen
from fieldmark.testing.script import Script
from living import all_gone, command_line
from standing import PATIENCE

pytestmark = pytest.mark.xdist_group("cli-serve")

INVOICE = SAMPLES / "i2d_AzureInterior.pdf"


def test_what_is_sent_in_parts_waits_for_no_acknowledgement():
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_it_prints_where_it_is_and_answers(home: Home):
    with serving(home, is_fresh=True) as server:
        with httpx.Client(base_url=server.url, headers=server.headers, timeout=PATIENCE) as http:
            assert http.get("/readyz").json() == {"status": "ready", "model": "offline"}
            assert http.get("/openapi.json").status_code == 200
            with INVOICE.open("rb") as file:
                document = http.post("/api/documents", files={"file": file}).json()
            # Whichever model is asked for: what answers bears its own name.
            asked = {"document_id": document["id"], "model": "claude-opus-5"}
            result = http.post("/api/agent/extract", json=asked).json()
            (used,) = http.get("/api/usage").json()["items"]
            assert (used["model"], used["cost_usd"]) == ("offline", 0)
            assert result["status"] == "completed" and result["cost_usd"] == 0
            assert result["extraction"]["extracted_fields"]["invoice_number"] == "INV/2023/03/0008"

            # A token alone on standard output, for any user; another user sees nothing of this.
            for user, seen in (("00000000-0000-4000-8000-000000000001", 1), (str(uuid4()), 0)):
                told = home.run("token", "--user", user)
                assert (told.code, told.err, told.out.count("\n")) == (0, "", 1)
                headers = {"authorization": f"Bearer {told.out.strip()}"}
                assert len(http.get("/api/documents", headers=headers).json()["items"]) == seen
            assert http.get("/api/documents", headers={"authorization": "Bearer x"}).status_code == 401

            # A command beside the server shares its database: what it prints is what the API gives.
            extracted = home.run("extract", INVOICE, "--json")
            printed = json.loads(extracted.out)
            assert http.get(f"/api/extractions/{printed['id']}").json() == printed
            assert http.get("/readyz").status_code == 200

        taken = home.run("serve", "--port", server.url.rsplit(":", 1)[1])
        assert taken.code == 3 and "Address already in use" in taken.err and "Traceback" not in taken.err
        done = signalled(server.process, signal.SIGINT)
    # No token: this is no terminal, and what is written here may lie in a log.
    assert (done.code, done.out) == (0, "") and "eyJ" not in done.err and "Traceback" not in done.err
    assert home.is_free()


@pytest.mark.anyio
async def test_on_a_terminal_it_prints_a_token_that_counts(commands):
    async with commands(Script([])) as fieldmark, fieldmark.at_terminal("serve", "--no-worker", "--port=0") as terminal:
        # The page's link, above it, bears a token of its own.
        shown = await until(lambda: re.search(r"valid for 12 hours:\s+(eyJ[\w.-]+)\s", terminal.shown), PATIENCE)
        url = terminal.shown.split("serves at ")[1].split()[0]
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
            assert (await http.get("/api/runs", headers={"authorization": f"Bearer {shown[1]}"})).status_code == 200
        terminal.process.send_signal(signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_whoever_is_listening(home: Home, number: signal.Signals):
    with (
        socket.create_server(("127.0.0.1", 0)) as silent_model,
        serving(
            home, ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL=f"http://127.0.0.1:{silent_model.getsockname()[1]}"
        ) as server,
        httpx.Client(base_url=server.url, headers=server.headers, timeout=PATIENCE) as http,
    ):
        silent_model.settimeout(PATIENCE)
        document = http.post("/api/documents", files={"file": ("a.txt", b"Total: 1")}).json()
        body, accept = {"document_id": document["id"]}, {"accept": "text/event-stream"}
        with http.stream("POST", "/api/agent/extract", json=body, headers=accept) as stream:
            next(stream.iter_lines())
            connection, _ = silent_model.accept()  # the agent asks its model, and is never answered
            with connection:
                relatives = family(server.process)
                assert any("claude" in command_line(one) for one in relatives)
                done = signalled(server.process, number)
    assert done.code == 0  # neither the run nor its reader would ever have ended
    assert "Traceback" not in done.err and done.err.rstrip().endswith("Ended.")
    assert all_gone(relatives) and home.is_free()


def test_killed_it_starts_again_with_everything_it_had(home: Home):
    def document_of(http: httpx.Client) -> dict[str, object]:
        [found] = http.get("/api/documents").json()["items"]
        return found

    with serving(home) as server:
        with httpx.Client(base_url=server.url, headers=server.headers, timeout=PATIENCE) as http:
            user = home.run("token", "--user", str(uuid4())).out.strip()
            http.headers["authorization"] = f"Bearer {user}"
            http.post("/api/documents", files={"file": ("kept.txt", b"Total: 1")})
            while (kept := document_of(http))["status"] == "reading":
                time.sleep(0.02)
        relatives = family(server.process)
        server.process.kill()
        finish(server.process)
    assert all_gone(relatives)
    with serving(home) as server, httpx.Client(base_url=server.url, timeout=PATIENCE) as http:
        http.headers["authorization"] = f"Bearer {user}"  # the key is the home's, not the process's
        assert document_of(http) == kept and kept["status"] == "ready"
        assert "Total: 1" in http.get(f"/api/documents/{kept['id']}/text").json()[0]["text"]
    assert home.is_free()
