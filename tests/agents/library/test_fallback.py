"""What a question comes to whose agent gives no answer: the model is asked once more, about the best passages, and
where that proves nothing the passages themselves are the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import psycopg
import pytest

from agents.library.test_asking import INTENT, READ, ask, cite, events_of, put_survey, submit, thread_of
from extraction_case import sql, tool_results, until
from fieldmark.agents.library.agent import ASK, LIBRARY
from fieldmark.agents.registry import registered
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script, http_error, repeat_forever, stall_connection
from running_server import METRICS_TOKEN

pytestmark = pytest.mark.anyio

SEARCH = call("search_documents", {"query": "roof"})
STOPS = [[text("It leaks, I believe.")]]


def is_last_question(body: Any) -> bool:
    return "this is the last time that you are asked" in json.dumps(body["messages"][0])


def last(answer: str, quote: str) -> Callable[[Any], list[Any]]:
    """The one call that the last question wants."""

    def step(body: Any) -> list[Any]:
        content = body["messages"][0]["content"]
        said = content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
        blocks = re.findall(r"^\[([0-9a-f]{12}-\d+-\d+)\] (.*)$", said, re.MULTILINE)
        block = next(one for one, words in blocks if "roof leaks" in words)
        return [submit(answer, citations=[{"number": 1, "block_id": block, "quote": quote}])]

    return step


LEAKS = last("It leaks [1].", "The roof leaks")


def model(agent: Any, at_last: Any = LEAKS) -> Callable[[Any], Awaitable[Any]]:
    """A model that follows one script, and another when it is asked for the last time."""
    first, second = Script(agent), Script([at_last])

    async def answers(body: Any) -> Any:
        return await (second if is_last_question(body) else first)(body)

    return answers


@contextmanager
def time_for_a_question(seconds: int, last_seconds: int) -> Iterator[None]:
    """Less time than a question has; `last_seconds` of it are for the last question."""
    assert ASK.last_question is not None
    task = replace(ASK, seconds=seconds, last_question=replace(ASK.last_question, seconds=last_seconds))
    with registered(replace(LIBRARY, tasks={ASK.name: task})):
        yield


async def test_model_without_answer_is_asked_again_with_the_best_passages(serve):
    async with serve(model(STOPS, last("It leaks at the chimney [1].", "The roof leaks at the chimney."))) as server:
        document_id = await put_survey(server)
        result = await ask(server.http)
        assert result["status"] == "completed", result
        reply = result["result"]
        assert reply["answer"] == "It leaks at the chimney [1]."
        assert (reply["fallback"]["code"], reply["fallback"]["by_model"]) == ("agent_stopped", True)
        (source,) = reply["sources"]
        assert source["document_id"] == document_id and source["boxes"]
        assert reply["effort"]["model_calls"] == 2 and reply["effort"]["searches"] == 1 == reply["effort"]["reads"]
        events = await events_of(server.http, result)
        steps = [one["tool_result"] for one in events if one.get("status") == "complete"]
        assert steps == ["search_documents", "read_multiple_documents", "submit_answer"]
        assert [one["citation"]["number"] for one in events if one["type"] == "citation"] == [1]
        assert (await thread_of(server.http, result))["working_state"]["turns"] == 1
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {METRICS_TOKEN}"}) as http:
            said = (await http.get(f"{server.base_url}/metrics")).text
        assert 'fieldmark_fallbacks_total{agent="library",by="model",code="agent_stopped"} 1.0' in said


@pytest.mark.parametrize(
    ("agent", "at_last", "code"),
    [
        (STOPS, last("It is sound [1].", "The roof is sound."), "agent_stopped"),
        (STOPS, last("It leaks in 7 places [1].", "The roof leaks"), "agent_stopped"),
        (STOPS, [text("It leaks.")], "agent_stopped"),
        (STOPS, [READ], "agent_stopped"),
        ([http_error(401)], None, "model_refused_key"),  # a model that cannot be asked is not asked once more
    ],
)
async def test_unproven_answer_to_the_last_question_is_not_given(serve, agent, at_last, code):
    async with serve(model(agent, at_last)) as server:
        await put_survey(server)
        result = await ask(server.http)
        reply = result["result"]
        assert (result["status"], result["code"], reply["confidence"]) == ("completed", None, 0)
        assert (reply["fallback"]["code"], reply["fallback"]["by_model"]) == (code, False)
        assert "roof leaks" in reply["sources"][0]["quote"] and reply["sources"][0]["boxes"]
        assert result["answer"] == reply["answer"] and "[1]" in reply["answer"]
        assert any(map(is_last_question, server.model.requests)) is (at_last is not None)


async def test_model_is_asked_again_after_two_invalid_answers(serve):
    wrong = [[INTENT], [submit("It leaks.")], [submit("It leaks.")]]
    async with serve(model(wrong)) as server:
        await put_survey(server)
        reply = (await ask(server.http))["result"]
        assert (reply["fallback"]["code"], reply["fallback"]["by_model"]) == ("answer_invalid", True)


async def test_search_mode_answers_without_a_model(serve):
    async with serve(Script([])) as server:
        await put_survey(server)
        result = await ask(server.http, mode="search")
        reply = result["result"]
        assert (result["status"], reply["fallback"]["code"], reply["fallback"]["by_model"]) == (
            *("completed", "search_only"),
            False,
        )
        assert "roof leaks" in reply["sources"][0]["quote"] and server.model.requests == []
        state = (await thread_of(server.http, result))["working_state"]
        assert (state["turns"], state["intent"], state["next_step"]) == (1, "search", "search")
        assert [one.startswith("Turn 1: ") for one in state["actions"]] == [True] * 3
        assert "Does the roof leak?" in state["actions"][1] and "passages: 1" in state["actions"][2]


@pytest.mark.parametrize("agent", [STOPS, [[INTENT], [submit("It leaks.")], [submit("It leaks.")]]])
async def test_question_without_answer_fails_if_the_fallback_is_off(serve, agent):
    async with serve(model(agent), ask_fallback=False) as server:
        await put_survey(server)
        result = await ask(server.http)
        assert (result["status"], result["code"], result["result"]) == ("failed", "agent_stopped", None)
        assert not any(map(is_last_question, server.model.requests))
        state = (await thread_of(server.http, result))["working_state"]
        assert (state["conversation"][0]["failed"], state["turns"]) == ("agent_stopped", 1)
        assert state["intent"] == (None if agent is STOPS else "qa")
        assert state["actions"][-1] == "Turn 1: failed: agent_stopped"
        assert ("Turn 1: understood as qa" in state["actions"]) == (agent is not STOPS)


async def test_cancelled_question_leaves_what_was_done_and_how_it_ended(serve, clone):
    script = Script([[INTENT], [SEARCH]])

    async def cancels_after_the_first_call(body: Any) -> Any:
        if tool_results(body):
            (run,) = sql(clone.owner_url, "select id from public.runs")
            assert (await server.http.post(f"/api/runs/{run['id']}/cancel")).status_code == 202
        return await script(body)

    async with serve(cancels_after_the_first_call) as server:
        result = await ask(server.http)
        assert result["status"] == "cancelled"

        async def actions() -> list[str]:
            return (await thread_of(server.http, result))["working_state"].get("actions", [])

        await until(actions)
        assert await actions() == ["Turn 1: understood as qa", "Turn 1: failed: cancelled"]


async def test_no_last_question_without_matching_passages(serve):
    async with serve(Script(STOPS)) as server:
        reply = (await ask(server.http, "Are there dragons?"))["result"]
        assert reply["sources"] == [] and not reply["fallback"]["by_model"]
        assert not any(map(is_last_question, server.model.requests))


async def test_last_question_is_asked_after_the_round_limit(serve):
    async with serve(model([[INTENT], repeat_forever([SEARCH])])) as server:
        await put_survey(server)
        result = await ask(server.http, max_turns=6)
        reply = result["result"]
        assert (reply["fallback"]["code"], reply["fallback"]["by_model"]) == ("max_turns", True), reply
        assert result["usage"]["turns"] <= 6


@pytest.mark.parametrize(("at_last", "by_model"), [(LEAKS, True), (stall_connection(600), False)])
async def test_last_question_is_asked_in_reserved_time_at_the_deadline(serve, at_last, by_model):
    seconds = (16, 6) if by_model else (8, 3)
    with time_for_a_question(*seconds):
        async with serve(model([[INTENT, READ], stall_connection(600)], at_last), max_live_agents=8) as server:
            await put_survey(server)
            reply = (await ask(server.http))["result"]
    assert (reply["fallback"]["code"], reply["fallback"]["by_model"]) == ("deadline", by_model)
    assert "roof leaks" in reply["sources"][0]["quote"]


@pytest.mark.long
async def test_busy_model_service_is_retried_for_a_limited_time(serve):
    busy = [http_error(429, 0.1), [INTENT, READ], http_error(529, 0.1), cite(1, "The roof leaks")]
    for steps, code in (([*busy, [submit("It leaks [1].")]], None), ([[INTENT], *[http_error(429, 0.1)] * 9], "busy")):
        async with serve(Script(steps)) as server:
            await put_survey(server)
            reply = (await ask(server.http))["result"]
            assert reply["fallback"] is code is None or reply["fallback"]["code"] == "model_busy"


def breaking(clone: Any, step: Any) -> Callable[[Any], Any]:
    """A step of the model before which search loses a table."""

    def breaks(body: Any) -> Any:
        sql(clone.owner_url, "alter table if exists private.search_orgs rename to search_orgs_gone")
        return step

    return breaks


async def test_tool_failure_or_timeout_is_reported_to_the_model_and_the_run_continues(serve, clone):
    held = psycopg.connect(clone.owner_url)

    def hold(body: Any) -> list[Any]:
        held.execute("lock table private.search_orgs in access exclusive mode")
        return [SEARCH]

    def go_on(body: Any) -> Any:
        held.rollback()
        return breaking(clone, [call("search_documents", {"query": "chimney"}), READ])(body)

    script = Script([[INTENT], hold, go_on, cite(1, "The roof leaks"), [submit("It leaks [1].")]])
    async with serve(script, tool_seconds=1) as server:
        await put_survey(server)
        result = await ask(server.http)
        assert result["result"]["fallback"] is None and result["result"]["sources"], result
        said = " ".join(said for said, _ in tool_results(server.model.requests[-1]))
        assert '"tool_timeout"' in said and '"internal"' in said
    held.close()


async def test_run_ends_even_if_the_fallback_search_fails(serve, clone):
    async with serve(Script([[INTENT], repeat_forever(breaking(clone, [text("I cannot say.")]))])) as server:
        await put_survey(server)
        result = await ask(server.http)
        assert result["status"] == "completed", result
        reply = result["result"]
        assert reply["fallback"]["code"] == "agent_stopped" and reply["sources"] == []
        assert len(server.model.requests) == 2  # nobody begins anew
