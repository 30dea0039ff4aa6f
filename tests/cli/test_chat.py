"""`fieldmark chat`: lines in, what the agent says and proposes out, decided on the way."""

from __future__ import annotations

import asyncio
import json
import signal
from uuid import uuid4

import pytest
from at_work import ended

from desk import until
from fieldmark.offline_model.messages import text
from fieldmark.testing.script import Script, held, stall
from standing import PATIENCE
from two_agents import run, talking

pytestmark = pytest.mark.anyio


def the_thread(fieldmark) -> dict:
    (thread,) = fieldmark.sql("select * from public.threads")
    return thread


async def test_what_is_piped_in_is_said_line_by_line_in_one_conversation(commands):
    async with commands(talking([text("Hello.")], [text("It is 10.")])) as fieldmark:
        done = await fieldmark.run("chat", fieldmark.file(), stdin="Good day\n\nWhat is the total?\n/history\n")
        assert done.code == 0, done.err
        assert done.out.splitlines() == ["Hello.", "It is 10."]
        assert "Good day" in json.dumps(fieldmark.model.requests[-1]["messages"])
        thread = the_thread(fieldmark)
        assert thread["title"] == "Good day" and not thread["shared"]
        assert f"chat {thread['document_id']} --thread {thread['id']}" in done.err
        assert done.err.count("you> What is the total?") == 2 and done.err.count("It is 10.") == 1  # the history


async def test_a_proposal_is_approved_and_what_it_starts_is_watched(local_commands):
    async with local_commands(talking([run()], [text("Done.")])) as fieldmark:
        done = await fieldmark.run("chat", fieldmark.file(), stdin="extract\n/approve\n")
        assert done.code == 0, done.err
        assert done.out.splitlines()[-1] == "Done."
        assert "Extracting the fields" in done.err and "/approve" in done.err
        assert "✓ Extracting" in done.err.replace("  ", " ")  # what the child run has done
        assert fieldmark.fields() == {"total": 10}
        (call,) = fieldmark.sql("select status, admitted_by from public.tool_calls where tool = 'run_extraction'")
        assert (call["status"], call["admitted_by"]) == ("done", "person")


async def test_a_rejection_says_why_and_other_words_take_the_call_s_place(commands):
    def answer(body):
        return [text("Then not.")] if "never mind" in json.dumps(body["messages"]) else [run()]

    async with commands(answer) as fieldmark:
        done = await fieldmark.run("chat", fieldmark.file(), stdin="extract\n/reject Not yet.\nnever mind\n")
        assert done.code == 0, done.err
        assert done.out == "Then not.\n"
        assert "Not yet." in json.dumps(fieldmark.model.requests[1]["messages"])
        calls = fieldmark.sql("select status, reason from public.tool_calls order by created_at")
        assert [one["status"] for one in calls] == ["refused", "refused"]
        assert [one["status"] for one in fieldmark.sql("select status from public.runs order by created_at")] == [
            "cancelled",
            "completed",
        ]


async def test_arguments_are_edited_and_what_the_tool_refuses_goes_on_waiting(commands):
    async with commands(talking([run()], [text("Done.")])) as fieldmark:
        lines = f'extract\n/edit {{"prompt_revid": 1}}\n/edit {{"prompt_revid": "{uuid4()}"}}\n/edit {{}}\n'
        done = await fieldmark.run("chat", fieldmark.file(), stdin=lines)
        assert done.code == 1 and done.out == "Done.\n", done.err  # two lines came to nothing
        assert "prompt_revid" in done.err and "There is no such prompt" in done.err
        assert fieldmark.fields() == {"total": 10}


async def test_what_waits_is_taken_up_by_another_command(commands):
    async with commands(talking([run()], [text("Done.")])) as fieldmark:
        first = await fieldmark.run("chat", fieldmark.file(), "--message", "extract")
        assert first.code == 4 and "/approve" in first.err, first.err
        thread = the_thread(fieldmark)
        go_on = ["chat", str(thread["document_id"]), "--thread", str(thread["id"])]
        left = await fieldmark.run(*go_on, stdin="/quit\n/approve\n")
        assert left.code == 4 and "you> extract" in left.err and "Extracting the fields" in left.err
        second = await fieldmark.run(*go_on, "-m", "/approve", "--json")
        assert second.code == 0, second.err
        (told,) = [json.loads(line) for line in second.out.splitlines()]
        assert (told["status"], told["answer"], told["thread_id"]) == ("completed", "Done.", str(thread["id"]))
        assert second.err.count("Extracting the fields") < 4  # what was told before is not told again


async def test_what_cannot_be_talked_about(commands):
    async with commands(talking([text("Hello.")])) as fieldmark:
        file = fieldmark.file()
        assert (await fieldmark.run("chat", file, "--thread", str(uuid4()))).code == 2
        absent = await fieldmark.run("chat", str(uuid4()), "-m", "Hello")
        assert absent.code == 1 and "not_found" in absent.err
        assert (await fieldmark.run("chat", file, "-m", "Hello")).code == 0
        thread = the_thread(fieldmark)
        other = fieldmark.file(name="b.txt", text="Another.\n")
        assert (await fieldmark.run("chat", other, "-m", "/quit")).code == 0
        (document,) = fieldmark.sql("select id from public.documents where filename = 'b.txt'")
        about_another = await fieldmark.run("chat", str(document["id"]), "--thread", str(thread["id"]))
        assert about_another.code == 1 and "another document" in about_another.err
        go_on = ("chat", str(thread["document_id"]), "--thread", str(thread["id"]))
        somebody = await fieldmark.by(uuid4()).run(*go_on)
        assert somebody.code == 1 and "not_found" in somebody.err


