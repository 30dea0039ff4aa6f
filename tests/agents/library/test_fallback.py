"""Fallback for questions without a valid answer: the model is asked again about the best passages. If that fails,
the passages are the answer."""

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

from agents.library.test_asking import INTENT, READ, ask, cite, get_events, get_thread, submit_answer, upload_survey
from extraction_case import sql, tool_results, until
from fieldmark.agents.library.agent import ASK, LIBRARY
from fieldmark.agents.registry import registered
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script, http_error, repeat_forever, stall_connection
from running_server import METRICS_TOKEN

pytestmark = pytest.mark.anyio

SEARCH = call("search_documents", {"query": "roof"})
STOPS_WITHOUT_ANSWER = [[text("It leaks, I believe.")]]


def is_last_question(body: Any) -> bool:
    """Return whether the first message contains passages with block ids."""
    return re.search(r"\[[0-9a-f]{12}-\d+-\d+\] ", json.dumps(body["messages"][0])) is not None


def answer_last_question(answer: str, quote: str) -> Callable[[Any], list[Any]]:
    """Return a step that answers the last question, citing this quote."""

    def step(body: Any) -> list[Any]:
        content = body["messages"][0]["content"]
        text = content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
        blocks = re.findall(r"^\[([0-9a-f]{12}-\d+-\d+)\] (.*)$", text, re.MULTILINE)
        block = next(one for one, block_text in blocks if "roof leaks" in block_text)
        return [submit_answer(answer, citations=[{"number": 1, "block_id": block, "quote": quote}])]

    return step


VALID_LAST_ANSWER = answer_last_question("It leaks [1].", "The roof leaks")


class ChangingModel:
    """A model that a test gives other answers before each question, so that all are asked of one service."""

    def __init__(self) -> None:
        self.answers: Callable[[Any], Awaitable[Any]] = Script([])

    async def __call__(self, body: Any) -> Any:
        return await self.answers(body)


def script_with_last_question(agent: Any, last_answer: Any = VALID_LAST_ANSWER) -> Callable[[Any], Awaitable[Any]]:
    """Return a model with one script, and another step for the last question."""
    first, second = Script(agent), Script([last_answer])

    async def answers(body: Any) -> Any:
        return await (second if is_last_question(body) else first)(body)

    return answers


@contextmanager
def limit_question_seconds(seconds: int, last_seconds: int) -> Iterator[None]:
    """Reduce the time of a question; `last_seconds` of it are reserved for the last question."""
    assert ASK.last_question is not None
    task = replace(ASK, seconds=seconds, last_question=replace(ASK.last_question, seconds=last_seconds))
    with registered(replace(LIBRARY, tasks={ASK.name: task})):
        yield


async def test_model_without_answer_is_asked_again_with_the_best_passages(serve):
    async with serve(
        script_with_last_question(
            STOPS_WITHOUT_ANSWER, answer_last_question("It leaks at the chimney [1].", "The roof leaks at the chimney.")
        )
    ) as server:
        document_id = await upload_survey(server)
        result = await ask(server.http)
        assert result["status"] == "completed", result
        reply = result["result"]
        assert reply["answer"] == "It leaks at the chimney [1]."
        assert (reply["fallback"]["code"], reply["fallback"]["by_model"]) == ("agent_stopped", True)
        (source,) = reply["sources"]
        assert source["document_id"] == document_id and source["boxes"]
        assert reply["effort"]["model_calls"] == 2 and reply["effort"]["searches"] == 1 == reply["effort"]["reads"]
        events = await get_events(server.http, result)
        steps = [one["tool_result"] for one in events if one.get("status") == "complete"]
        assert steps == ["search_documents", "read_multiple_documents", "submit_answer"]
        assert [one["citation"]["number"] for one in events if one["type"] == "citation"] == [1]
        assert (await get_thread(server.http, result))["working_state"]["turns"] == 1
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {METRICS_TOKEN}"}) as http:
            said = (await http.get(f"{server.base_url}/metrics")).text
        assert 'fieldmark_fallbacks_total{agent="library",by="model",code="agent_stopped"} 1.0' in said


async def test_unproven_answer_to_the_last_question_is_rejected(serve):
    model = ChangingModel()
    async with serve(model) as server:
        await upload_survey(server)
        for agent, last_answer, code in (
            (STOPS_WITHOUT_ANSWER, answer_last_question("It is sound [1].", "The roof is sound."), "agent_stopped"),
            (
                STOPS_WITHOUT_ANSWER,
                answer_last_question("It leaks in 7 places [1].", "The roof leaks"),
                "agent_stopped",
            ),
            (STOPS_WITHOUT_ANSWER, [text("It leaks.")], "agent_stopped"),
            (STOPS_WITHOUT_ANSWER, [READ], "agent_stopped"),
            ([http_error(401)], None, "model_refused_key"),  # no second request
        ):
            server.model.requests.clear()
            model.answers = script_with_last_question(agent, last_answer)
            result = await ask(server.http)
            reply = result["result"]
            assert (result["status"], result["code"], reply["confidence"]) == ("completed", None, 0)
            assert (reply["fallback"]["code"], reply["fallback"]["by_model"]) == (code, False)
            assert "roof leaks" in reply["sources"][0]["quote"] and reply["sources"][0]["boxes"]
            assert result["answer"] == reply["answer"] and "[1]" in reply["answer"]
            assert any(map(is_last_question, server.model.requests)) is (last_answer is not None)


