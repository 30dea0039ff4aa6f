"""/api/threads: what the creator may do, and what others see of private and shared threads."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace
from uuid import UUID, uuid4

import pytest
from answers import assert_problem
from members import create_org, new_member

from extraction_case import sql, until
from fieldmark.errors import NotFound
from fieldmark.identity.scope import Scope
from fieldmark.offline_model.messages import call, text
from fieldmark.runs.events.follow import follow
from fieldmark.testing.script import Script, pause_midway
from running_server import PATIENCE
from two_agent_model import chat_script, extraction_call

pytestmark = pytest.mark.anyio

SECRET = "the heron flies at dawn"


@asynccontextmanager
async def open_team(serve, answer, **settings):
    """Yield clients of a member, a colleague and a viewer of one organisation, and a document."""
    async with serve(answer, **settings) as server:
        org = await create_org(server.http)
        server.http.headers["x-org-id"] = org
        document = str(await server.upload_text())
        async with (
            new_member(server, org, "member") as (colleague, colleague_id),
            new_member(server, org, "viewer") as (viewer, _),
        ):
            scope = Scope(colleague_id, UUID(org))
            yield SimpleNamespace(
                server=server, http=server.http, colleague=colleague, viewer=viewer, document=document, org=org,
                colleague_scope=scope,
            )  # fmt: skip


async def send_chat(team, message: str, thread_id: str | None = None, http=None, **more) -> dict:
    about = {"document_id": team.document} if thread_id is None else {"thread_id": thread_id}
    body = {**about, "message": message, **more}
    answer = await (http or team.http).post("/api/agent/chat", json=body)
    assert answer.status_code in (200, 202), answer.text
    return answer.json()


async def get_events(http, run_id: str) -> list[dict]:
    answer = await http.get(f"/api/runs/{run_id}/events")
    assert answer.status_code == 200, answer.text
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


async def test_thread_is_created_listed_renamed_and_deleted(serve):
    async with open_team(serve, chat_script()) as team:
        answer = await team.http.post("/api/threads", json={"document_id": team.document, "title": "First"})
        assert answer.status_code == 201, answer.text
        first = answer.json()
        assert first["mine"] and not first["shared"] and first["document_id"] == team.document
        second = (await team.http.post("/api/threads", json={"document_id": team.document})).json()
        listed = (await team.http.get("/api/threads", params={"limit": 1})).json()
        assert [one["id"] for one in listed["items"]] == [second["id"]] and second["title"] is None
        rest = (await team.http.get("/api/threads", params={"before": listed["next"]})).json()
        assert ([one["id"] for one in rest["items"]], rest["next"]) == ([first["id"]], None)
        for query, count in (
            ({"document_id": team.document}, 2),
            ({"document_id": str(uuid4())}, 0),
            ({"agent": first["agent"]}, 2),
            ({"agent": "extraction"}, 0),
            ({"mine": True}, 2),
            ({"mine": False}, 0),
        ):
            assert len((await team.http.get("/api/threads", params=query)).json()["items"]) == count, query

        url = f"/api/threads/{first['id']}"
        assert (await team.http.patch(url, json={"title": "Second"})).json()["title"] == "Second"
        assert (await team.http.patch(url, json={})).json()["title"] == "Second"
        assert (await team.http.patch(url, json={"title": None, "shared": True})).json()["title"] is None
        thread = (await team.http.get(url)).json()
        assert (thread["turns"], thread["next"], thread["working_state"], thread["shared"]) == ([], None, {}, True)
        assert (await team.http.delete(url)).status_code == 204
        assert_problem(await team.http.get(url), 404)
        assert_problem(await team.http.delete(url), 404)


async def test_invalid_thread_requests_are_refused(serve):
    async with open_team(serve, chat_script()) as team:
        assert_problem(await team.http.post("/api/threads", json={"document_id": str(uuid4())}), 404)
        assert_problem(
            await team.http.post("/api/threads", json={"document_id": team.document, "agent": "extraction"}), 404
        )
        assert_problem(await team.viewer.post("/api/threads", json={"document_id": team.document}), 403, "read_only")
        async with team.server.client() as stranger:
            assert_problem(await stranger.post("/api/threads", json={"document_id": team.document}), 404)
        thread = (await team.http.post("/api/threads", json={"document_id": team.document})).json()
        for title in ("", "a\nb", "\0"):
            assert_problem(
                await team.http.post("/api/threads", json={"document_id": team.document, "title": title}), 422
            )
            assert_problem(await team.http.patch(f"/api/threads/{thread['id']}", json={"title": title}), 422)
        assert_problem(await team.http.patch(f"/api/threads/{thread['id']}", json={"created_by": str(uuid4())}), 422)
        assert_problem(await team.http.get("/api/threads", params={"before": "x"}), 422)
        assert_problem(await team.http.get(f"/api/threads/{thread['id']}", params={"before": "x"}), 422)


async def test_turns_are_listed_newest_first(serve, clone):
    second_turn = [text("I look \0."), call("list_tags")], [text("I look again."), call("list_tags")], [text("Two.")]
    async with open_team(serve, chat_script([text("One.")], *second_turn)) as team:
        first = await send_chat(team, "  Say\none \u202e")
        thread_id = first["thread_id"]
        second = await send_chat(team, "And two", thread_id)
        third = await send_chat(team, "And what the script lacks", thread_id)
        assert [one["status"] for one in (first, second, third)] == ["completed", "completed", "failed"]
        sql(  # an incomplete UTF-16 pair, as a model may send it
            clone.owner_url,
            """insert into public.run_events (run_id, number, org_id, body)
               select id, 1000, org_id, '{"type": "text", "text": "\\ud800"}' from public.runs where id = %s""",
            third["run_id"],
        )
        thread = (await team.http.get(f"/api/threads/{thread_id}", params={"limit": 2})).json()
        assert thread["title"] == "Say one"
        turns = [
            (turn["run_id"], turn["message"], turn["earlier_texts"], turn["answer"], turn["status"])
            for turn in thread["turns"]
        ]
        assert turns == [
            (third["run_id"], "And what the script lacks", ["?"], None, "failed"),
            (second["run_id"], "And two", ["I look \0.", "I look again."], "Two.", "completed"),
        ]
        assert thread["turns"][0]["error_code"] == third["code"] and thread["turns"][0]["mentions"] == []
        rest = (await team.http.get(f"/api/threads/{thread_id}", params={"before": thread["next"]})).json()
        assert [turn["message"] for turn in rest["turns"]] == ["  Say\none \u202e"] and rest["next"] is None


async def test_private_thread_and_its_runs_are_hidden_and_sharing_takes_effect_at_once(serve):
    turns = chat_script([extraction_call()], [text(SECRET)], [extraction_call()])
    async with open_team(serve, turns) as team:
        first = await send_chat(team, SECRET)
        thread_id = first["thread_id"]
        approval = {"call_id": first["waits_for"]["call_id"], "approved": True}
        decided = await team.http.post("/api/agent/approve", json={"run_id": first["run_id"], "approvals": [approval]})
        assert decided.json()["answer"] == SECRET, decided.text
        second = await send_chat(team, SECRET, thread_id)
        assert second["status"] == "awaiting_approval"
        received = await get_events(team.http, first["run_id"])
        child = next(one["run_id"] for one in received if one["type"] == "child")
        url, runs = f"/api/threads/{thread_id}", (first["run_id"], second["run_id"], child)
        waiting = {"call_id": second["waits_for"]["call_id"], "approved": True}
        decision = {"run_id": second["run_id"], "approvals": [waiting]}

        async def assert_hidden_from(http):
            assert SECRET not in (await http.get("/api/threads")).text
            assert_problem(await http.get(url), 404)
            for one in runs:
                assert_problem(await http.get(f"/api/runs/{one}"), 404)
                assert_problem(await http.get(f"/api/runs/{one}/events"), 404)
            listed = await http.get("/api/runs", params={"status": "awaiting_approval"})
            assert listed.json()["items"] == []
            if http is team.colleague:
                assert_problem(await http.post(f"/api/runs/{runs[1]}/cancel"), 404)
                assert_problem(await http.patch(url, json={"shared": True}), 404)
                assert_problem(await http.delete(url), 404)
                assert_problem(await http.post("/api/agent/approve", json=decision), 404)
                body = {"document_id": team.document, "message": "Go on", "thread_id": thread_id}
                assert_problem(await http.post("/api/agent/chat", json=body), 404)

        for http in (team.colleague, team.viewer):
            await assert_hidden_from(http)
        assert (await team.http.patch(url, json={"shared": True})).json()["shared"]
        for http in (team.colleague, team.viewer):
            (seen,) = (await http.get("/api/threads", params={"mine": False})).json()["items"]
            assert seen["id"] == thread_id and not seen["mine"]
            whole = (await http.get(url)).json()
            assert [turn["message"] for turn in whole["turns"]] == [SECRET, SECRET]
            assert whole["turns"][0]["waits_for"]["call_id"] == waiting["call_id"]
            assert whole["turns"][0]["waiting_run_id"] == second["run_id"]
            assert set(whole["working_state"]) == {"extraction_id"}  # no text of the conversation
            for one in runs:
                assert (await http.get(f"/api/runs/{one}")).status_code == 200
                assert await get_events(http, one)
        # Only the creator may change or continue the thread.
        assert_problem(await team.colleague.patch(url, json={"shared": False}), 403, "forbidden")
        assert_problem(await team.colleague.delete(url), 403, "forbidden")
        body = {"document_id": team.document, "message": "Go on", "thread_id": thread_id}
        assert_problem(await team.colleague.post("/api/agent/chat", json=body), 404)
        assert_problem(await team.colleague.post("/api/agent/approve", json=decision), 404)
        async with team.server.client() as stranger:
            assert_problem(await stranger.get(url), 404)
        assert not (await team.http.patch(url, json={"shared": False})).json()["shared"]
        for http in (team.colleague, team.viewer):
            await assert_hidden_from(http)


async def test_stream_of_a_colleague_ends_when_sharing_ends(serve):
    released = asyncio.Event()
    async with open_team(serve, Script([pause_midway(released.wait, text(f"Hear: {SECRET}"))])) as team:
        started = await send_chat(team, "Answer", wait=False)
        thread_id = started["thread_id"]
        await team.http.patch(f"/api/threads/{thread_id}", json={"shared": True})
        received: list[str] = []

        async def read() -> None:
            database, run_id = team.server.runtime.database, UUID(started["run_id"])
            events = follow(database, team.colleague_scope, run_id, deltas=True, poll_seconds=600)
            async for event in events:
                received.append(str(event))  # noqa: PERF401  read while they arrive

        reader = asyncio.create_task(read())
        await until(lambda: received)
        await team.http.patch(f"/api/threads/{thread_id}", json={"shared": False})
        with pytest.raises(NotFound):
            await asyncio.wait_for(reader, PATIENCE)  # less than the polling interval
        released.set()
        assert SECRET not in "".join(received)


async def test_second_person_decides_in_a_shared_thread(serve, clone):
    def describe_state() -> str:
        columns = "task, status, attached, waiting_call, fencing_token, waiting_for_capacity_since, error"
        jobs = "select task_name, lock, status, attempts from queue.procrastinate_jobs"
        return repr([sql(clone.owner_url, f"select {columns} from public.runs"), sql(clone.owner_url, jobs)])

    async with open_team(serve, chat_script([extraction_call()], [text("Done.")])) as team:

        async def always_ask(**settings) -> list[bool]:
            await team.http.patch(f"/api/organisations/{team.org}", json=settings)
            received = [await http.get("/api/agent/tools?agent=document") for http in (team.http, team.colleague)]
            return [one.json()["always_ask"] for one in received]

        assert await always_ask() == [False, False]
        assert await always_ask(approvers="owners") == [False, True]
        assert await always_ask(approvers="members", second_person=True) == [True, True]
        first = await send_chat(team, "extract", approval="auto")
        thread_id = first["thread_id"]
        body = {
            "run_id": first["run_id"],
            "approvals": [{"call_id": first["waits_for"]["call_id"], "approved": True}],
            "wait": False,
        }
        assert_problem(await team.http.post("/api/agent/approve", json=body), 403, "second_person_needed")
        assert_problem(await team.colleague.post("/api/agent/approve", json=body), 404)
        assert (await team.colleague.get("/api/runs", params={"status": "awaiting_approval"})).json()["items"] == []
        await team.http.patch(f"/api/threads/{thread_id}", json={"shared": True})
        (waiting_run,) = (await team.colleague.get("/api/runs", params={"status": "awaiting_approval"})).json()["items"]
        assert waiting_run["id"] == first["run_id"]
        assert_problem(await team.viewer.post("/api/agent/approve", json=body), 403, "read_only")
        assert (await team.colleague.post("/api/agent/approve", json=body)).status_code == 202

        # The child run asks too. The creator of the thread started the run above it, so the colleague decides again.
        while (turn := await until(lambda: get_decidable_turn(team, thread_id), describe=describe_state))[
            "status"
        ] != "completed":
            assert turn["waiting_run_id"] != first["run_id"] and turn["status"] == "awaiting_runs"
            approval = {"call_id": turn["waits_for"]["call_id"], "approved": True}
            body = {"run_id": turn["waiting_run_id"], "approvals": [approval], "wait": False}
            assert_problem(await team.http.post("/api/agent/approve", json=body), 403, "second_person_needed")
            assert (await team.colleague.post("/api/agent/approve", json=body)).status_code == 202
        assert (turn["status"], turn["answer"]) == ("completed", "Done.")
        whole = (await team.http.get(f"/api/threads/{thread_id}")).json()
        assert set(whole["working_state"]) == {"extraction_id"}


async def get_decidable_turn(team, thread_id: str):
    """Return the only turn of a thread once it has ended or waits for a decision; otherwise None."""
    (turn,) = (await team.http.get(f"/api/threads/{thread_id}")).json()["turns"]
    return turn if turn["waits_for"] or turn["status"] == "completed" else None


async def test_deleting_a_thread_deletes_its_running_run(serve):
    released = asyncio.Event()
    async with open_team(serve, Script([pause_midway(released.wait, text("Never heard."))])) as team:
        started = await send_chat(team, "Answer", wait=False)
        await until(lambda: team.server.model.requests)
        assert (await team.http.delete(f"/api/threads/{started['thread_id']}")).status_code == 204
        gone = await team.http.get(f"/api/runs/{started['run_id']}")
        assert (gone.status_code, gone.json()["code"]) == (404, "not_found")
        released.set()


async def test_auto_approval_by_a_key_needs_the_scope_to_approve(serve):
    async with open_team(serve, chat_script([text("One.")])) as team:
        for scopes, is_refused in ((["runs:write"], True), (["runs:write", "runs:approve"], False)):
            created = await team.http.post("/api/keys", json={"name": "k", "scopes": scopes})
            async with team.server.client_with_token(created.json()["key"]) as key:
                for more in ({"auto_approved_tools": ["delete_document"]}, {"approval": "auto"}):
                    body = {"document_id": team.document, "message": "Delete it", "wait": False, **more}
                    answer = await key.post("/api/agent/chat", json=body)
                    if is_refused:
                        assert_problem(answer, 403, "scope_missing")
                    else:
                        assert answer.status_code == 202, answer.text
                for task, more in (("chat", {"message": "Hello"}), ("extract", {"approval": "auto"})):
                    body = {"document_id": team.document, "wait": False, **more}
                    assert (await key.post(f"/api/agent/{task}", json=body)).status_code == 202


async def test_of_two_tabs_the_second_message_waits_and_says_so(serve):
    goes_on = asyncio.Event()
    async with open_team(serve, chat_script(pause_midway(goes_on.wait, text("One.")), *[[text("Two.")]] * 2)) as team:
        thread = (await team.http.post("/api/threads", json={"document_id": team.document})).json()["id"]
        first = await send_chat(team, "One?", thread, wait=False)
        await until(lambda: team.server.model.requests)
        assert first["waits_behind"] is None
        second = await send_chat(team, "Two?", thread, wait=False)
        third = await send_chat(team, "Three?", thread, wait=False)
        assert (second["waits_behind"], third["waits_behind"]) == (first["run_id"], second["run_id"])
        assert (second["status"], second["thread_id"]) == ("queued", thread)
        seen = (await team.http.get(f"/api/runs/{second['run_id']}")).json()
        assert seen["waits_behind"] == first["run_id"]
        listed = (await team.http.get("/api/runs", params={"limit": 2})).json()["items"]
        assert [one["waits_behind"] for one in listed] == [second["run_id"], first["run_id"]]
        received: list[str] = []
        async with team.http.stream("GET", f"/api/runs/{second['run_id']}/events") as answer:
            async for line in answer.aiter_lines():
                received.append(line)
                if '"waiting"' in line:
                    assert json.loads(line[6:]) == {"type": "waiting", "run_id": first["run_id"]}
                    goes_on.set()
        place = next(n for n, line in enumerate(received) if '"waiting"' in line)
        assert received[place + 1] == ""  # no id: it is not kept
        assert "waiting" not in [one["type"] for one in await get_events(team.http, second["run_id"])]
        assert '"Two."' in "".join(received)
        ended = (await team.http.get(f"/api/runs/{second['run_id']}")).json()
        assert (ended["status"], ended["waits_behind"]) == ("completed", None)
