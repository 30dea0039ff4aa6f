"""Decisions on the command line: asked in `extract --ask`, or later with `runs` and `approve`."""

from __future__ import annotations

import json
import signal

import pytest

from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}
NUMBER = {"path": "number", "value": "1", "confidence": 0.9}


def proposal_script(*arguments) -> Script:
    return Script([*[[call("update_field", one)] for one in arguments], [text("Done.")]])


async def test_piped_answers_decide_and_output_is_escaped(commands):
    hostile = {"path": "total", "value": "\x1b[2J\x9b1A[bold]10\u202e99", "confidence": 0.9}
    async with commands(proposal_script(hostile, NUMBER, TOTAL)) as fieldmark:
        # The question is repeated after an answer that decides nothing or that the tool rejects.
        answers = 'perhaps\n\ne {"path": \ne {"path": "total"}\nr\nIt is no number.\n'
        answers += f"a\ne {json.dumps({**TOTAL, 'value': 12})}\n"
        ended = await fieldmark.run("extract", "--ask", "--json", fieldmark.file(), stdin=answers)
        assert ended.code == 4, ended.err
        assert json.loads(ended.out)["extracted_fields"] == {"number": "1", "total": 12}
        assert "Updating total" in ended.err and "value: " in ended.err
        assert r"\u001b[2J\u009b1A[bold]10\u202e99" in ended.err
        assert not set("\x1b\x9b\u202e") & set(ended.err)
        assert "It is no number." in json.dumps(fieldmark.model.requests[-1])
        decided = fieldmark.sql("select status, approved_by from public.tool_calls order by created_at")
        assert [tuple(row.values()) for row in decided] == [("refused", None), ("done", "person"), ("done", "person")]


async def test_without_a_terminal_the_call_waits_for_a_later_decision(commands):
    async with commands(proposal_script(TOTAL, NUMBER, {**NUMBER, "value": "2"})) as fieldmark:
        ended = await fieldmark.run("extract", "--ask", fieldmark.file())
        run_id = str(fieldmark.only_run()["id"])
        assert ended.code == 4 and f"fieldmark approve {run_id}" in ended.err
        assert fieldmark.only_run()["status"] == "awaiting_approval" and fieldmark.fields() == {}

        listed = await fieldmark.run("runs", "--status", "awaiting_approval")
        assert listed.code == 0 and run_id in listed.out and "Updating total" in listed.out and "a.txt" in listed.out
        (line,) = (await fieldmark.run("runs", "--json")).out.splitlines()
        waiting_call = json.loads(line)["waiting_call"]

        # Without --yes and without a terminal, the call is shown but not decided.
        shown = await fieldmark.run("approve", run_id)
        assert shown.code == 4 and "Updating total" in shown.err and "nothing → 10" in shown.err
        assert fieldmark.only_run()["status"] == "awaiting_approval"

        given = json.dumps({**TOTAL, "value": 11})
        again = await fieldmark.run("approve", run_id, "--yes", waiting_call, "--input", given)
        assert again.code == 4 and "Updating number" in again.err and fieldmark.fields() == {"total": 11}
        assert (await fieldmark.run("approve", run_id, "--yes", waiting_call)).code == 1  # that call has been decided
        rejected = await fieldmark.run("approve", run_id, "--reject", "--reason", "Not wanted.")
        assert rejected.code == 4 and fieldmark.fields() == {"total": 11}
        assert "Not wanted." in json.dumps(fieldmark.model.requests[-1])
        # A key with the scope for decisions only cannot read the file's name.
        decider = await fieldmark.with_key("runs:read", "runs:approve", "extractions:read")
        last = await decider.run("approve", run_id, stdin="a\n")
        assert last.code == 4 and "scope_missing" not in last.err
        assert "nothing → 2" in last.err and fieldmark.fields() == {"total": 11, "number": "2"}
        # It lists its own runs, or those of everyone.
        assert run_id not in (await decider.run("runs")).out
        assert run_id in (await decider.run("runs", "--everyone")).out

        assert (await fieldmark.run("approve", run_id)).code == 1
        assert (await fieldmark.run("runs", "--status", "awaiting_approval")).out == ""


async def test_terminal_editor_changes_a_call_and_ctrl_c_cancels(commands, memory_path):
    editor = memory_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/10/13/" "$1"\n')
    editor.chmod(0o755)
    async with commands(proposal_script(TOTAL, NUMBER)) as fieldmark:
        edits = fieldmark.with_settings(EDITOR=str(editor))
        async with edits.at_terminal("extract", "--ask", fieldmark.file()) as terminal:
            await terminal.wait_for("(a/r/e/l)")
            terminal.type_keys("e\n")
            await terminal.wait_for("Updating number")
            terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.returncode == 130, terminal.shown
        assert fieldmark.fields() == {"total": 13} and fieldmark.only_run()["status"] == "cancelled"
