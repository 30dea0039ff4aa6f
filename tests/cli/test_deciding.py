"""A person decides on the command line: asked in `extract --ask`, or later with `runs` and `approve`."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from command import said_at_once

from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}
NUMBER = {"path": "number", "value": "1", "confidence": 0.9}


def proposing(*calls) -> Script:
    return Script([*[[one] for one in calls], [text("Done.")]])


async def test_what_is_piped_in_decides(commands):
    script = proposing(call("update_field", TOTAL), call("update_field", NUMBER), call("update_field", TOTAL))
    async with commands(script) as fieldmark:
        answers = f"a\nr It is no number.\ne {json.dumps({**TOTAL, 'value': 12})}\n"
        ended = await fieldmark.run("extract", "--ask", "--json", fieldmark.file(), stdin=answers)
        assert ended.code == 4, ended.err
        assert json.loads(ended.out)["extracted_fields"] == {"total": 12}
        assert "Updating total" in ended.err and '"value": 10' in ended.err
        assert "It is no number." in json.dumps(fieldmark.model.requests[-1])
        decided = fieldmark.sql("select status, admitted_by from public.tool_calls order by created_at")
        assert [tuple(row.values()) for row in decided] == [("done", "person"), ("refused", None), ("done", "person")]


async def test_what_cannot_be_written_is_asked_again(commands):
    async with commands(proposing(call("update_field", TOTAL))) as fieldmark:
        answers = 'perhaps\n\ne {"path": \ne {"path": "total"}\nr\nbecause\n'
        ended = await fieldmark.run("extract", "--ask", fieldmark.file(), stdin=answers)
        assert ended.code == 4 and fieldmark.fields() == {}
        assert "Answer with a, r, e or l" in ended.err and "This is no JSON object" in ended.err
        assert "value: Field required" in ended.err  # the tool's own check
        assert "because" in json.dumps(fieldmark.model.requests[-1])


async def test_without_a_person_it_waits_and_is_decided_later(commands):
    async with commands(proposing(call("update_field", TOTAL), call("update_field", NUMBER))) as fieldmark:
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
        last = await fieldmark.run("approve", run_id, "--reject", "--reason", "Not wanted.")
        assert last.code == 4 and "11" in last.out and fieldmark.fields() == {"total": 11}
        assert "Not wanted." in json.dumps(fieldmark.model.requests[-1])

        spent = await fieldmark.run("approve", run_id)
        assert spent.code == 1 and "waits for nothing" in spent.err
        assert "no such runs" in (await fieldmark.run("runs", "--status", "awaiting_approval")).err


async def test_approve_shows_old_and_new_and_asks(commands):
    changed = {**TOTAL, "value": 11}
    async with commands(proposing(call("update_field", TOTAL), call("update_field", changed))) as fieldmark:
        assert (await fieldmark.run("extract", "--ask", fieldmark.file())).code == 4
        run_id = str(fieldmark.only_run()["id"])
        first = await fieldmark.run("approve", run_id, stdin="a\n")
        assert first.code == 4 and "nothing → 10" in first.err and fieldmark.fields() == {"total": 10}
        second = await fieldmark.run("approve", run_id, stdin="a\n")
        assert second.code == 4 and "10 → 11" in second.err and fieldmark.fields() == {"total": 11}


async def test_the_agent_hears_of_a_decision_that_came_after_its_cli_was_ended(commands):
    """The CLI still waited for the person when its command ended: it was told to defer, and goes on from there."""
    answer = proposing(call("update_field", TOTAL))

    async with commands(answer, FIELDMARK_APPROVAL_WAIT_SECONDS="30") as fieldmark:
        assert (await fieldmark.run("extract", "--ask", fieldmark.file())).code == 4
        run = fieldmark.only_run()
        assert (run["status"], run["attached"]) == ("awaiting_approval", False)
        last = await fieldmark.run("approve", str(run["id"]), "--yes", run["waiting_call"])
        assert last.code == 4 and fieldmark.fields() == {"total": 10}
        assert len(fieldmark.model.requests) == 2  # proposed, and told what came of it
        assert [row["status"] for row in fieldmark.sql("select status from public.tool_calls")] == ["done"]


async def test_only_the_runs_own_user_decides(commands):
    async with commands(proposing(call("update_field", TOTAL))) as fieldmark:
        assert (await fieldmark.run("extract", "--ask", fieldmark.file())).code == 4
        run_id, stranger = str(fieldmark.only_run()["id"]), str(uuid4())
        ended = await fieldmark.run("approve", run_id, "--user", stranger)
        assert ended.code == 1 and "no such run" in ended.err
        assert run_id not in (await fieldmark.run("runs", "--user", stranger)).out
        (waiting_call,) = fieldmark.sql("select id from public.tool_calls")[0].values()
        ended = await fieldmark.run("approve", run_id, "--yes", waiting_call, "--user", stranger)
        assert ended.code == 1 and "no such run" in ended.err
        assert fieldmark.only_run()["status"] == "awaiting_approval" and fieldmark.fields() == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ["approve", "no-uuid"],
        ["approve", str(uuid4()), "--reject", "--input", "{}"],
        ["approve", str(uuid4()), "--reject", "--yes", "a-call"],
        ["approve", str(uuid4()), "a-call"],
        ["approve", str(uuid4()), "--reason", "because"],
        ["approve", str(uuid4()), "--input", "[1]"],
        ["runs", "--status", "asleep"],
    ],
)
def test_wrong_usage_is_said(arguments):
    done = said_at_once(*arguments)
    assert done.code == 2 and done.err


async def test_at_a_terminal_the_editor_changes_it(commands, quick_path):
    editor = quick_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/10/13/" "$1"\n')
    editor.chmod(0o755)
    async with commands(proposing(call("update_field", TOTAL)), EDITOR=str(editor)) as fieldmark:
        async with fieldmark.at_terminal("extract", "--ask", fieldmark.file()) as terminal:
            await terminal.sees("(a/r/e/l)")
            terminal.types("e\n")
        assert terminal.process.returncode == 4, terminal.shown
        assert fieldmark.fields() == {"total": 13}


async def test_a_proposal_cannot_speak_to_the_terminal(commands):
    hostile = {"path": "total", "value": "\x1b[2J\x9b1A[bold]10\u202e99", "confidence": 0.9}
    async with commands(proposing(call("update_field", hostile))) as fieldmark:
        ended = await fieldmark.run("extract", "--ask", fieldmark.file(), stdin="l\n")
        assert ended.code == 4
        assert r"\u001b[2J\u009b1A[bold]10\u202e99" in ended.err
        assert not set("\x1b\x9b\u202e") & set(ended.err)
