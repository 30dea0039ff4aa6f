"""Commands against a service: elsewhere with a key, and in their own process. They say the same."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from uuid import uuid4

import pytest
from at_work import elsewhere, key_of
from command import said_at_once

from fieldmark import __version__
from fieldmark.api.app import create_app
from fieldmark.offline_model.messages import call, text
from fieldmark.settings import Settings
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
TOTAL = {"path": "total", "value": 10, "confidence": 0.9}
INVOICE = "Invoice number: 4711\nTotal: 10.00 EUR\n"


async def test_every_command_works_elsewhere_and_says_what_it_says_here(serve, local_commands):
    async with serve() as served, local_commands(Script([])) as here:
        there = elsewhere(here, served, await key_of(served))
        made = await there.run("extract", "--json", "--quiet", there.file(INVOICE))
        assert (made.code, made.err) == (0, ""), made.err
        extraction = json.loads(made.out)
        assert extraction["extracted_fields"]["invoice_number"] == "4711"
        assert not (here.folder / "home").exists()  # nothing was begun on this machine

        identity = extraction["id"]
        # Each way of asking: a list, a thing, a file.
        for arguments in (("documents",), ("show", identity), ("export", identity, "--format", "csv")):
            one, other = [await fieldmark.run(*arguments) for fieldmark in (here, there)]
            assert (one.code, one.out) == (0, other.out), (arguments, one.err)
        for arguments in (
            ("documents", "--json"),
            ("show", identity, "--history"),
            ("usage", "--json"),
            ("members", "list"),
        ):
            done = await there.run(*arguments)
            assert done.code == 0 and done.out, (arguments, done.err)
        corrected = await there.run("correct", identity, "the total is 12", "--json")
        assert corrected.code == 0, corrected.err
        for fieldmark, command in ((here, "show"), (there, "show"), (there, "cancel"), (there, "export")):
            refused = await fieldmark.run(command, str(uuid4()))
            assert (refused.code, refused.out) == (1, "") and "[not_found]" in refused.err

        # A run, then an extraction, and what is not there any more is said for each by itself.
        run_id = str(here.sql("select id from public.runs order by created_at desc limit 1")[0]["id"])
        for kind, one in (("run", run_id), ("extraction", identity)):
            deleted = await there.run("delete", kind, one, str(uuid4()), "--yes", "--json")
            assert deleted.code == 1 and json.loads(deleted.out) == {"id": one, "deleted": True}, deleted.err
            assert deleted.err.count("[not_found]") == 1
            assert here.sql(f"select id from public.{kind}s where id = '{one}'") == []
        deleted = await there.run("delete", "document", extraction["document_id"], "--yes")
        assert deleted.code == 0 and here.sql("select id from public.documents") == []
        again = await there.run("delete", "document", extraction["document_id"], "--yes")
        assert again.code == 1 and "[not_found]" in again.err


async def test_a_run_elsewhere_is_decided_and_cancelled_from_here(serve, local_commands):
    script = Script([[call("update_field", TOTAL)], [text("Done.")]])
    async with serve(script) as served, local_commands(Script([])) as fieldmark:
        there = elsewhere(fieldmark, served, await key_of(served))
        waits = await there.run("extract", "--ask", there.file(INVOICE))
        assert waits.code == 4 and "nothing → 10" in waits.err
        run_id = str(there.only_run()["id"])
        assert f"fieldmark approve {run_id}" in waits.err
        # Whoever only decides sees no documents: what is shown then is shown without the file's name.
        decider = elsewhere(fieldmark, served, await key_of(served, "runs:read", "runs:approve", "extractions:read"))
        decided = await decider.run("approve", run_id, stdin="a\n")
        assert "scope_missing" not in decided.err and "total" in decided.out
        assert decided.code == 4 and there.fields() == {"total": 10}  # the agent did not complete it
        assert (await there.run("approve", run_id)).code == 1
        ended = await there.run("cancel", run_id, "--json")
        assert ended.code == 0 and json.loads(ended.out)["status"] == "completed"


async def test_a_key_does_elsewhere_what_it_was_made_for_and_no_more(serve, local_commands):
    async with serve() as served, local_commands(Script([])) as fieldmark:
        reader = elsewhere(fieldmark, served, await key_of(served, "documents:read"))
        assert (await reader.run("documents")).code == 0
        for arguments in (("extract", reader.file()), ("usage",), ("key", "list"), ("members", "list")):
            refused = await reader.run(*arguments)
            assert refused.code == 1 and "[scope_missing]" in refused.err, arguments
        other = await reader.run("documents", "--org", str(uuid4()))
        assert other.code == 1 and "[not_found]" in other.err
        nobody = elsewhere(fieldmark, served, f"fm_{'0' * 8}_{'0' * 64}")
        refused = await nobody.run("documents")
        assert refused.code == 3 and "[unauthenticated]" in refused.err
        looked = await nobody.run("doctor", "--json")
        checks = {one["name"]: one["state"] for one in json.loads(looked.out)["checks"]}
        assert (looked.code, checks) == (3, {"settings": "ok", "service": "ok", "key": "failed"})
        well = await reader.run("doctor", "--json")
        assert well.code == 0 and json.loads(well.out)["ok"]


async def test_doctor_says_what_is_wrong_here_and_how_to_mend_it(local_commands):
    async with local_commands(Script([]), ANTHROPIC_API_KEY="") as fieldmark:
        done = await fieldmark.run("doctor", "--json")
        assert done.code == 0, done.out
        found = {one["name"]: one for one in json.loads(done.out)["checks"]}
        assert set(found) == {"settings", "database", "disk", "files", "model", "tokens", "sandbox", "isolation"}
        assert {name for name, one in found.items() if one["state"] == "ok"} >= {"database", "disk", "files", "sandbox"}
        assert found["model"]["state"] == "warning" and "ANTHROPIC_API_KEY" in found["model"]["mend"]

        for settings, name in (
            ({"FIELDMARK_PORT": "secret-word"}, "settings"),
            ({"DATABASE_URL": "postgresql://fieldmark_app:secret-word@127.0.0.1:1/x"}, "database"),
            ({"FIELDMARK_MIN_FREE_MB": "1000000000"}, "disk"),
            ({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}, "model"),
            ({"SUPABASE_URL": "http://127.0.0.1:1"}, "tokens"),
            ({"SUPABASE_URL": "http://127.0.0.1:1", "SUPABASE_SECRET_KEY": "sb_secret_x"}, "files"),
        ):
            odd = replace(fieldmark, settings={**fieldmark.settings, **settings})
            done = await odd.run("doctor", "--json")
            failed = {one["name"]: one["mend"] for one in json.loads(done.out)["checks"] if one["state"] == "failed"}
            assert done.code == 3 and failed[name], (settings, done.out)
            assert "secret" not in done.out + done.err


async def test_a_server_that_is_none_is_said(local_commands):
    async with local_commands(Script([])) as fieldmark:
        for server, code in (("http://127.0.0.1:1", 3), (fieldmark.model.base_url, 3), ("ftp://a", 2), ("here", 2)):
            done = await fieldmark.run("documents", "--server", server, "--key", "fm_x")
            assert (done.code, done.out) == (code, ""), done.err
            assert "Traceback" not in done.err


@contextmanager
def answering(status: int, headers: dict[str, str], body: bytes = b"") -> Iterator[tuple[str, list[str]]]:
    """A server that answers everything alike: its address, and the tokens that it was sent."""
    tokens: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tokens.append(self.headers.get("Authorization", ""))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", tokens
        finally:
            server.shutdown()
            thread.join()


def test_the_key_goes_to_the_server_that_was_named_and_nowhere_else(monkeypatch):
    monkeypatch.setenv("FIELDMARK_KEY", "fm_secret_word")
    with answering(200, {}, b"{}") as (other, sent_on), answering(307, {"Location": other}) as (server, sent):
        done = said_at_once("documents", "--server", server)
    assert (done.code, sent, sent_on) == (3, ["Bearer fm_secret_word"], [])
    assert "secret_word" not in done.out + done.err
    refused = said_at_once("documents", "--server", server, "--key", "secret\nword")
    assert refused.code == 2 and "secret" not in refused.err


def test_a_service_cannot_speak_to_the_terminal():
    hostile = "\x1b[2J\x9b1A[bold]\u202e99"
    problem = {"code": hostile, "detail": hostile}
    listed = {"items": [{"id": hostile, "prefix": "", "scopes": [], "name": hostile}], "next": None}
    listed["items"][0] |= dict.fromkeys(("revoked_at", "expires_at", "last_used_at"))
    for status, body in ((404, problem), (200, listed)):
        with answering(status, {}, json.dumps(body).encode()) as (server, _):
            for options in ((), ("--json",)):
                done = said_at_once("key", "list", "--server", server, "--key", "fm_x", *options)
                assert not set("\x1b\x9b") & set(done.out + done.err)
                assert "\u202e" not in done.err and ("--json" in options or "\u202e" not in done.out)


def test_what_answers_and_is_no_fieldmark_is_said():
    for body in (b"", b"{}", b"[]", b"<html>", b'{"items": 1}', b'{"items": [{}], "next": null}', b"[" * 100_000):
        with answering(200, {}, body) as (server, _):
            for arguments in (("documents",), ("key", "list"), ("runs",), ("show", str(uuid4())), ("usage",)):
                done = said_at_once(*arguments, "--server", server, "--key", "fm_x")
                assert (done.code, done.out) == (3, ""), (body[:50], arguments)
                assert "Traceback" not in done.err


async def test_nothing_is_deleted_that_nobody_agrees_to(commands):
    async with commands() as fieldmark:
        assert (await fieldmark.run("extract", "--quiet", fieldmark.file(INVOICE))).code == 0
        (row,) = fieldmark.sql("select id from public.documents")
        for answer in (None, "n\n"):
            assert (await fieldmark.run("delete", "document", str(row["id"]), stdin=answer)).code == 1
        assert fieldmark.sql("select id from public.documents") == [row]
        stranger = await fieldmark.by(uuid4()).run("delete", "document", str(row["id"]), "--yes")
        assert stranger.code == 1 and "[not_found]" in stranger.err
        assert (await fieldmark.run("delete", "document", str(row["id"]), stdin="y\n")).code == 0
        assert fieldmark.sql("select id from public.documents") == []


def test_the_version_is_everywhere_the_same():
    said = said_at_once("--version")
    assert (said.code, said.out) == (0, f"fieldmark {__version__}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == __version__ == create_app(Settings(_env_file=None)).version


async def test_a_shell_completes_commands_and_options(local_commands):
    async with local_commands(
        Script([]), _FIELDMARK_COMPLETE="complete_bash", COMP_WORDS="fieldmark do", COMP_CWORD="1"
    ) as fieldmark:
        assert (await fieldmark.run()).out.split() == ["documents", "doctor"]


def test_the_page_lists_every_command_and_every_option_that_all_have():
    page = (ROOT / "docs/commands.md").read_text("utf-8")
    top = said_at_once("--help").out
    listed = set(re.findall(r"`([a-z]+)", " ".join(re.findall(r"^\| (`.*?) \|", page.split("## Options")[0], re.M))))
    for name in listed:
        assert re.search(rf"^│ {name}\b", top, re.M), name
    shown = set(re.findall(r"^│ ([a-z]+) ", top, re.M))
    assert shown == listed
    service = {"serve", "worker", "migrate", "token", "key", "members", "schema"}
    for name in listed - service:
        options = said_at_once(name, "--help").out
        for option in ("--json", "--quiet", "--org", "--user", *(() if name == "eval" else ("--server", "--key"))):
            assert option in options, (name, option)
