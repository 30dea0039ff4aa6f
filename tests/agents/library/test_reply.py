"""The agent's own words are kept as the answer if they need no source, and are marked as a reply."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agents.library.test_asking import INTENT, ask, get_thread, record_intent, submit_answer, upload_survey
from agents.library.test_fallback import ChangingModel, is_last_question
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

UNKNOWN = record_intent("unknown")
SEARCH = call("search_documents", {"query": "dragons"})


def answer_by_message(steps: dict[str, list[list[Any]]]) -> Callable[[Any], Awaitable[Any]]:
    """Return a model with a script for each message of the person."""
    scripts = {f"\\n{message}\\n</message>": Script(turns) for message, turns in steps.items()}

    async def answers(body: Any) -> Any:
        first = json.dumps(body["messages"][0])
        return await next(script for message, script in scripts.items() if message in first)(body)

    return answers


async def test_plain_words_of_the_agent_are_the_answer(serve):
    model = answer_by_message(
        {
            "Does the roof leak?": [[INTENT, SEARCH], [submit_answer("No.", nothing_found=True)]],
            "thanks!": [[text("You are welcome.")]],
            "Well?": [[UNKNOWN], [text("I found none.")]],
            "Are there dragons?": [[INTENT, SEARCH], [text("I found no dragons.")]],
        }
    )
    async with serve(model, ask_fallback=False) as server:
        await upload_survey(server)
        thread_id = (await get_thread(server.http, await ask(server.http)))["id"]
        for message, answer, intent in (
            ("thanks!", "You are welcome.", None),
            ("Well?", "I found none.", "unknown"),
            ("Are there dragons?", "I found no dragons.", "qa"),
        ):
            result = await ask(server.http, message, thread_id=thread_id)
            assert (result["status"], result["answer"]) == ("completed", answer), result
            reply = result["result"]
            assert (reply["kind"], reply["answer"], reply["sources"]) == ("reply", answer, [])
            assert (reply["fallback"], reply["confidence"]) == (None, 0)
            assert (reply["intent"] or {}).get("intent") == intent
            events = await server.events(result["run_id"])
            assert [one["text"] for one in events if one["type"] == "text"] == [answer]
        state = (await get_thread(server.http, result))["working_state"]
        assert [one["answered"] for one in state["conversation"][1:]] == [
            *("You are welcome.", "I found none.", "I found no dragons.")
        ]
        assert state["actions"][-1] == "Turn 4: ended with reply"


CLAIMS: list[tuple[list[Any], str]] = [
    ([], "It leaks."),  # a word of the question and of a passage
    ([], "It has been leaking for years."),  # in another form
    ([UNKNOWN], "The roof is sound."),
    ([INTENT], "I cannot say."),  # a question about documents, and there are passages
    ([], "Yes, at 3 places."),
    ([], "Since 1 May 2024."),
    ([], "They write: “no damage at all”."),
    ([], "Yes [1]."),
]


async def test_claim_about_documents_is_no_reply(serve):
    model = ChangingModel()
    async with serve(model) as server:
        await upload_survey(server)
        for calls, claim in CLAIMS:
            model.answers = Script([*([calls] if calls else []), [text(claim)], [text(claim)]])
            result = await ask(server.http)
            assert result["result"]["fallback"]["code"] == "agent_stopped", result
            assert claim not in result["answer"] and is_last_question(server.model.requests[-1])


async def test_reply_may_repeat_numbers_of_the_conversation(serve):
    said = {"Say hello 7": "Hello 7.", "What?": "I said 7.", "Sure?": "I said 8."}
    model = answer_by_message({message: [[text(words)]] for message, words in said.items()})
    async with serve(model) as server:
        result = await ask(server.http, "Say hello 7")
        thread_id = (await get_thread(server.http, result))["id"]
        assert result["result"]["kind"] == "reply"
        assert (await ask(server.http, "What?", thread_id=thread_id))["result"]["kind"] == "reply"
        assert (await ask(server.http, "Sure?", thread_id=thread_id))["result"]["fallback"] is not None
