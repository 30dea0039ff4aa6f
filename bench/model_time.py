"""What an extraction costs where the model takes its time: in calls of the model, in seconds and in input tokens.

A scripted model takes 0.8 s to its first token and writes 80 tokens a second. It counts a quarter of the characters of
what it is sent, and of what it writes, as tokens: the real one's own count is not to be had offline. Nothing counts as
cached. In one run, interleaved, on a page of ten fields:

    Fieldmark    through the API, watched as a stream; the model answers with all its calls in one message
    raw          one call over the Messages API, with the same rules as its prompt and a forced tool
    five calls   a bare ClaudeSDKClient with the same tools: read, identify, save, complete, last words

Then Fieldmark alone with thirty pages, and with many documents at once. With `--agents N` as many agents are at work.

    pip install '.[bench]' && python bench/model_time.py [--runs 5] [--agents N] [--at-once 64]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from extraction import bare_request, definitions, wait_for
from processes import bounded, child, free_port, heed_signals, said

FIRST_TOKEN_SECONDS = 0.8
TOKENS_A_SECOND = 80
DEADLINE_SECONDS = 900
NAMES = ("number", "date", "due_date", "vendor", "iban", "customer", "net", "tax", "total", "currency")
PROSE = "All goods remain the property of the vendor until they are paid for in full, as agreed upon in writing.\n"
LINES = "".join(f"{name.replace('_', ' ').title()}: {name[:3].upper()}-{n}04711\n" for n, name in enumerate(NAMES))
PAGE = LINES + PROSE * 26
SCHEMA = {"type": "object", "properties": {name: {"type": "string"} for name in NAMES}, "required": list(NAMES)}
VALUES = {name: f"{name[:3].upper()}-{n}04711" for n, name in enumerate(NAMES)}
SAVED = {
    "fields": VALUES,
    "confidences": dict.fromkeys(NAMES, 0.95),
    "evidence": {name: {"quote": value, "page": 1} for name, value in VALUES.items()},
}
IDENTIFIED = {"document_type": "invoice", "confidence": 0.95}
SUMMARY = {"summary": "I read the ten fields of the invoice; none was missing."}
FIVE: list[tuple[str, dict[str, Any]]] = [
    ("get_document_text", {}),
    ("identify_document", IDENTIFIED),
    ("extract_fields", SAVED),
    ("complete_extraction", SUMMARY),
]
_MORE = re.compile(r'call get_document_text with pages \\*"(\d+-)\\*"(?: and offset (\d+))?')


# The model ------------------------------------------------------------------------------------------------------------


async def model() -> None:
    """Serves; for each line on stdin it says what it was asked since the last, by who asked."""
    from fieldmark.offline_model.messages import Block, Body, Call, call, input_tokens, items, text
    from fieldmark.offline_model.replies import Held
    from fieldmark.offline_model.server import OfflineModel
    from fieldmark.testing.script import answers_so_far

    calls: Counter[str] = Counter()
    tokens: Counter[str] = Counter()

    def blocks(body: Body) -> tuple[str, list[Block]]:
        if len(items(body, "tools")) == 1:
            return "raw", [call("extract_fields", SAVED)]
        if "You extract." in json.dumps(body.get("system")):
            place = answers_so_far(body)
            return "five calls", [call(*FIVE[place])] if place < len(FIVE) else [text("Done.")]
        # The last message tells whether the document goes on behind what was shown of it.
        last = json.dumps([one for one in items(body, "messages") if one.get("role") == "user"][-1])
        if more := _MORE.search(last):
            return "Fieldmark", [call("get_document_text", {"pages": more[1], "offset": int(more[2] or 0)})]
        return "Fieldmark", [call(name, arguments) for name, arguments in FIVE[1:]]

    async def answer(body: Body) -> Held:
        who, said = blocks(body)
        calls[who] += 1
        tokens[who] += input_tokens(body)
        written = sum(len(one.name) + len(one.arguments) if isinstance(one, Call) else len(str(one)) for one in said)
        await asyncio.sleep(FIRST_TOKEN_SECONDS)
        return Held(said, lambda: asyncio.sleep(written / 4 / TOKENS_A_SECOND))

    async with OfflineModel(answer) as server:
        print(server.base_url, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps([calls, tokens]), flush=True)
            calls.clear()
            tokens.clear()


def seconds_of_the_model() -> float:
    """What the model takes to write all calls of an extraction."""
    written = sum(len(name) + len(json.dumps(arguments)) for name, arguments in FIVE[1:])
    return FIRST_TOKEN_SECONDS + written / 4 / TOKENS_A_SECOND


# Those who ask it -----------------------------------------------------------------------------------------------------


async def raw(client: Any) -> None:
    from fieldmark.agents.registry import AGENTS

    tools = [one for one in definitions() if one["name"] == "extract_fields"]
    asked = f"Extract the fields.\n<schema>\n{json.dumps(SCHEMA)}\n</schema>\n<document>\n{PAGE}</document>"
    async with client.messages.stream(
        model="claude-sonnet-5",
        max_tokens=4096,
        system=AGENTS["extraction"].prompt,
        tools=tools,
        tool_choice={"type": "tool", "name": "extract_fields"},
        messages=[{"role": "user", "content": asked}],
    ) as stream:
        answer = await stream.get_final_message()
    assert answer.content[0].input["fields"] == VALUES


async def extract(http: Any, document_id: str) -> None:
    body = {"document_id": document_id, "schema": SCHEMA}
    last = ""
    async with http.stream("POST", "/api/agent/extract", json=body, headers={"Accept": "text/event-stream"}) as stream:
        assert stream.is_success, await stream.aread()
        async for line in stream.aiter_lines():
            last = line if line.startswith("data: ") else last
    assert '"complete": true' in last, last


async def uploaded(http: Any, text: str) -> str:
    taken = (await http.post("/api/documents", files={"file": ("a.txt", text.encode())})).json()
    while (found := (await http.get(f"/api/documents/{taken['id']}")).json())["status"] == "reading":
        await asyncio.sleep(0.05)
    print(f"a document of {found['page_count']} pages, {len(text)} characters")
    return taken["id"]


# Measuring ------------------------------------------------------------------------------------------------------------


async def measure(
    base_url: str, address: str, token: str, model_process: Any, runs: int, agents: int, at_once: int
) -> None:
    import httpx
    from anthropic import AsyncAnthropic

    def asked() -> tuple[dict[str, int], dict[str, int]]:
        model_process.stdin.write("\n")
        model_process.stdin.flush()
        return json.loads(said(model_process))

    async def timed(action: Callable[[], Awaitable[None]]) -> float:
        begun = time.perf_counter()
        await action()
        return time.perf_counter() - begun

    async with (
        httpx.AsyncClient(
            base_url=address,
            headers={"Authorization": f"Bearer {token}"},
            timeout=DEADLINE_SECONDS,
            limits=httpx.Limits(max_connections=200),
        ) as http,
        AsyncAnthropic(base_url=base_url, api_key="bench") as client,
    ):
        page = await uploaded(http, PAGE)
        who: dict[str, Callable[[], Awaitable[None]]] = {
            "Fieldmark": lambda: extract(http, page),
            "raw": lambda: raw(client),
            "five calls": lambda: bare_request(base_url),
        }
        walls: dict[str, list[float]] = {name: [] for name in who}
        calls: dict[str, list[int]] = {name: [] for name in who}
        tokens: dict[str, list[int]] = {name: [] for name in who}
        for turn in range(runs + 1):
            for name, action in who.items():
                asked()
                wall = await timed(action)
                said_calls, said_tokens = asked()
                if turn:
                    walls[name].append(wall)
                    calls[name].append(said_calls[name])
                    tokens[name].append(said_tokens[name])
        wall_of_raw, tokens_of_raw = statistics.median(walls["raw"]), statistics.median(tokens["raw"])
        print(
            f"one page, ten fields, {runs} times, interleaved; median (the model alone: {seconds_of_the_model():.2f} s)"
        )
        for name in who:
            wall, count = statistics.median(walls[name]), statistics.median(tokens[name])
            print(
                f"  {name}: {statistics.median(calls[name]):g} calls, {wall:.2f} s ({wall / wall_of_raw:.2f} x raw), "
                f"{count:.0f} input tokens ({count / tokens_of_raw:.2f} x raw)"
            )
        long = await uploaded(http, "\f".join([PAGE] * 30))
        asked()
        wall = await timed(lambda: extract(http, long))
        print(f"thirty pages: {asked()[0]['Fieldmark']} calls, {wall:.2f} s")

        async def many() -> None:
            await asyncio.gather(*(extract(http, page) for _ in range(at_once)))

        alone = math.ceil(at_once / agents) * seconds_of_the_model()
        for what in (f"{at_once} at once", "and again, with CLIs that are warm") if at_once else ():
            wall = await timed(many)
            print(f"{what}, {agents} at work: {wall:.2f} s; the model alone {alone:.2f} s: {alone / wall:.2f} of that")


def main(runs: int, agents: int | None, at_once: int) -> None:
    from fieldmark.cli.process import LOCAL_USER
    from fieldmark.identity.tokens import LocalTokens
    from fieldmark.settings import agents_that_fit

    agents = agents or agents_that_fit()
    with (
        tempfile.TemporaryDirectory(prefix="fieldmark-bench-") as home,
        bounded(DEADLINE_SECONDS, Path(home)),
        child(str(Path(__file__)), "model") as model_process,
    ):
        base_url = said(model_process)
        settings = {
            "FIELDMARK_HOME": home,
            "ANTHROPIC_API_KEY": "bench",
            "ANTHROPIC_BASE_URL": base_url,
            "FIELDMARK_PORT": str(port := free_port()),
            "FIELDMARK_MAX_LIVE_AGENTS": str(agents),
            "DATABASE_URL": "",
            "SUPABASE_URL": "",
        }
        with child("-c", "from fieldmark.cli import main; main()", "serve", **settings):
            address = f"http://127.0.0.1:{port}"
            wait_for(f"{address}/readyz")
            token = LocalTokens(Path(home)).sign(LOCAL_USER)
            asyncio.run(measure(base_url, address, token, model_process, runs, agents, at_once))


if __name__ == "__main__":
    if sys.argv[1:] == ["model"]:
        asyncio.run(model())
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--runs", type=int, default=5)
        parser.add_argument("--agents", type=int)
        parser.add_argument("--at-once", type=int, default=64, help="0: leave that out")
        given = parser.parse_args()
        heed_signals()
        main(given.runs, given.agents, given.at_once)
