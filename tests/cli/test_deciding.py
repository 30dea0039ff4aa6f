"""A person decides on the command line: asked in `extract --ask`, or later with `runs` and `approve`."""

from __future__ import annotations

import json

import pytest

from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}
NUMBER = {"path": "number", "value": "1", "confidence": 0.9}


def proposing(*calls) -> Script:
    return Script([*[[one] for one in calls], [text("Done.")]])


async def test_what_is_piped_in_decides(local_commands):
    script = proposing(call("update_field", TOTAL), call("update_field", NUMBER), call("update_field", TOTAL))
    async with local_commands(script) as fieldmark:
        answers = f"a\nr It is no number.\ne {json.dumps({**TOTAL, 'value': 12})}\n"
        ended = await fieldmark.run("extract", "--ask", "--json", fieldmark.file(), stdin=answers)
        assert ended.code == 4, ended.err
        assert json.loads(ended.out)["extracted_fields"] == {"total": 12}
        assert "Updating total" in ended.err and '"value": 10' in ended.err
        assert "It is no number." in json.dumps(fieldmark.model.requests[-1])
        decided = fieldmark.sql("select status, admitted_by from public.tool_calls order by created_at")
        assert [tuple(row.values()) for row in decided] == [("done", "person"), ("refused", None), ("done", "person")]


async def test_extract_asks_again_after_a_refused_answer_and_escapes_what_is_proposed(commands):
    hostile = {"path": "total", "value": "\x1b[2J\x9b1A[bold]10\u202e99", "confidence": 0.9}
    async with commands(proposing(call("update_field", hostile))) as fieldmark:
        answers = 'perhaps\n\ne {"path": \ne {"path": "total"}\nr\nbecause\n'
        ended = await fieldmark.run("extract", "--ask", fieldmark.file(), stdin=answers)
        assert ended.code == 4 and fieldmark.fields() == {}
        assert "value: " in ended.err  # the tool's own check
        assert r"\u001b[2J\u009b1A[bold]10\u202e99" in ended.err
        assert not set("\x1b\x9b\u202e") & set(ended.err)
        assert "because" in json.dumps(fieldmark.model.requests[-1])


async def test_without_a_person_it_waits_and_is_decided_later(commands):
    changed = {**TOTAL, "value": 12}
    calls = [call("update_field", one) for one in (TOTAL, NUMBER, changed)]
    async with commands(proposing(*calls)) as fieldmark:
        ended = await fieldmark.run("extract", "--ask", fieldmark.file())
        run_id = str(fieldmark.only_run()["id"])
        assert ended.code == 4 and f"fieldmark approve {run_id}" in ended.err
        assert fieldmark.only_run()["status"] == "awaiting_approval" and fieldmark.fields() == {}

        listed = await fieldmark.run("runs", "--status", "awaiting_approval")
        assert listed.code == 0 and run_id in listed.out and "Updating total" in listed.out and "a.txt" in listed.out
        (line,) = (await fieldmark.run("runs", "--json")).out.splitlines()
        waiting_call = json.loads(line)["waiting_call"]

        # Without --yes it is shown, and nobody answers: nothing is decided.
        shown = await fieldmark.run("approve", run_id)
        assert shown.code == 4 and "Updating total" in shown.err and "nothing → 10" in shown.err
        assert fieldmark.only_run()["status"] == "awaiting_approval" and fieldmark.fields() == {}

        given = json.dumps({**TOTAL, "value": 11})
        again = await fieldmark.run("approve", run_id, "--yes", waiting_call, "--input", given)
        assert again.code == 4 and "Updating number" in again.err and fieldmark.fields() == {"total": 11}
        assert (await fieldmark.run("approve", run_id, "--yes", waiting_call)).code == 1  # that one was decided
        rejected = await fieldmark.run("approve", run_id, "--reject", "--reason", "Not wanted.")
        assert rejected.code == 4 and fieldmark.fields() == {"total": 11}
        assert "Not wanted." in json.dumps(fieldmark.model.requests[-1])
        last = await fieldmark.run("approve", run_id, stdin="a\n")
        assert last.code == 4 and "11 → 12" in last.err and "12" in last.out and fieldmark.fields() == {"total": 12}

        spent = await fieldmark.run("approve", run_id)
        assert spent.code == 1
        assert (await fieldmark.run("runs", "--status", "awaiting_approval")).out == ""


async def test_at_a_terminal_the_editor_changes_it(local_commands, quick_path):
    editor = quick_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/10/13/" "$1"\n')
    editor.chmod(0o755)
    async with local_commands(proposing(call("update_field", TOTAL)), EDITOR=str(editor)) as fieldmark:
        async with fieldmark.at_terminal("extract", "--ask", fieldmark.file()) as terminal:
            await terminal.sees("(a/r/e/l)")
            terminal.types("e\n")
        assert terminal.process.returncode == 4, terminal.shown
        assert fieldmark.fields() == {"total": 13}
