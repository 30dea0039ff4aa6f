"""`fieldmark chat`: messages, replies and proposals, with decisions on the way."""

from __future__ import annotations

import asyncio
import json
import signal
from uuid import uuid4

import pytest

from extraction_case import until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import pause_midway, stall_connection
from running_server import PATIENCE
from two_agent_model import chat_script, extraction_call

pytestmark = pytest.mark.anyio


def only_thread(fieldmark) -> dict:
    (thread,) = fieldmark.sql("select * from public.threads")
    return thread


def statuses(fieldmark) -> list[str]:
    return [row["status"] for row in fieldmark.sql("select status from public.runs order by created_at")]


async def test_piped_chat_is_one_conversation_and_output_is_escaped(commands):
    said = "\x1b]0;mine\x07 [red]not[/red] \u202eback"
    async with commands(chat_script([text("Hello.")], [text("I look."), call("list_tags")], [text(said)])) as fieldmark:
        file = fieldmark.file(name="[b]a\x1b[1m.txt")
        lines = "Good day\n\nWhat is the total? \x1b[2J\n/history\n/nonsense\n/approve\n"
        done = await fieldmark.run("chat", file, stdin=lines)
        assert done.code == 0, done.err
        assert done.out.startswith("Hello.\n") and "[red]not[/red]" in done.out and "\\u001b]0;mine" in done.out
        assert not set("\x1b\u202e\x07") & set(done.out + done.err)
        assert "Good day" in json.dumps(fieldmark.model.requests[-1]["messages"])
        thread = only_thread(fieldmark)
        assert thread["title"] == "Good day" and not thread["shared"]
        assert f"chat {thread['document_id']} --thread {thread['id']}" in done.err
        assert done.err.count("you> What is the total?") == 2 and "I look." in done.err  # the history
        assert "No call is waiting" in done.err
        # A failed turn is reported, and the conversation continues.
        go_on = ("chat", str(thread["document_id"]), "--thread", str(thread["id"]))
        failed = await fieldmark.run(*go_on, stdin="Again\n/quit\n")
        assert failed.code == 1 and statuses(fieldmark) == ["completed", "completed", "failed"]


async def test_rejected_proposal_can_be_replaced_by_another_message(commands):
    def answer(body):
        return [text("Then not.")] if "never mind" in json.dumps(body["messages"]) else [extraction_call()]

    async with commands(answer) as fieldmark:
        done = await fieldmark.run("chat", fieldmark.file(), stdin="extract\n/reject Not yet.\nnever mind\n")
        assert (done.code, done.out) == (0, "Then not.\n"), done.err
        assert "Not yet." in json.dumps(fieldmark.model.requests[1]["messages"])
        calls = fieldmark.sql("select status from public.tool_calls")
        assert [one["status"] for one in calls] == ["refused", "refused"]
        assert statuses(fieldmark) == ["cancelled", "completed"]


async def test_edited_call_runs_and_its_child_run_is_followed(commands):
    async with commands(chat_script([extraction_call()], [text("Done.")])) as fieldmark:
        edits = '/edit {"prompt_revid": 1}', f'/edit {{"prompt_revid": "{uuid4()}"}}', "/edit {}"
        done = await fieldmark.run("chat", fieldmark.file(), stdin="\n".join(["extract", *edits, ""]))
        assert done.code == 1 and done.out == "Done.\n", done.err  # two answers had no effect
        assert done.err.count("[invalid]") == 2 and "run_extraction" in done.err and "/approve" in done.err
        assert done.err.count("✓") == 3  # two calls of the child run, then the call that started it
        assert fieldmark.fields() == {"total": 10}
        (call,) = fieldmark.sql("select status, approved_by from public.tool_calls where tool = 'run_extraction'")
        assert (call["status"], call["approved_by"]) == ("done", "person")


async def test_waiting_call_is_decided_by_another_command(commands):
    async with commands(chat_script([extraction_call()], [text("Done.")])) as fieldmark:
        first = await fieldmark.run("chat", fieldmark.file(), "--message", "extract")
        assert first.code == 4 and "/approve" in first.err, first.err
        thread = only_thread(fieldmark)
        go_on = ["chat", str(thread["document_id"]), "--thread", str(thread["id"])]
        left = await fieldmark.run(*go_on, stdin="/quit\n/approve\n")
        assert left.code == 4 and "you> extract" in left.err and "Extracting the fields" in left.err
        second = await fieldmark.run(*go_on, "-m", "/approve", "--json")
        assert second.code == 0, second.err
        (reply,) = [json.loads(line) for line in second.out.splitlines()]
        assert (reply["status"], reply["answer"], reply["thread_id"]) == ("completed", "Done.", str(thread["id"]))
        assert second.err.count("Extracting the fields") < 4  # earlier events are not repeated
        # An unknown document and another user's thread are rejected.
        unknown_document = await fieldmark.run("chat", str(uuid4()), "-m", "Hello")
        assert unknown_document.code == 1 and "not_found" in unknown_document.err
        stranger = await fieldmark.as_user(uuid4()).run(*go_on)
        assert stranger.code == 1 and "not_found" in stranger.err


async def test_terminal_chat_streams_and_ctrl_c_cancels_the_turn_first(commands):
    goes_on = asyncio.Event()

    def answer(body):
        said = json.dumps(body["messages"])
        if "Third" in said:
            return [extraction_call()]
        return (
            stall_connection(3600)
            if "Second" in said
            else pause_midway(goes_on.wait, text("It says heron and kestrel."))
        )

    async with commands(answer) as fieldmark, fieldmark.at_terminal("chat", fieldmark.file()) as terminal:
        await terminal.wait_for("you>")
        terminal.type_keys("First\n")
        await terminal.wait_for("It says")
        assert "kestrel" not in terminal.shown
        goes_on.set()
        await terminal.wait_for("heron and kestrel.")
        terminal.type_keys("Second\n")
        await until(lambda: len(fieldmark.model.requests) >= 2, PATIENCE)
        terminal.process.send_signal(signal.SIGINT)
        await terminal.wait_for("[cancelled]")
        # The waiting call keeps waiting.
        terminal.type_keys("Third\n")
        await terminal.wait_for("/approve, /reject")
        terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.returncode == 130, terminal.shown
    assert terminal.shown.count("heron") == 1
    assert statuses(fieldmark) == ["completed", "cancelled", "awaiting_approval"]