async def test_a_turn_that_fails_is_told_and_the_conversation_goes_on(commands):
    async with commands(talking([text("Hello.")])) as fieldmark:
        done = await fieldmark.run("chat", fieldmark.file(), stdin="Hello\nAgain\n/nonsense\n/approve\n")
        assert done.code == 1 and done.out == "Hello.\n"
        assert "/history" in done.err and "Nothing waits" in done.err
        states = [row["status"] for row in fieldmark.sql("select status from public.runs order by created_at")]
        assert states == ["completed", "failed"]


async def test_nothing_that_is_said_reaches_the_terminal_as_a_command(commands):
    said = "\x1b]0;mine\x07 [red]not[/red] \u202eback"
    async with commands(talking([text(said)])) as fieldmark:
        done = await fieldmark.run("chat", fieldmark.file(name="[b]a\x1b[1m.txt"), stdin="Hello \x1b[2J\n/history\n")
        assert done.code == 0
        for stream in (done.out, done.err):
            assert "\x1b" not in stream and "\u202e" not in stream and "\x07" not in stream
        assert "[red]not[/red]" in done.out and "\\u001b]0;mine" in done.out


async def test_at_a_terminal_words_come_as_they_are_said_and_ctrl_c_ends_the_turn_alone(local_commands):
    goes_on = asyncio.Event()
    turns = [held(goes_on.wait, text("It says heron and kestrel.")), stall(3600), [text("Still here.")]]

    async def answer(body):
        said = json.dumps(body["messages"])
        at = 2 if "Third" in said else 1 if "Second" in said else 0
        return turns[at]

    async with local_commands(answer) as fieldmark, fieldmark.at_terminal("chat", fieldmark.file()) as terminal:
        await terminal.sees("you>")
        terminal.types("First\n")
        await terminal.sees("It says")
        assert "kestrel" not in terminal.shown
        goes_on.set()
        await terminal.sees("heron and kestrel.")
        terminal.types("Second\n")
        await until(lambda: len(fieldmark.model.requests) >= 2, PATIENCE)
        terminal.process.send_signal(signal.SIGINT)
        await terminal.sees("[cancelled]")
        terminal.types("Third\n")
        await terminal.sees("Still here.")
        terminal.types("/quit\n")
    assert terminal.process.returncode == 0, terminal.shown
    assert terminal.shown.count("heron") == 1
    states = [row["status"] for row in fieldmark.sql("select status from public.runs order by created_at")]
    assert states == ["completed", "cancelled", "completed"]


async def test_at_the_prompt_ctrl_c_ends_it_and_what_waits_goes_on_waiting(local_commands):
    async with (
        local_commands(talking([run()], [text("Done.")])) as fieldmark,
        fieldmark.at_terminal("chat", fieldmark.file()) as terminal,
    ):
        await terminal.sees("you>")
        terminal.types("extract\n")
        await terminal.sees("/approve, /reject")
        terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.returncode == 130, terminal.shown
    assert fieldmark.only_run()["status"] == "awaiting_approval"


async def test_a_command_that_is_ended_in_the_middle_of_a_turn_leaves_none(local_commands):
    async with local_commands(Script([stall(3600)])) as fieldmark:
        process = await fieldmark.start("chat", fieldmark.file(), "-m", "Hello")
        await until(lambda: fieldmark.model.requests, PATIENCE)
        process.send_signal(signal.SIGTERM)
        await ended(process)
        assert process.returncode == 130 and fieldmark.only_run()["status"] == "cancelled"


async def test_what_a_part_of_a_turn_asks_is_decided_in_the_conversation(commands):
    """Where a second person decides: they approve the extraction, and whoever talks what that writes in their name."""
    async with commands(talking([run()], [text("Done.")])) as fieldmark:
        served = fieldmark.served
        org = (await served.http.post("/api/organisations", json={"name": "Acme"})).json()["id"]
        await served.http.patch(f"/api/organisations/{org}", json={"second_person": True})
        made = (await served.http.post(f"/api/organisations/{org}/invitations", json={"role": "member"})).json()
        there = fieldmark.by(served.scope.user_id)
        first = await there.run("chat", there.file(), "--org", org, stdin="extract\n/approve\n")
        assert first.code == 4 and "second_person_needed" in first.err, first.err
        served.http.headers["x-org-id"] = org
        (thread,) = (await served.http.get("/api/threads")).json()["items"]
        await served.http.patch(f"/api/threads/{thread['id']}", json={"shared": True})
        async with served.client() as other:
            await other.post("/api/invitations/accept", json={"token": made["token"]})
            other.headers["x-org-id"] = org
            (waits,) = (await other.get("/api/runs", params={"status": "awaiting_approval"})).json()["items"]
            said = {"call_id": waits["waits_for"]["call_id"], "approved": True}
            body = {"run_id": waits["id"], "approvals": [said], "wait": False}
            assert (await other.post("/api/agent/approve", json=body)).status_code == 202

        async def a_part_waits() -> bool:
            (turn,) = (await served.http.get(f"/api/threads/{thread['id']}")).json()["turns"]
            return turn["waits_for"] is not None

        await until(a_part_waits)
        go_on = ["chat", thread["document_id"], "--thread", thread["id"], "--org", org]
        second = await there.run(*go_on, stdin="/approve\n/approve\n")
        assert second.code == 0 and second.out == "Done.\n", second.err
        assert second.err.count("/approve, /reject") == 2
