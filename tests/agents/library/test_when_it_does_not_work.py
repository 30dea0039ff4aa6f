"""The library agent when things go wrong: time runs out, tools take too long, the model is busy, documents change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx
import psycopg
import pytest

from agents.library.test_asking import INTENT, SURVEY, ask, blocks, cite, codes, indexed, of_the_agent, submit
from agents.library.test_last_question import STOPS, last, model
from fieldmark.agents.library.agent import ASK, LIBRARY
from fieldmark.agents.registry import registered
from fieldmark.offline_model.messages import call
from fieldmark.testing.script import Script, http_error, stall
from standing import METRICS_TOKEN

pytestmark = pytest.mark.anyio

READ = call("read_document", {"document": "survey.txt"})


@contextmanager
def time_for_a_question(seconds: int, last_seconds: int) -> Iterator[None]:
    """Less time than a question has; `last_seconds` of it are for the last question."""
    last_question = replace(ASK.last_question, seconds=last_seconds)
    task = replace(ASK, seconds=seconds, last_question=last_question)
    with registered(replace(LIBRARY, tasks={ASK.name: task})):
        yield


async def test_at_its_deadline_a_run_asks_once_more_in_the_time_that_it_has_kept_back(serve):
    agent = [[INTENT, READ], stall(600), [submit("Too late.")]]
    at_last = last("It leaks [1].", "The roof leaks")
    with time_for_a_question(16, 6):
        async with serve(model(agent, at_last), max_live_agents=8) as served:
            await served.document(SURVEY, "survey.txt")
            await indexed(served)
            told = (await ask(served.http))["result"]
    assert (told["fallback"]["code"], told["fallback"]["by_model"]) == ("deadline", True)
    assert told["effort"]["seconds"] > 9


async def test_at_its_deadline_the_last_question_is_not_waited_for_either(serve):
    agent, at_last = [[INTENT], stall(600), [submit("Too late.")]], stall(600)
    with time_for_a_question(8, 3):
        async with serve(model(agent, at_last)) as served:
            await served.document(SURVEY, "survey.txt")
            await indexed(served)
            told = (await ask(served.http))["result"]
    assert (told["fallback"]["code"], told["fallback"]["by_model"]) == ("deadline", False)
    assert "roof leaks" in told["sources"][0]["quote"]


async def test_a_service_that_is_busy_for_a_while_is_waited_for(serve):
    script = Script(
        [
            http_error(429, 0.1),
            [INTENT, READ],
            http_error(529, 0.1),
            cite(1, "The roof leaks"),
            [submit("It leaks [1].")],
        ]
    )
    async with serve(script) as served:
        await served.document(SURVEY, "survey.txt")
        told = (await ask(served.http))["result"]
        assert told["fallback"] is None and told["effort"]["model_calls"] == 3


async def test_a_tool_that_takes_too_long_is_a_fault_that_the_model_sees_and_the_run_goes_on(serve, clone):
    held = psycopg.connect(clone.owner_url)

    def hold(body):
        held.execute("lock table private.search_orgs in access exclusive mode")
        return [call("search_documents", {"query": "roof"})]

    def go_on(body):
        held.rollback()
        return [READ]

    script = Script([[INTENT], hold, go_on, cite(1, "The roof leaks"), [submit("It leaks [1].")]])
    async with serve(script, tool_seconds=1) as served:
        await served.document(SURVEY, "survey.txt")
        await indexed(served)
        result = await ask(served.http)
        assert result["result"]["fallback"] is None, result
        assert "tool_timeout" in codes(served)
    held.close()


async def test_a_block_that_is_gone_with_another_reading_cannot_be_cited(serve, clone):
    long = "\n\n".join(f"Paragraph {n} of the survey says that beam {n} is sound. " * 12 for n in range(6))
    last_block: list[str] = []

    def shrink(body):
        shown = blocks(body)
        last_block[:] = [list(shown)[-1]]
        with psycopg.connect(clone.owner_url, autocommit=True) as conn:
            conn.execute("update public.document_pages set words = jsonb_path_query_array(words, '$[0 to 3]')")
        return [call("cite_source", {"number": 1, "block_id": last_block[0], "quote": "is sound"})]

    script = Script([[INTENT, READ], shrink, [submit("Nothing.", nothing_found=True)], [submit("Nothing.")]])
    async with serve(script) as served:
        await served.document(long, "survey.txt")
        await ask(served.http)
        assert len(last_block) == 1 and not last_block[0].endswith("-1-1")
        told = [one for body in of_the_agent(served)[-1:] for one in body["messages"]]
        assert "block_not_read" in str(told) and "Internal error" not in str(told)


@pytest.mark.parametrize(
    ("answer", "is_given"),
    [
        ("The roof leaks at 2 places, since 2019 [1].", True),
        ("1. It leaks [1].\n2. Since 2019 [1].", True),
        ("It cost 1,250.50 EUR [1].", True),
        ("It cost 1250,50 EUR, see page 1 [1].", True),
        ("On 12.03.2019 it leaked [1].", True),
        ("On 12 March 2019 it leaked [1].", True),
        ("It leaked on March 12 [1].", True),
        ("On 13 March 2019 it leaked [1].", False),
        ("There are 102 such houses [1].", False),
        ("It cost 1,250.55 EUR [1].", False),
        ("It leaks in 12 places [1].", False),
    ],
)
async def test_a_number_of_an_answer_stands_in_its_quotes_or_is_not_given(serve, answer, is_given):
    line = "The roof leaks at 2 places since 12.03.2019 and cost 1.250,50 EUR."
    script = Script([[INTENT, READ], cite(1, line), [submit(answer)], [submit(answer)]])
    async with serve(script) as served:
        await served.document(f"Survey\n\n{line}\n", "survey.txt")
        await indexed(served)
        told = (await ask(served.http, "Does it leak since 2019?"))["result"]
        assert (told["fallback"] is None) is is_given, told
        assert is_given or "number_not_proven" in str(of_the_agent(served)[-1]["messages"])


async def test_every_number_of_a_calculation_is_a_result_or_given(serve):
    def steps(answer):
        said = {"answer": answer, "formula": "so", "result": "3600", "confidence": 1.0}
        submitted = call("submit_calculation", said)
        kind = call("record_intent", {"intent": "calculation", "confidence": 1.0, "reasoning": "So."})
        return [[kind, call("calculator", {"expression": "1200 * 3"})], [submitted], [submitted]]

    for answer, is_given in (("3 times 1,200 is 3,600.", True), ("It is 3,600, and 99 for transport.", False)):
        async with serve(Script(steps(answer))) as served:
            told = (await ask(served.http, "What is 1,200 times 3?"))["result"]
            assert (told["fallback"] is None) is is_given, told


async def test_who_has_fallen_back_and_why_is_counted(serve):
    async with serve(model(STOPS, last("It leaks [1].", "The roof leaks"))) as served:
        await served.document(SURVEY, "survey.txt")
        await indexed(served)
        await ask(served.http)
        await asyncio.sleep(0)
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {METRICS_TOKEN}"}) as http:
            said = (await http.get(f"{served.base_url}/metrics")).text
        assert 'fieldmark_fallbacks_total{agent="library",by="model",code="agent_stopped"} 1.0' in said


async def test_a_conversation_about_all_documents_is_begun_before_anything_is_said(serve):
    script = Script([[INTENT, call("search_documents", {"query": "x"})], [submit("None.", nothing_found=True)]])
    async with serve(script) as served:
        thread = (await served.http.post("/api/threads", json={"title": "Surveys"})).json()
        assert (thread["agent"], thread["document_id"]) == ("library", None)
        await ask(served.http, "Dragons?", thread_id=thread["id"])
        told = (await served.http.get(f"/api/threads/{thread['id']}")).json()
        assert told["title"] == "Surveys" and told["working_state"]["turns"] == 1
        refused = await served.http.post("/api/threads", json={"agent": "document"})
        assert refused.status_code == 404
