"""`fieldmark extract`: what it prints where, how it ends, and what it leaves when it is interrupted."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from datetime import UTC, datetime

import psycopg
import pytest
from command import SAMPLES, Home, family, read_until, signalled
from PIL import Image

from fieldmark.api.extractions import Extraction
from fieldmark.db.embedded import running
from living import all_gone, command_line, readers_of
from locked_files import NEW_PDF, PASSWORD
from standing import PATIENCE

# One home, so one process: under xdist these stay together.
pytestmark = pytest.mark.xdist_group("cli-extract")

INVOICE = SAMPLES / "i2d_AzureInterior.pdf"
KEYS = list(Extraction.model_fields)  # what the API answers with
SCHEMA = {"type": "object", "properties": {"invoice_number": {"type": "string"}}, "required": ["invoice_number"]}


def controls(text: str) -> set[str]:
    return {c for c in text if not c.isprintable()} - {"\n"}


def test_a_sample_ends_as_a_table(home: Home):
    done = home.run("extract", INVOICE, is_fresh=True)
    assert done.code == 0
    assert "INV/2023/03/0008" in done.out and "279.84" in done.out and "confidence" in done.out
    heading = done.out.splitlines()[0]
    assert heading.startswith("invoice · extraction ") and heading.endswith(" · i2d_AzureInterior.pdf")
    assert "page 1" in done.out
    # Each step on the other stream: a line each, and nothing that only a terminal understands.
    for words in ("Starting…", "offline model", "Reading the document…", "✓ Saving invoice_number", "Completing"):
        assert words in done.err
    assert controls(done.out) == controls(done.err) == set()
    assert len(done.err.splitlines()) < 20
    assert home.is_free()


def test_json_is_alone_on_stdout(home: Home):
    schema = home.file("schema.json", "\ufeff" + json.dumps(SCHEMA))  # as some editors save it
    out = home.folder / "out.json"
    done = home.run("extract", INVOICE, "--json", "--schema", schema, "--out", out, PYTHONIOENCODING="ascii")
    assert done.code == 0
    extraction = json.loads(done.out)
    assert list(extraction) == KEYS
    assert (extraction["status"], extraction["document_type"]) == ("completed", "invoice")
    assert extraction["extracted_fields"]["invoice_number"] == "INV/2023/03/0008"
    assert json.loads(out.read_text()) == extraction


def test_a_file_with_a_password_is_read_with_it_and_refused_without(home: Home):
    locked = home.file("locked.pdf", NEW_PDF)
    home.file("password", f"{PASSWORD}\n")
    done = home.run("extract", locked, "--json", "--password", redirected="<password")
    assert done.code == 0 and json.loads(done.out)["status"] == "completed"
    assert PASSWORD not in done.out + done.err
    done = home.run("extract", locked, "--json")
    assert done.code == 1 and "password" in done.err


def test_characters_that_the_terminal_lacks_and_a_broken_schema(home: Home):
    invoice = home.file("a.txt", "Invoice number: 7\nVendor: Müller ✓ GmbH\nTotal: 10.00 EUR\n")
    schema = home.file("more.json", json.dumps({**SCHEMA, "required": ["invoice_number", "due_date"]}))
    done = home.run("extract", invoice, "--schema", schema, PYTHONIOENCODING="ascii")
    assert done.code == 4 and "a.txt" in done.out  # it does not follow its schema, and is not said to be complete
    assert "due_date: " in done.err and "?" in done.err
    done = home.run("extract", invoice, PYTHONIOENCODING="ascii")
    assert done.code == 0 and "M?ller ? GmbH" in done.out


def test_several_files_of_which_one_is_broken(home: Home):
    good = home.file("good.txt", "Invoice number: 8\nTotal: 10.00 EUR\n")
    broken = home.file("[bold]broken\x1b[31m.pdf", b"%PDF-1.7 no more")
    odd = home.file(b"odd \xff.txt", "Invoice number: 9\nTotal: 11.00 EUR\n")
    done = home.run("extract", good, broken, odd, "--json")
    assert done.code == 1
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["file"] for line in lines] == [str(good), str(broken), os.fsencode(odd).decode(errors="replace")]
    assert [line.get("extracted_fields", {}).get("invoice_number") for line in lines] == ["8", None, "9"]
    assert list(lines[0]) == ["file", *KEYS]
    assert (lines[1]["status"], lines[1]["code"]) == ("failed", "damaged")
    assert lines[1]["error"].endswith(".") and lines[1].keys() >= {"run_id", "document_id"}
    assert "[bold]broken\\u001b[31m.pdf\n" in done.err and "✗" in done.err
    assert controls(done.err) == set()

    alone = home.run("extract", broken, "--json", "--out", home.folder / "none.json")
    assert (alone.code, json.loads(alone.out)["code"]) == (1, "damaged")
    assert not (home.folder / "none.json").exists()


@pytest.mark.long
def test_a_service_that_refuses_connections_is_told_as_that_with_the_setting(home: Home):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    invoice = home.file("a.txt", "Invoice number: 7\n")
    away = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}"}
    done = home.run("extract", invoice, "--json", **away)
    told = json.loads(done.out)
    assert (done.code, told["code"]) == (1, "model_unreachable") and "ANTHROPIC_BASE_URL" in told["error"]
    assert "does not answer" in done.err and "busy" not in done.err


def test_interrupted_in_the_middle_nothing_is_left(home: Home):
    begun = datetime.now(UTC)
    with socket.create_server(("127.0.0.1", 0)) as silent_model:
        silent_model.settimeout(PATIENCE)
        command = home.start(
            *("extract", INVOICE, INVOICE, INVOICE),
            group=True,
            ANTHROPIC_API_KEY="k",
            ANTHROPIC_BASE_URL=f"http://127.0.0.1:{silent_model.getsockname()[1]}",
            FIELDMARK_MAX_LIVE_AGENTS="1",
        )
        read_until(command.stderr, "Reading the document")
        connection, _ = silent_model.accept()  # the agent asks its model, and is never answered
        with connection:
            relatives = family(command)
            assert any("claude" in command_line(relative) for relative in relatives)
            done = signalled(command, signal.SIGINT, group=True)
    assert done.code == 130  # it waited for no answer: there would never have been one
    assert done.err.rstrip().endswith("Interrupted.") and "Traceback" not in done.err
    assert all_gone(relatives) and home.is_free()
    # What was not begun is not begun by the next command either: nobody would wait for it.
    with running(home.path, home.major) as server, psycopg.connect(server.owner_url) as conn:
        rows = conn.execute("select distinct status from public.runs where created_at >= %s", [begun]).fetchall()
    assert rows == [("cancelled",)]


def test_interrupted_while_a_document_is_read_its_reader_goes_too(home: Home):
    with Image.open(next(SAMPLES.glob("*.jpg"))) as photo:
        page = photo.convert("1")
    scan = home.folder / "scan.tiff"  # of so many pages that no reader comes to their end
    page.save(scan, save_all=True, append_images=[page] * 199)
    command = home.start("extract", scan, group=True)
    read_until(command.stderr, "Reading the document")
    relatives = family(command)
    while not readers_of(command.pid):
        assert command.poll() is None, "no reader was started"
        time.sleep(0.02)
        relatives = family(command)
    done = signalled(command, signal.SIGINT, group=True)
    assert done.code == 130 and "Traceback" not in done.err
    assert all_gone(relatives) and home.is_free()