async def test_model_is_asked_again_after_two_invalid_answers(serve):
    wrong = [[INTENT], [submit_answer("It leaks.")], [submit_answer("It leaks.")]]
    async with serve(script_with_last_question(wrong)) as server:
        await upload_survey(server)
        reply = (await ask(server.http))["result"]
        assert (reply["fallback"]["code"], reply["fallback"]["by_model"]) == ("answer_invalid", True)


async def test_search_mode_answers_without_a_model(serve):
    async with serve(Script([])) as server:
        await upload_survey(server)
        result = await ask(server.http, mode="search")
        reply = result["result"]
        assert (result["status"], reply["fallback"]["code"], reply["fallback"]["by_model"]) == (
            *("completed", "search_only"),
            False,
        )
        assert "roof leaks" in reply["sources"][0]["quote"] and server.model.requests == []
        state = (await get_thread(server.http, result))["working_state"]
        assert (state["turns"], state["intent"], state["next_step"]) == (1, "search", "search")
        assert [one.startswith("Turn 1: ") for one in state["actions"]] == [True] * 3
        assert "Does the roof leak?" in state["actions"][1] and "passages: 1" in state["actions"][2]


async def test_question_without_answer_fails_if_the_fallback_is_off(serve):
    model = ChangingModel()
    invalid = [[INTENT], [submit_answer("It leaks.")], [submit_answer("It leaks.")]]
    async with serve(model, ask_fallback=False) as server:
        await upload_survey(server)
        for agent, intent in ((STOPS_WITHOUT_ANSWER, None), (invalid, "qa")):
            model.answers = script_with_last_question(agent)
            result = await ask(server.http)
            assert (result["status"], result["code"], result["result"]) == ("failed", "agent_stopped", None)
            state = (await get_thread(server.http, result))["working_state"]
            assert (state["conversation"][0]["failed"], state["turns"]) == ("agent_stopped", 1)
            assert state["intent"] == intent
            assert state["actions"][-1] == "Turn 1: failed: agent_stopped"
            assert ("Turn 1: understood as qa" in state["actions"]) == (intent is not None)
        assert not any(map(is_last_question, server.model.requests))


async def test_cancelled_question_keeps_its_actions(serve, clone):
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
            return (await get_thread(server.http, result))["working_state"].get("actions", [])

        await until(actions)
        assert await actions() == ["Turn 1: understood as qa", "Turn 1: failed: cancelled"]


async def test_no_last_question_without_matching_passages(serve):
    async with serve(Script([[text("There are 3 dragons.")]])) as server:
        reply = (await ask(server.http, "Are there dragons?"))["result"]
        assert reply["sources"] == [] and not reply["fallback"]["by_model"]
        assert not any(map(is_last_question, server.model.requests))


async def test_last_question_is_asked_after_the_round_limit(serve):
    async with serve(script_with_last_question([[INTENT], repeat_forever([SEARCH])])) as server:
        await upload_survey(server)
        result = await ask(server.http, max_turns=6)
        reply = result["result"]
        assert (reply["fallback"]["code"], reply["fallback"]["by_model"]) == ("max_turns", True), reply
        assert result["usage"]["turns"] <= 6


@pytest.mark.parametrize(("last_answer", "by_model"), [(VALID_LAST_ANSWER, True), (stall_connection(600), False)])
async def test_last_question_is_asked_in_reserved_time_at_the_deadline(serve, last_answer, by_model):
    seconds = (20, 9) if by_model else (5, 2)
    with limit_question_seconds(*seconds):
        async with serve(
            script_with_last_question([[INTENT, READ], stall_connection(600)], last_answer), max_live_agents=8
        ) as server:
            await upload_survey(server)
            reply = (await ask(server.http))["result"]
    assert (reply["fallback"]["code"], reply["fallback"]["by_model"]) == ("deadline", by_model)
    assert "roof leaks" in reply["sources"][0]["quote"]


@pytest.mark.long
async def test_busy_model_service_is_retried_for_a_limited_time(serve):
    busy = [http_error(429, 0.1), [INTENT, READ], http_error(529, 0.1), cite(1, "The roof leaks")]
    model = ChangingModel()
    async with serve(model) as server:
        await upload_survey(server)
        for steps, code in (
            ([*busy, [submit_answer("It leaks [1].")]], None),
            ([[INTENT], *[http_error(429, 0.1)] * 9], "busy"),
        ):
            model.answers = Script(steps)
            reply = (await ask(server.http))["result"]
            assert reply["fallback"] is code is None or reply["fallback"]["code"] == "model_busy"


