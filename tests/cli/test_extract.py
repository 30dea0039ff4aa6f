"""`fieldmark extract`: its output and exit codes, and what it leaves when interrupted."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from commands import INVOICE, Commands, interrupt, process_tree, read_until, wait_ended

from child_processes import command_line, wait_all_ended
from encrypted_files import NEW_PDF, PASSWORD
from fieldmark.api.extractions import Extraction
from fieldmark.db.embedded import embedded_postgres
from running_server import PATIENCE

pytestmark = pytest.mark.anyio

README = Path(__file__).parents[2] / "README.md"
KEYS = list(Extraction.model_fields)  # what the API answers with
SCHEMA = {"type": "object", "properties": {"invoice_number": {"type": "string"}}, "required": ["invoice_number"]}


def control_characters(text: str) -> set[str]:
    return {c for c in text if not c.isprintable()} - {"\n"}


@pytest.mark.long
async def test_extract_prints_a_table_and_search_finds_the_document(home: Commands):
    done = await home.run("extract", str(INVOICE))
    assert done.code == 0
    heading, *table = done.out.splitlines()
    assert heading.startswith("invoice · extraction ") and heading.endswith(" · i2d_AzureInterior.pdf")
    assert "\n".join(["```", *table, "```"]) in README.read_text("utf-8")  # the README shows the whole table
    # Progress goes to standard error, a line per step, without terminal control codes.
    for words in (
        "Starting…",
        "offline model",
        "Reading the document…",
        "✓ It is a document of type invoice. Saving invoice_number",
        "then completing",
    ):
        assert words in done.err
    assert control_characters(done.out) == control_characters(done.err) == set()
    assert len(done.err.splitlines()) < 20
    assert home.is_stopped()
    # No other process indexes the document.
    found = json.loads((await home.run("search", "Azure", "--json")).out)
    assert (found["not_indexed"], {hit["filename"] for hit in found["hits"]}) == (0, {INVOICE.name})


async def test_json_output_is_clean_and_violations_exit_4(commands):
    async with commands() as fieldmark:
        schema = fieldmark.file(
            "\ufeff" + json.dumps(SCHEMA), "schema.json"
        )  # with a byte order mark, as some editors save it
        done = await fieldmark.run("extract", str(INVOICE), "--json", "--schema", schema, "--out", "out.json")
        assert done.code == 0, done.err
        extraction = json.loads(done.out)
        assert list(extraction) == KEYS
        assert (extraction["status"], extraction["document_type"]) == ("completed", "invoice")
        assert extraction["extracted_fields"]["invoice_number"] == "INV/2023/03/0008"
        assert json.loads((fieldmark.folder / "out.json").read_text()) == extraction

        more = fieldmark.file(json.dumps({**SCHEMA, "required": ["invoice_number", "due_date"]}), "more.json")
        done = await fieldmark.run("extract", fieldmark.file(), "--schema", more)
        # The fields violate the schema, so the extraction is not completed.
        assert done.code == 4 and "a.txt" in done.out and "due_date: " in done.err
        printed = (await fieldmark.run("extract", "-q", fieldmark.file(), "--schema", more)).out
        assert "due_date: " in printed
        # The field itself is listed, too.
        assert [line.split()[-2] for line in printed.splitlines() if line.startswith("│ due_date")] == ["missing"]


async def test_history_names_the_person_whose_words_a_correction_wrote(commands):
    async with commands() as fieldmark:
        done = await fieldmark.run("extract", fieldmark.file(), "--json")
        extraction = json.loads(done.out)["id"]
        assert (await fieldmark.run("correct", extraction, "set total to 12.5")).code == 0
        nothing = await fieldmark.run("correct", extraction, "set nonsense.field to 3")
        assert nothing.code == 1 and "Nothing was changed" in nothing.err
        first, *_, last = (await fieldmark.run("show", extraction, "--history")).out.splitlines()
        assert ("user via agent" in first, "user via agent" in last) == (True, False)


async def test_document_is_read_from_a_pipe(commands):
    async with commands() as fieldmark:
        pipe = fieldmark.folder / "pipe"
        os.mkfifo(pipe)
        writing = asyncio.create_task(asyncio.to_thread(pipe.write_text, "Invoice number: 9\nTotal: 11.00 EUR\n"))
        done = await fieldmark.run("extract", pipe.name, "--json")
        await writing
        assert json.loads(done.out)["extracted_fields"]["total"] == 11, done.err


async def test_extract_handles_broken_and_protected_files(commands):
    async with commands() as fieldmark:
        damaged = fieldmark.file(b"%PDF-1.7 no more", "[bold]broken\x1b[31m.pdf")
        unreadable = fieldmark.file("Invoice number: 9\nTotal: 11.00 EUR\n", b"odd \xff.txt")
        locked = fieldmark.file(NEW_PDF, "locked.pdf")
        files = (fieldmark.file(), damaged, unreadable, locked)
        done = await fieldmark.run("extract", *files, "--json", "--password", stdin=f"{PASSWORD}\n")
        assert done.code == 1
        lines = [json.loads(line) for line in done.out.splitlines()]
        assert [line["file"] for line in lines] == [os.fsencode(file).decode(errors="replace") for file in files]
        numbers = [line.get("extracted_fields", {}).get("invoice_number") for line in lines]
        assert numbers[:3] == ["1", None, "9"] and lines[3]["status"] == "completed"
        assert list(lines[0]) == ["file", *KEYS]
        assert (lines[1]["status"], lines[1]["code"]) == ("failed", "damaged")
        assert lines[1]["error"].endswith(".") and "document_id" in lines[1]
        assert "[bold]broken\\u001b[31m.pdf" in done.err and "✗" in done.err
        assert control_characters(done.err) == set() and PASSWORD not in done.out + done.err

        single = await fieldmark.run("extract", locked, "--json", "--out", "none.json")
        assert (single.code, json.loads(single.out)["code"]) == (1, "password")
        assert not (fieldmark.folder / "none.json").exists()


@pytest.mark.long
@pytest.mark.real_cli("its process ends")
async def test_interrupted_command_leaves_nothing(home: Commands):
    started_at = datetime.now(UTC)
    with socket.create_server(("127.0.0.1", 0)) as silent_model:
        silent_model.settimeout(PATIENCE)
        silent = home.with_settings(
            ANTHROPIC_API_KEY="k",
            ANTHROPIC_BASE_URL=f"http://127.0.0.1:{silent_model.getsockname()[1]}",
            FIELDMARK_MAX_LIVE_AGENTS="1",
        )
        command = await silent.start("extract", *[str(INVOICE)] * 3, start_new_session=True)
        await read_until(command, "Reading the document")
        connection, _ = silent_model.accept()  # the model never answers
        with connection:
            relatives = process_tree(command)
            assert any("claude" in command_line(relative) for relative in relatives)
            interrupt(command)
            done = await wait_ended(command)
    assert done.code == 130  # it did not wait for the model
    assert done.err.rstrip().endswith("Interrupted.") and "Traceback" not in done.err
    assert wait_all_ended(relatives) and home.is_stopped()
    # The next command does not start the unstarted runs: no one waits for them.
    major = int(home.settings["FIELDMARK_POSTGRES_MAJOR"])
    with embedded_postgres(home.home, major) as server, psycopg.connect(server.owner_url) as conn:
        rows = conn.execute("select distinct status from public.runs where created_at >= %s", [started_at]).fetchall()
    assert rows == [("cancelled",)]
