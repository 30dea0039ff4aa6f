"""/api/threads: what whoever has begun a thread does with it, and what others see of it, shared and not."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace
from uuid import uuid4

import pytest
from answers import problem
from people import joined, org_of

from extraction_case import sql, until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script, pause_midway
from two_agent_model import chat_script, extraction_call

pytestmark = pytest.mark.anyio

SECRET = "the heron flies at dawn"


@asynccontextmanager
async def house(serve, answer, **settings):
    """Whoever talks, a colleague in the same organisation, a viewer there, and a document."""
    async with serve(answer, **settings) as server:
        org = await org_of(server.http)
        server.http.headers["x-org-id"] = org
        document = str(await server.upload_text())
        async with joined(server, org, "member") as (colleague, _), joined(server, org, "viewer") as (viewer, _):
            yield SimpleNamespace(
                server=server, http=server.http, colleague=colleague, viewer=viewer, document=document, org=org
            )


async def says(at, message: str, thread_id: str | None = None, http=None, **more) -> dict:
    about = {"document_id": at.document} if thread_id is None else {"thread_id": thread_id}
    body = {**about, "message": message, **more}
    answer = await (http or at.http).post("/api/agent/chat", json=body)
    assert answer.status_code in (200, 202), answer.text
    return answer.json()


async def events_of(http, run_id: str) -> list[dict]:
    answer = await http.get(f"/api/runs/{run_id}/events")
    assert answer.status_code == 200, answer.text
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


async def test_a_thread_is_begun_listed_renamed_and_deleted(serve):
    async with house(serve, chat_script()) as at:
        made = await at.http.post("/api/threads", json={"document_id": at.document, "title": "First"})
        assert made.status_code == 201, made.text
        first = made.json()
        assert first["mine"] and not first["shared"] and first["document_id"] == at.document
        second = (await at.http.post("/api/threads", json={"document_id": at.document})).json()
        listed = (await at.http.get("/api/threads", params={"limit": 1})).json()
        assert [one["id"] for one in listed["items"]] == [second["id"]] and second["title"] is None
        rest = (await at.http.get("/api/threads", params={"before": listed["next"]})).json()
        assert ([one["id"] for one in rest["items"]], rest["next"]) == ([first["id"]], None)
        for query, count in (
            ({"document_id": at.document}, 2),
            ({"document_id": str(uuid4())}, 0),
            ({"agent": first["agent"]}, 2),
            ({"agent": "extraction"}, 0),
            ({"mine": True}, 2),
            ({"mine": False}, 0),
        ):
            assert len((await at.http.get("/api/threads", params=query)).json()["items"]) == count, query

        there = f"/api/threads/{first['id']}"
        assert (await at.http.patch(there, json={"title": "Anew"})).json()["title"] == "Anew"
        assert (await at.http.patch(there, json={})).json()["title"] == "Anew"
        assert (await at.http.patch(there, json={"title": None, "shared": True})).json()["title"] is None
        whole = (await at.http.get(there)).json()
        assert (whole["turns"], whole["next"], whole["working_state"], whole["shared"]) == ([], None, {}, True)
        assert (await at.http.delete(there)).status_code == 204
        problem(await at.http.get(there), 404)
        problem(await at.http.delete(there), 404)


async def test_what_cannot_be_a_thread(serve):
    async with house(serve, chat_script()) as at:
        problem(await at.http.post("/api/threads", json={"document_id": str(uuid4())}), 404)
        problem(await at.http.post("/api/threads", json={"document_id": at.document, "agent": "extraction"}), 404)
        problem(await at.viewer.post("/api/threads", json={"document_id": at.document}), 403, "read_only")
        async with at.server.client() as stranger:
            problem(await stranger.post("/api/threads", json={"document_id": at.document}), 404)
        thread = (await at.http.post("/api/threads", json={"document_id": at.document})).json()
        for title in ("", "a\nb", "\0"):
            problem(await at.http.post("/api/threads", json={"document_id": at.document, "title": title}), 422)
            problem(await at.http.patch(f"/api/threads/{thread['id']}", json={"title": title}), 422)
        problem(await at.http.patch(f"/api/threads/{thread['id']}", json={"created_by": str(uuid4())}), 422)
        problem(await at.http.get("/api/threads", params={"before": "x"}), 422)
        problem(await at.http.get(f"/api/threads/{thread['id']}", params={"before": "x"}), 422)


async def test_turns_are_read_from_the_runs_newest_first(serve, clone):
    second_turn = [text("I look \0."), call("list_tags")], [text("I look again."), call("list_tags")], [text("Two.")]
    async with house(serve, chat_script([text("One.")], *second_turn)) as at:
        first = await says(at, "  Say\none \u202e")
        thread_id = first["thread_id"]
        second = await says(at, "And two", thread_id)
        third = await says(at, "And what the script lacks", thread_id)
        assert [one["status"] for one in (first, second, third)] == ["completed", "completed", "failed"]
        sql(  # a model may have said half a character
            clone.owner_url,
            """insert into public.run_events (run_id, number, org_id, body)
               select id, 1000, org_id, '{"type": "text", "text": "\\ud800"}' from public.runs where id = %s""",
            third["run_id"],
        )
        whole = (await at.http.get(f"/api/threads/{thread_id}", params={"limit": 2})).json()
        assert whole["title"] == "Say one"
        said = [
            (turn["run_id"], turn["message"], turn["earlier_texts"], turn["answer"], turn["status"])
            for turn in whole["turns"]
        ]
        assert said == [
            (third["run_id"], "And what the script lacks", ["?"], None, "failed"),
            (second["run_id"], "And two", ["I look \0.", "I look again."], "Two.", "completed"),
        ]
        assert whole["turns"][0]["error_code"] == third["code"] and whole["turns"][0]["mentions"] == []
        rest = (await at.http.get(f"/api/threads/{thread_id}", params={"before": whole["next"]})).json()
        assert [turn["message"] for turn in rest["turns"]] == ["  Say\none \u202e"] and rest["next"] is None


async def test_what_is_not_shared_is_seen_by_nobody_else_and_sharing_takes_effect_at_once(serve):
    """The thread, its turns, its runs with their events and reasoning, what waits, and what is part of it."""
    turns = chat_script([extraction_call()], [text(SECRET)], [extraction_call()])
    async with house(serve, turns) as at:
        first = await says(at, SECRET)
        thread_id = first["thread_id"]
        wanted = {"call_id": first["waits_for"]["call_id"], "approved": True}
        decided = await at.http.post("/api/agent/approve", json={"run_id": first["run_id"], "approvals": [wanted]})
        assert decided.json()["answer"] == SECRET, decided.text
        second = await says(at, SECRET, thread_id)
        assert second["status"] == "awaiting_approval"
        received = await events_of(at.http, first["run_id"])
        child = next(one["run_id"] for one in received if one["type"] == "child")
        there, runs = f"/api/threads/{thread_id}", (first["run_id"], second["run_id"], child)
        waiting = {"call_id": second["waits_for"]["call_id"], "approved": True}
        decision = {"run_id": second["run_id"], "approvals": [waiting]}

        async def nothing_is_seen_by(http):
            assert SECRET not in (await http.get("/api/threads")).text
            problem(await http.get(there), 404)
            for one in runs:
                problem(await http.get(f"/api/runs/{one}"), 404)
                problem(await http.get(f"/api/runs/{one}/events"), 404)
            listed = await http.get("/api/runs", params={"status": "awaiting_approval"})
            assert listed.json()["items"] == []
            if http is at.colleague:
                problem(await http.post(f"/api/runs/{runs[1]}/cancel"), 404)
                problem(await http.patch(there, json={"shared": True}), 404)
                problem(await http.delete(there), 404)
                problem(await http.post("/api/agent/approve", json=decision), 404)
                body = {"document_id": at.document, "message": "Go on", "thread_id": thread_id}
                problem(await http.post("/api/agent/chat", json=body), 404)

        for http in (at.colleague, at.viewer):
            await nothing_is_seen_by(http)
        assert (await at.http.patch(there, json={"shared": True})).json()["shared"]
        for http in (at.colleague, at.viewer):
            (seen,) = (await http.get("/api/threads", params={"mine": False})).json()["items"]
            assert seen["id"] == thread_id and not seen["mine"]
            whole = (await http.get(there)).json()
            assert [turn["message"] for turn in whole["turns"]] == [SECRET, SECRET]
            assert whole["turns"][0]["waits_for"]["call_id"] == waiting["call_id"]
            assert whole["turns"][0]["waiting_run_id"] == second["run_id"]
            assert set(whole["working_state"]) == {"extraction_id"}  # an id, and nothing of what was said
            for one in runs:
                assert (await http.get(f"/api/runs/{one}")).status_code == 200
                assert await events_of(http, one)
        # To read it is not to have begun it.
        problem(await at.colleague.patch(there, json={"shared": False}), 403, "forbidden")
        problem(await at.colleague.delete(there), 403, "forbidden")
        body = {"document_id": at.document, "message": "Go on", "thread_id": thread_id}
        problem(await at.colleague.post("/api/agent/chat", json=body), 404)
        problem(await at.colleague.post("/api/agent/approve", json=decision), 404)
        async with at.server.client() as stranger:
            problem(await stranger.get(there), 404)
        assert not (await at.http.patch(there, json={"shared": False})).json()["shared"]
        for http in (at.colleague, at.viewer):
            await nothing_is_seen_by(http)


async def test_a_stream_of_a_thread_that_is_shared_no_longer_ends(serve):
    goes_on = asyncio.Event()
    async with house(serve, Script([pause_midway(goes_on.wait, text(f"Hear: {SECRET}"))])) as at:
        begun = await says(at, "Tell me", wait=False)
        thread_id = begun["thread_id"]
        await at.http.patch(f"/api/threads/{thread_id}", json={"shared": True})
        heard = asyncio.Event()
        read: list[str] = []

        async def follow():
            path = f"/api/runs/{begun['run_id']}/events"
            async with at.colleague.stream("GET", path, params={"deltas": True}) as answer:
                async for line in answer.aiter_lines():
                    read.append(line)
                    heard.set()

        following = asyncio.create_task(follow())
        await asyncio.wait_for(heard.wait(), 60)
        await at.http.patch(f"/api/threads/{thread_id}", json={"shared": False})
        await asyncio.wait_for(following, 3)  # before a reader would look by itself
        goes_on.set()
        assert SECRET not in "".join(read)


async def test_who_decides_in_a_thread(serve, clone):
    """Where a second person is asked for, one who sees the thread: what they decide, the thread remembers."""

    def stands() -> str:
        columns = "task, status, attached, waiting_call, fencing_token, waiting_for_capacity_since, error"
        jobs = "select task_name, lock, status, attempts from queue.procrastinate_jobs"
        return repr([sql(clone.owner_url, f"select {columns} from public.runs"), sql(clone.owner_url, jobs)])

    async with house(serve, chat_script([extraction_call()], [text("Done.")])) as at:

        async def always_ask(**settings) -> list[bool]:
            await at.http.patch(f"/api/organisations/{at.org}", json=settings)
            received = [await http.get("/api/agent/tools?agent=document") for http in (at.http, at.colleague)]
            return [one.json()["always_ask"] for one in received]

        assert await always_ask() == [False, False]
        assert await always_ask(approvers="owners") == [False, True]
        assert await always_ask(approvers="members", second_person=True) == [True, True]
        first = await says(at, "extract", approval="auto")
        thread_id = first["thread_id"]
        body = {
            "run_id": first["run_id"],
            "approvals": [{"call_id": first["waits_for"]["call_id"], "approved": True}],
            "wait": False,
        }
        refused = problem(await at.http.post("/api/agent/approve", json=body), 403, "second_person_needed")
        assert "share" in refused.casefold()  # otherwise the run would wait forever
        problem(await at.colleague.post("/api/agent/approve", json=body), 404)
        assert (await at.colleague.get("/api/runs", params={"status": "awaiting_approval"})).json()["items"] == []
        await at.http.patch(f"/api/threads/{thread_id}", json={"shared": True})
        (inbox,) = (await at.colleague.get("/api/runs", params={"status": "awaiting_approval"})).json()["items"]
        assert inbox["id"] == first["run_id"]
        problem(await at.viewer.post("/api/agent/approve", json=body), 403, "read_only")
        assert (await at.colleague.post("/api/agent/approve", json=body)).status_code == 202

        # Its part asks too. It is the colleague's, who has had it begun: so whoever began the thread decides it.
        while (turn := await until(lambda: waits_or_ends(at, thread_id), describe=stands))["status"] != "completed":
            assert turn["waiting_run_id"] != first["run_id"] and turn["status"] == "awaiting_runs"
            said = {"call_id": turn["waits_for"]["call_id"], "approved": True}
            body = {"run_id": turn["waiting_run_id"], "approvals": [said], "wait": False}
            problem(await at.colleague.post("/api/agent/approve", json=body), 403, "second_person_needed")
            assert (await at.http.post("/api/agent/approve", json=body)).status_code == 202
        assert (turn["status"], turn["answer"]) == ("completed", "Done.")
        whole = (await at.http.get(f"/api/threads/{thread_id}")).json()
        assert set(whole["working_state"]) == {"extraction_id"}


async def waits_or_ends(at, thread_id: str):
    """The only turn of a thread, when it has ended or a part of it waits for a person."""
    (turn,) = (await at.http.get(f"/api/threads/{thread_id}")).json()["turns"]
    return turn if turn["waits_for"] or turn["status"] == "completed" else None


async def test_a_deleted_thread_ends_what_was_at_work_in_it(serve):
    goes_on = asyncio.Event()
    async with house(serve, Script([pause_midway(goes_on.wait, text("Never heard."))])) as at:
        begun = await says(at, "Tell me", wait=False)
        await until(lambda: at.server.model.requests)
        assert (await at.http.delete(f"/api/threads/{begun['thread_id']}")).status_code == 204
        gone = await at.http.get(f"/api/runs/{begun['run_id']}")
        assert (gone.status_code, gone.json()["code"]) == (404, "not_found")
        goes_on.set()


async def test_a_key_approves_in_advance_only_what_it_may_approve(serve):
    """What an agent approves by itself anyway needs no more than starting it."""
    async with house(serve, chat_script([text("One.")])) as at:
        for scopes, refused in ((["runs:write"], True), (["runs:write", "runs:approve"], False)):
            made = await at.http.post("/api/keys", json={"name": "k", "scopes": scopes})
            async with at.server.client_with_token(made.json()["key"]) as key:
                for more in ({"auto_approved_tools": ["delete_document"]}, {"approval": "auto"}):
                    body = {"document_id": at.document, "message": "Delete it", "wait": False, **more}
                    answer = await key.post("/api/agent/chat", json=body)
                    if refused:
                        problem(answer, 403, "scope_missing")
                    else:
                        assert answer.status_code == 202, answer.text
                for task, more in (("chat", {"message": "Hello"}), ("extract", {"approval": "auto"})):
                    body = {"document_id": at.document, "wait": False, **more}
                    assert (await key.post(f"/api/agent/{task}", json=body)).status_code == 202


async def test_of_two_tabs_the_second_message_waits_and_says_so(serve):
    goes_on = asyncio.Event()
    async with house(serve, chat_script(pause_midway(goes_on.wait, text("One.")), *[[text("Two.")]] * 2)) as at:
        thread = (await at.http.post("/api/threads", json={"document_id": at.document})).json()["id"]
        first = await says(at, "One?", thread, wait=False)
        await until(lambda: at.server.model.requests)
        assert first["waits_behind"] is None
        second = await says(at, "Two?", thread, wait=False)
        third = await says(at, "Three?", thread, wait=False)
        assert (second["waits_behind"], third["waits_behind"]) == (first["run_id"], second["run_id"])
        assert (second["status"], second["thread_id"]) == ("queued", thread)
        seen = (await at.http.get(f"/api/runs/{second['run_id']}")).json()
        assert seen["waits_behind"] == first["run_id"]
        listed = (await at.http.get("/api/runs", params={"limit": 2})).json()["items"]
        assert [one["waits_behind"] for one in listed] == [second["run_id"], first["run_id"]]
        received: list[str] = []
        async with at.http.stream("GET", f"/api/runs/{second['run_id']}/events") as answer:
            async for line in answer.aiter_lines():
                received.append(line)
                if '"waiting"' in line:
                    assert json.loads(line[6:]) == {"type": "waiting", "run_id": first["run_id"]}
                    goes_on.set()
        place = next(n for n, line in enumerate(received) if '"waiting"' in line)
        assert received[place + 1] == ""  # no id: it is not kept
        assert "waiting" not in [one["type"] for one in await events_of(at.http, second["run_id"])]
        assert '"Two."' in "".join(received)
        ended = (await at.http.get(f"/api/runs/{second['run_id']}")).json()
        assert (ended["status"], ended["waits_behind"]) == ("completed", None)
