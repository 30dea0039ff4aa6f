"""The stand-in behaves like the CLI: same events, ledger, transcript, requests and outcome."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import pytest

from cli_stand_in import stand_in_cli
from extraction_case import INVOICE, ExtractionCase, document_with_pages, until
from fieldmark.agents.document.agent import ChatRequest
from fieldmark.agents.registry import agent_rows, registered
from fieldmark.db.migrate import migrate
from fieldmark.offline_model.messages import Body, call, raw_call, text, thinking
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.lifecycle import decisions, launch
from fieldmark.runs.lifecycle.decisions import ApprovalDecision
from fieldmark.stores.runs import RunOptions
from fieldmark.testing.script import Script, http_error, stall_connection
from toy_agent.agent import TOY, CompareRequest

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli("compared with the stand-in")]

PRICES = Prices("claude-sonnet-5", None, offline=False)
TOTAL = call("update_field", {"path": "total", "value": 10.0, "confidence": 0.9})
NUMBER = call("update_field", {"path": "number", "value": "1", "confidence": 0.9})
DONE = [text("Done.")]

Requests = list[Body]


async def _execute(
    case: ExtractionCase, answer: Any, run_id: UUID | None = None, **columns: Any
) -> tuple[UUID, Requests]:
    finished = await case.execute_run(answer, run_id, **columns)
    return finished.run_id, finished.requests


async def make_calls_of_all_kinds(case: ExtractionCase) -> Requests:
    wrong = call("update_field", {"path": "total", "value": 10, "confidence": 7})
    steps = [
        [thinking("I read."), call("get_document_text")],
        [text("Both."), TOTAL, NUMBER],
        [wrong, call("update_field", {"path": "vendor", "value": "A", "confidence": 0.9})],
        [call("remove_field", {"path": "none"})],
        [call("update"), call("append", {"path": "total"})],
        [raw_call("update_field", '{"path": "total", "val')],
        [thinking("Hm. " * 500), text("Ünd so weiter … " * 500)],
    ]
    _, requests = await _execute(case, Script(steps))
    return requests


async def complete_with_further_calls(case: ExtractionCase) -> Requests:
    end = call("complete_extraction", {"summary": "All is read."})
    _, requests = await _execute(case, Script([[TOTAL, end, NUMBER]]))
    return requests


async def use_all_turns(case: ExtractionCase) -> Requests:
    _, requests = await _execute(case, lambda body: [call("get_document_text")], max_turns=3)
    return requests


async def recover_from_api_errors(case: ExtractionCase) -> Requests:
    steps = [http_error(529), [TOTAL], stall_connection(0.3, text("Al")), http_error(500), DONE]
    _, requests = await _execute(case, Script(steps))
    return requests


async def fail_by_api_errors(case: ExtractionCase) -> Requests:
    await _execute(case, Script([[TOTAL], *[http_error(429)] * 9]))
    return []


async def send_refused_request(case: ExtractionCase) -> Requests:
    await _execute(case, Script([http_error(400)] * 9))
    return []  # the CLI repeats the request without optional parts


async def run_out_of_credit(case: ExtractionCase) -> Requests:
    reason = (
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or "
        "purchase credits."
    )
    run_id, _ = await _execute(case, Script([http_error(400, message=reason)] * 9))
    assert case.state(run_id)["error_code"] == "model_unpaid"
    return []


async def cancel_run(case: ExtractionCase) -> Requests:
    asked = asyncio.Event()

    async def silent(body: Body) -> Any:
        if len(body["messages"]) < 4:
            return [TOTAL]
        asked.set()
        await asyncio.sleep(600)
        return []

    run_id = await case.queue_run()
    task = asyncio.create_task(case.execute_run(silent, run_id))
    await until(lambda: (asked.is_set() and "tool_result" in str(case.events(run_id))) or task.done())
    await decisions.cancel(case.database, case.scope, run_id)
    await asyncio.wait({task})
    case.sql("delete from public.agent_sessions where org_id = %s", case.scope.org_id)  # its length varies
    return []


async def decide_calls(case: ExtractionCase) -> Requests:
    total, number = (call("update_field", {"path": path, "value": 1, "confidence": 0.9}) for path in "ab")
    asks = Script([[TOTAL, NUMBER], [call("get_document_text"), total]])
    run_id, requests = await _execute(case, asks, approval="ask")
    for answer, decision in (
        ([number], ApprovalDecision(total.id, True)),
        (DONE, ApprovalDecision(number.id, False, reason="It is net.")),
    ):
        await decisions.decide(case.database, case.scope, run_id, decision)
        _, more = await _execute(case, lambda body, answer=answer: answer, run_id)
        requests = requests + more
    return requests


async def send_three_thread_messages(case: ExtractionCase) -> Requests:
    note, requests, thread_id = call("note", {"text": "Once."}), [], None
    with registered(TOY):
        for message, approval, answer in (
            ("One.", "auto", Script([[call("note", {"text": "First."})], DONE])),
            ("Two.", "ask", lambda body: [note]),
            ("Three.", "auto", lambda body: DONE),
        ):
            request = CompareRequest(
                documents=(case.document_id, case.document_id), message=message, thread_id=thread_id
            )
            options = RunOptions(approval=approval)
            asked = await launch.start(case.database, case.scope, "compare", request, prices=PRICES, options=options)
            _, more = await _execute(case, answer, asked)
            thread_id, requests = case.state(asked)["thread_id"], requests + more
    return requests


async def start_child_run(case: ExtractionCase) -> Requests:
    request = ChatRequest(document_id=case.document_id, message="Extract it.")
    options = RunOptions(approval="auto")
    run_id = await launch.start(case.database, case.scope, "chat", request, prices=PRICES, options=options)
    _, before = await _execute(case, lambda body: [call("run_extraction")], run_id)
    (child,) = case.sql("select id from public.runs where parent_run_id = %s", run_id)
    end = call("complete_extraction", {"summary": "All is read."})
    _, between = await _execute(case, Script([[TOTAL, end]]), child["id"])
    _, after = await _execute(case, lambda body: DONE, run_id)
    return before + between + after


SCENARIOS: list[Callable[[ExtractionCase], Awaitable[Requests]]] = [
    make_calls_of_all_kinds,
    recover_from_api_errors,
    cancel_run,
    decide_calls,
]
FURTHER_SCENARIOS: list[Callable[[ExtractionCase], Awaitable[Requests]]] = [
    complete_with_further_calls,
    use_all_turns,
    fail_by_api_errors,
    send_refused_request,
    run_out_of_credit,
    send_three_thread_messages,
    start_child_run,
]


@pytest.mark.parametrize(
    "scenario",
    [*SCENARIOS, *(pytest.param(one, marks=pytest.mark.full) for one in FURTHER_SCENARIOS)],
    ids=lambda scenario: scenario.__name__,
)
async def test_stand_in_behaves_like_the_cli(database, clone, make_user, scenario):
    async with AsyncExitStack() as stack:
        one, other = [
            await stack.enter_async_context(
                document_with_pages(database, clone.owner_url, await make_user(), [INVOICE])
            )
            for _ in range(2)
        ]
        await migrate(clone.owner_url, agents=agent_rows([TOY]))
        real = _record(one, await scenario(one))
        with stand_in_cli():
            imitated = _record(other, await scenario(other))
    assert imitated == real


def _record(case: ExtractionCase, requests: Requests) -> str:
    """Return what is stored of the case's runs and what the model was sent, without varying values."""
    ours = ("where org_id = %s order by", case.scope.org_id)
    runs = [row["id"] for row in case.sql(f"select id from public.runs {ours[0]} created_at", ours[1])]
    entries = case.sql(f"select entry from public.agent_sessions {ours[0]} number", ours[1])
    used = case.sql(f"select * from public.usage {ours[0]} created_at", ours[1])
    init = {
        "events": [event for run_id in runs for event in _in_calls_order(case.events(run_id))],
        "ledger": [call for run_id in runs for call in case.ledger(run_id)],
        "runs": [_select(case.state(run_id), _RUN_COLUMNS) for run_id in runs],
        "usage": [_select(row, _USAGE_COLUMNS) for row in used],
        "transcript": [line for row in entries for line in _transcript(row["entry"])],
        "messages": [block for request in requests for block in _messages(request)],
        "tools": [_tools(request) for request in requests],
    }
    lines = [[part_name, one] for part_name, found in init.items() for one in found]
    return "\n".join(json.dumps(line, ensure_ascii=False, sort_keys=True) for line in _normalise(lines))


