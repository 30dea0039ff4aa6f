"""What a run falls back on whose agent came to no answer: one question more, and without a model the best passages."""

from __future__ import annotations

import json
import re

import pytest

from agents.library.test_asking import (
    INTENT,
    SURVEY,
    ask,
    cite,
    events_of,
    indexed,
    is_last_question,
    submit,
    thread_of,
)
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script, endless, http_error

pytestmark = pytest.mark.anyio


def text_of(message) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def shown(body) -> dict[str, str]:
    """The blocks that the last question shows: id → text."""
    said = text_of(body["messages"][0])
    return dict(re.findall(r"^\[([0-9a-f]{12}-\d+-\d+)\] (.*)$", said, re.MULTILINE))


def last(answer: str, quote: str, within: str = "roof leaks", **more):
    """The one call that the last question wants."""

    def step(body):
        block = next(one for one, words in shown(body).items() if within in words)
        given = [{"number": 1, "block_id": block, "quote": quote}]
        return [submit(answer, citations=given, **more)]

    return step


def model(agent, at_last):
    """A model that follows one script, and another when it is asked for the last time."""
    first, second = Script(agent), Script([at_last])

    async def answers(body):
        return await (second if is_last_question(body) else first)(body)

    return answers


STOPS = [[text("It leaks, I believe.")]]


async def test_a_model_that_gave_no_answer_is_asked_once_more_about_the_best_passages(serve):
    async with serve(model(STOPS, last("It leaks at the chimney [1].", "The roof leaks at the chimney."))) as served:
        document_id = await served.document(SURVEY, "survey.txt")
        await indexed(served)
        result = await ask(served.http)
        assert result["status"] == "completed", result
        told = result["result"]
        assert told["answer"] == "It leaks at the chimney [1]."
        assert (told["fallback"]["code"], told["fallback"]["by_model"]) == ("agent_stopped", True)
        (source,) = told["sources"]
        assert source["document_id"] == str(document_id) and source["boxes"]
        assert told["effort"]["model_calls"] == 2 and told["effort"]["searches"] == 1 == told["effort"]["reads"]
        events = await events_of(served.http, result)
        steps = [one["tool"] for one in events if one["type"] == "tool" and one["status"] == "complete"]
        assert steps == ["search_documents", "read_multiple_documents", "submit_answer"]
        assert [one["citation"]["number"] for one in events if one["type"] == "citation"] == [1]
        assert (await thread_of(served.http, result))["working_state"]["turns"] == 1


@pytest.mark.parametrize(
    "at_last",
    [
        last("It is sound [1].", "The roof is sound."),
        last("It leaks [2].", "The roof leaks"),
        last("It leaks in 7 places [1].", "The roof leaks"),
        [text("It leaks.")],
        [call("read_document", {"document": "survey.txt"})],
        http_error(400),
    ],
)
async def test_what_the_last_question_does_not_prove_is_not_given(serve, at_last):
    async with serve(model(STOPS, at_last)) as served:
        await served.document(SURVEY, "survey.txt")
        await indexed(served)
        result = await ask(served.http)
        told = result["result"]
        assert (told["fallback"]["code"], told["fallback"]["by_model"]) == ("agent_stopped", False)
        assert "roof leaks" in told["sources"][0]["quote"]
        assert any(map(is_last_question, served.model.requests))
        done = [one["tool"] for one in await events_of(served.http, result) if one.get("status") == "complete"]
        assert done == ["search_documents", "read_multiple_documents"]


async def test_a_model_that_was_wrong_twice_is_asked_once_more(serve):
    wrong = [[INTENT], [submit("It leaks.")], [submit("It leaks.")]]
    async with serve(model(wrong, last("It leaks [1].", "The roof leaks"))) as served:
        await served.document(SURVEY, "survey.txt")
        await indexed(served)
        told = (await ask(served.http))["result"]
        assert (told["fallback"]["code"], told["fallback"]["by_model"]) == ("answer_invalid", True)


async def test_where_nothing_fits_there_is_nothing_to_ask(serve):
    async with serve(Script(STOPS)) as served:
        told = (await ask(served.http, "Are there dragons?"))["result"]
        assert told["sources"] == [] and not told["fallback"]["by_model"]
        assert not any(map(is_last_question, served.model.requests))


async def test_after_its_rounds_there_is_a_turn_left_for_the_last_question(serve):
    loops = [[INTENT], endless([call("search_documents", {"query": "roof"})])]
    async with serve(model(loops, last("It leaks [1].", "The roof leaks"))) as served:
        await served.document(SURVEY, "survey.txt")
        await indexed(served)
        told = (await ask(served.http))["result"]
        assert (told["fallback"]["code"], told["fallback"]["by_model"]) == ("max_turns", True), json.dumps(told)


async def test_citations_can_come_with_the_answer(serve):
    def both(body):
        (step,) = cite(1, "The roof leaks at the chimney.")(body)
        return [submit("It leaks [1].", citations=[json.loads(step.arguments)])]

    async with serve(Script([[INTENT, call("read_document", {"document": "survey.txt"})], both])) as served:
        await served.document(SURVEY, "survey.txt")
        result = await ask(served.http)
        told = result["result"]
        assert told["fallback"] is None and told["sources"][0]["quote"] == "The roof leaks at the chimney."
        assert [one["type"] for one in await events_of(served.http, result) if one["type"] == "citation"]