def break_search_before(clone: Any, step: Any) -> Callable[[Any], Any]:
    """Return a step before which a table of the search disappears."""

    def breaks(body: Any) -> Any:
        sql(clone.owner_url, "alter table if exists private.search_orgs rename to search_orgs_gone")
        return step

    return breaks


async def test_tool_failure_or_timeout_is_reported_to_the_model_and_the_run_continues(serve, clone):
    held = psycopg.connect(clone.owner_url)

    def lock_search(body: Any) -> list[Any]:
        held.execute("lock table private.search_orgs in access exclusive mode")
        return [SEARCH]

    def break_search(body: Any) -> Any:
        held.rollback()
        return break_search_before(clone, [call("search_documents", {"query": "chimney"}), READ])(body)

    script = Script([[INTENT], lock_search, break_search, cite(1, "The roof leaks"), [submit_answer("It leaks [1].")]])
    async with serve(script, tool_seconds=4) as server:
        await upload_survey(server)
        result = await ask(server.http)
        assert result["result"]["fallback"] is None and result["result"]["sources"], result
        results = " ".join(results for results, _ in tool_results(server.model.requests[-1]))
        assert '"tool_timeout"' in results and '"internal"' in results
    held.close()


async def test_run_ends_even_if_the_fallback_search_fails(serve, clone):
    async with serve(Script([[INTENT], repeat_forever(break_search_before(clone, [text("I cannot say.")]))])) as server:
        await upload_survey(server)
        result = await ask(server.http)
        assert result["status"] == "completed", result
        reply = result["result"]
        assert reply["fallback"]["code"] == "agent_stopped" and reply["sources"] == []
        assert len(server.model.requests) == 2  # no further attempt


MARGIN = call("calculator", {"expression": "4200 - (1200 + 12% * 4200)"})
READ_AND_CITED = [[INTENT, READ, MARGIN], cite(1, "The gutters are sound.")]


async def test_passages_include_what_the_run_cited_and_computed(serve):
    async with serve(Script([*READ_AND_CITED, http_error(401)])) as server:
        await upload_survey(server)
        result = await ask(server.http, "What is the net margin?")
        reply = result["result"]
        assert reply["fallback"]["computed"] == ["4200 - (1200 + 12% * 4200) = 2496"] and "2496" in result["answer"]
        assert [one["quote"] for one in reply["sources"]] == ["The gutters are sound."]


async def test_passages_are_of_the_subject_of_the_conversation(serve):
    scripts = {
        "Does the roof leak?": Script([[INTENT, READ], cite(1, "The roof leaks"), [submit_answer("It does [1].")]]),
        "And who wrote it?": Script([http_error(401)]),
    }

    async def answers(body: Any) -> Any:
        first = json.dumps(body["messages"][0])
        return await next(script for message, script in scripts.items() if f"{message}\\n</message>" in first)(body)

    async with serve(answers) as server:
        document_id = await upload_survey(server)
        await server.upload_text("A letter that he wrote.\n", "letter.txt")
        await until(lambda: _is_indexed(server))
        thread_id = (await get_thread(server.http, await ask(server.http)))["id"]
        sources = (await ask(server.http, "And who wrote it?", thread_id=thread_id))["result"]["sources"]
        assert sources[0]["document_id"] == document_id and "roof leaks" in sources[0]["quote"]
        assert [one["filename"] for one in sources] == ["survey.txt", "letter.txt"]
        searched = (await ask(server.http, "And who wrote it?", thread_id=thread_id, mode="search"))["result"]
        assert [one["filename"] for one in searched["sources"]] == ["letter.txt"]


async def _is_indexed(server: Any) -> bool:
    return (await server.http.get("/api/search?q=anything")).json()["not_indexed"] == 0


async def test_last_question_may_use_what_the_run_cited_and_computed(serve):
    model = ChangingModel()
    message = "The net margin, for gutters, if revenue is 4200 and costs are 1200 plus 12%?"
    async with serve(model) as server:
        await upload_survey(server)
        for last, sources in (
            ("The margin is 2496.", []),  # computed from the person's numbers
            ("The gutters are sound [1].", ["The gutters are sound."]),  # cited before
            ("The margin is 2497.", None),
            ("They are sound [2].", None),
        ):
            model.answers = script_with_last_question([*READ_AND_CITED, [text("I give up.")]], [submit_answer(last)])
            reply = (await ask(server.http, message))["result"]
            assert reply["fallback"]["by_model"] is (sources is not None), reply
            if sources is not None:
                assert (reply["answer"], [one["quote"] for one in reply["sources"]]) == (last, sources)
            last_message = json.dumps(server.model.requests[-1]["messages"][0])
            assert "= 2496" in last_message and "[1] survey.txt, page 1: The gutters are sound." in last_message