_RUN_COLUMNS = ("status", "error", "error_code", "answer", "result", "waiting_call")
_USAGE_COLUMNS = ("model", "output_tokens")
_VARYING_KEYS = {
    *("duration_ms", "timestamp", "wait_s", "cost", "cost_usd", "input_tokens", "cache_control", "org_id"),
    *("at", "created_at", "decided_at", "started_at", "finished_at", "arguments_hash"),
}
_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|toolu_\w+|\b[0-9a-f]{24}\b|/\S*/")


def _select(row: dict[str, Any], columns: tuple[str, ...]) -> dict[str, Any]:
    return {column: row[column] for column in columns}


def _in_calls_order(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put what became of the calls of one message in one order: they run at the same time, and any may end first."""
    groups = itertools.groupby(events, lambda event: event["type"] in ("tool_result", "approval"))
    return [
        event
        for of_calls, group in groups
        for event in (sorted(group, key=lambda event: event["type"]) if of_calls else group)
    ]


def _transcript(entry: dict[str, Any]) -> list[Any]:
    """Return the messages and the deferred calls, without the CLI's own notes."""
    if entry["type"] in ("user", "assistant"):
        content = entry["message"]["content"]
        listed = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return [[entry["type"], entry["message"].get("stop_reason"), block] for block in listed]
    attachment = entry.get("attachment", {})
    if attachment.get("type") == "hook_deferred_tool":
        return [["deferred", attachment["toolUseID"], attachment["toolName"], attachment["toolInput"]]]
    return []


def _messages(request: Body) -> list[Any]:
    """Return the messages without the CLI's system reminders."""
    return [
        [message["role"], block]
        for message in request["messages"]
        if message["role"] != "system"
        for block in (
            [{"type": "text", "text": message["content"]}]
            if isinstance(message["content"], str)
            else message["content"]
        )
    ]


def _tools(request: Body) -> Any:
    tools = [[tool["name"], tool["description"], tool["input_schema"]] for tool in request["tools"]]
    return [request["model"], [part["text"] for part in request["system"]], request["tool_choice"], tools]


def _normalise(value: Any) -> Any:
    """Replace ids by numbers in order of appearance, and drop varying keys."""
    numbers: dict[str, str] = {}

    def clean(given: Any) -> Any:
        match given:
            case dict():
                return {key: clean(one) for key, one in given.items() if key not in _VARYING_KEYS}
            case list():
                return [clean(one) for one in given]
            case str():
                # The CLI adds details about invalid JSON.
                shown = given.partition("\nYou sent (first")[0]
                return _IDS.sub(lambda met: numbers.setdefault(met[0], f"#{len(numbers)}"), shown)
            case _:
                return given

    return clean(json.loads(json.dumps(value, default=str)))
