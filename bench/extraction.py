"""One scripted extraction: through Fieldmark's API, in a bare ClaudeSDKClient, in a raw loop.

Fieldmark is answered with all calls in one message, as its prompt asks for; the two others with the five messages that
the same work takes where the document has to be read by a call.

Prints wall time, CPU and peak memory of each, their ratios, and how often and with how many input tokens the model is
called, all of one run with the three interleaved. The scripted model answers without delay from a process of its own,
the same for all three. With `--at-once 16` each does so many requests at the same time, `--runs` times in turn. With
`--writes 50` each run writes so many more fields, one in each message: what that adds is the time of a write.

    pip install '.[bench]' && python bench/extraction.py [--runs 20] [--at-once 16] [--writes 50]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from processes import bounded, child, free_port, heed_signals, said

DOCUMENT = "Invoice number: 2024-0815\nInvoice date: 2024-03-12\nVendor: Acme Ltd\nTotal: 1,250.00 EUR\n" * 20
FIELDS = {"number": "2024-0815", "date": "2024-03-12", "vendor": {"name": "Acme Ltd"}, "total": 1250.0}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("get_document_text", {}),
    ("identify_document", {"document_type": "invoice", "confidence": 0.9}),
    ("extract_fields", {"fields": FIELDS, "confidences": {"number": 0.9, "total": 0.8}}),
    ("complete_extraction", {}),
]
SUMMARY = {"summary": "Done."}
DEADLINE_SECONDS = 900
PROMPT = "Extract the fields of the document."


# The scripted model ------------------------------------------------------------------------------------------------


async def model(writes: str) -> None:
    """Serves. For a line on stdin it prints how often it was called, and with how many tokens, by who asked."""
    from fieldmark.offline_model.messages import Body, call, input_tokens, text
    from fieldmark.offline_model.server import OfflineModel, Reply
    from fieldmark.testing.script import Script

    more = [[call("update_field", {"path": f"f{n}", "value": n, "confidence": 0.9})] for n in range(int(writes))]
    complete = call("complete_extraction", SUMMARY)
    five = Script([*[[call(*one)] for one in CALLS[:3]], *more, [call(*CALLS[3])], [text("Done.")]])
    first = [call(*one) for one in CALLS[1:3]]
    one = Script([first, *more, [complete]] if more else [[*first, complete]])
    asked: dict[str, list[int]] = {"Fieldmark": [0, 0], "the others": [0, 0]}

    async def answer(body: Body) -> Reply:
        is_other = "You extract." in json.dumps(body.get("system"))
        counted = asked["the others" if is_other else "Fieldmark"]
        counted[0] += 1
        counted[1] += input_tokens(body)
        return await (five if is_other else one)(body)

    async with OfflineModel(answer) as server:
        print(server.base_url, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(asked), flush=True)


# (a) The same tools, in memory, in a bare ClaudeSDKClient per request ------------------------------------------------


def answers() -> dict[str, Callable[[dict[str, Any]], str]]:
    """What the tools do without a database: the least that an application would do."""
    state: dict[str, Any] = {}

    def save(arguments: dict[str, Any]) -> str:
        state.update(arguments["fields"])
        return "Stored, version 1: " + json.dumps(state)

    return {
        "get_document_text": lambda _: DOCUMENT,
        "identify_document": lambda arguments: f"The document type is now {arguments['document_type']!r}.",
        "extract_fields": save,
        "complete_extraction": lambda _: "The extraction is completed. Version 1.",
    }


def definitions() -> list[dict[str, Any]]:
    from fieldmark.agents.registry import AGENTS

    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in AGENTS["extraction"].toolset.tools.values()
    ]


async def bare_request(base_url: str) -> None:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, SdkMcpTool, create_sdk_mcp_server

    does = answers()

    def handler(name: str) -> Callable[[dict[str, Any]], Any]:
        async def handle(arguments: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": does.get(name, lambda _: "")(arguments)}]}

        return handle

    tools = [SdkMcpTool(d["name"], d["description"], d["input_schema"], handler(d["name"])) for d in definitions()]
    options = ClaudeAgentOptions(
        system_prompt="You extract.",
        mcp_servers={"fieldmark": create_sdk_mcp_server("fieldmark", tools=tools)},
        allowed_tools=[f"mcp__fieldmark__{tool.name}" for tool in tools],
        tools=[],
        setting_sources=[],
        model="claude-sonnet-5",
        env={
            "ANTHROPIC_BASE_URL": base_url,
            "ANTHROPIC_API_KEY": "bench",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
    )
    result = None
    async with ClaudeSDKClient(options) as client:
        await client.query(PROMPT)
        async for message in client.receive_response():
            if isinstance(message, ResultMessage):
                result = message
    assert result is not None and result.result == "Done.", result


# (b) The same tools in a raw loop over the Messages API --------------------------------------------------------------


async def raw_request(client: Any) -> None:
    does = answers()
    tools = definitions()
    messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]
    while True:
        async with client.messages.stream(
            model="claude-sonnet-5", max_tokens=4096, system="You extract.", tools=tools, messages=messages
        ) as stream:
            answer = await stream.get_final_message()
        uses = [block for block in answer.content if block.type == "tool_use"]
        if not uses:
            assert answer.content[0].text == "Done."
            return
        messages.append({"role": "assistant", "content": [block.model_dump() for block in answer.content]})
        results = [
            {"type": "tool_result", "tool_use_id": use.id, "content": does.get(use.name, lambda _: "")(use.input)}
            for use in uses
        ]
        messages.append({"role": "user", "content": results})


async def on_demand(request: Callable[[], Any]) -> None:
    """A process that does as many requests at once as each line says, and tells how long all took, and one of them."""

    async def timed() -> float:
        begun = time.perf_counter()
        await request()
        return time.perf_counter() - begun

    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        begun = time.perf_counter()
        each = await asyncio.gather(*(timed() for _ in range(int(line))))
        print(time.perf_counter() - begun, statistics.median(each), flush=True)


async def bare(base_url: str) -> None:
    await on_demand(lambda: bare_request(base_url))


async def raw(base_url: str) -> None:
    from anthropic import AsyncAnthropic

    async with AsyncAnthropic(base_url=base_url, api_key="bench") as client:
        await on_demand(lambda: raw_request(client))


# Ours: through the API, watched as a stream ---------------------------------------------------------------------------


async def ours(address: str, token: str) -> None:
    import httpx

    async with httpx.AsyncClient(
        base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=DEADLINE_SECONDS
    ) as http:
        taken = await http.post("/api/documents", files={"file": ("a.txt", DOCUMENT.encode())})
        document_id = taken.json()["id"]
        while (await http.get(f"/api/documents/{document_id}")).json()["status"] == "reading":
            await asyncio.sleep(0.05)

        async def request() -> None:
            body = {"document_id": document_id}
            accept = {"Accept": "text/event-stream"}
            last = ""
            async with http.stream("POST", "/api/agent/extract", json=body, headers=accept) as stream:
                async for line in stream.aiter_lines():
                    last = line if line.startswith("data: ") else last
            assert '"complete": true' in last, last

        await on_demand(request)


# Measuring -----------------------------------------------------------------------------------------------------------


class Watched:
    """CPU and peak memory of a process with all its children, dead ones included."""

    def __init__(self, *roots: int) -> None:
        self._roots = [psutil.Process(pid) for pid in roots]
        self.peak = 0
        self.watching = threading.Event()
        threading.Thread(target=self._sample, daemon=True).start()

    def _all(self) -> Iterator[psutil.Process]:
        for root in self._roots:
            yield root
            yield from root.children(recursive=True)

    def cpu(self) -> float:
        spent = 0.0
        for process in self._all():
            try:
                spent += sum(process.cpu_times()[:4])
            except psutil.Error:
                continue
        return spent

    def _sample(self) -> None:
        while True:
            self.watching.wait()
            total = 0
            for process in self._all():
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:
                    continue
            self.peak = max(self.peak, total)
            time.sleep(0.05)


def wait_for(address: str) -> None:
    import httpx

    until = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(address).is_success:
                return
        time.sleep(0.1)
    raise SystemExit("The service did not become ready.")


def main(runs: int, at_once: int, writes: int = 0) -> None:
    from fieldmark.cli.process import LOCAL_USER  # not for the processes that are measured
    from fieldmark.identity.tokens import LocalTokens

    me = str(Path(__file__))
    with (
        tempfile.TemporaryDirectory(prefix="fieldmark-bench-") as home,
        bounded(DEADLINE_SECONDS, Path(home)),
        child(me, "model", str(writes)) as model_process,
    ):
        base_url = said(model_process)
        settings = {
            "FIELDMARK_HOME": home,
            "ANTHROPIC_API_KEY": "bench",
            "ANTHROPIC_BASE_URL": base_url,
            "FIELDMARK_PORT": str(port := free_port()),
            "FIELDMARK_MAX_TURNS": str(writes + 20),
            "DATABASE_URL": "",
            "SUPABASE_URL": "",
        }
        with (
            child("-c", "from fieldmark.cli import main; main()", "serve", **settings) as server,
            child(me, "bare", base_url) as bare_process,
            child(me, "raw", base_url) as raw_process,
        ):
            wait_for(f"http://127.0.0.1:{port}/readyz")
            token = LocalTokens(Path(home)).sign(LOCAL_USER)
            with child(me, "ours", f"http://127.0.0.1:{port}", token) as ours_process:
                database = int((Path(home) / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
                subjects = {
                    "Fieldmark (API, queue, ledger, journal, events, stream)": (ours_process, Watched(server.pid)),
                    "(a) bare ClaudeSDKClient, tools in memory": (bare_process, Watched(bare_process.pid)),
                    "(b) raw anthropic loop, tools in memory": (raw_process, Watched(raw_process.pid)),
                }
                postgres = Watched(database)
                for process, _ in subjects.values():
                    assert said(process) == "ready"
                walls: dict[str, list[float]] = {name: [] for name in subjects}
                singles: dict[str, list[float]] = {name: [] for name in subjects}
                cpus: dict[str, list[float]] = {name: [] for name in subjects}
                postgres_cpu: list[float] = []
                warming_up = 2 if at_once == 1 else 1
                for turn in range(runs + warming_up):
                    for name, (process, watched) in subjects.items():
                        before = watched.cpu()
                        before_postgres = postgres.cpu()
                        watched.watching.set()
                        assert process.stdin is not None
                        process.stdin.write(f"{at_once}\n")
                        process.stdin.flush()
                        wall, single = map(float, said(process).split())
                        time.sleep(0.15)  # the CLI's goodbye belongs to the CPU of its run
                        watched.watching.clear()
                        if turn >= warming_up:
                            walls[name].append(wall)
                            singles[name].append(single)
                            cpus[name].append(watched.cpu() - before)
                            if watched is subjects[next(iter(subjects))][1]:
                                postgres_cpu.append(postgres.cpu() - before_postgres)
                base = "(a) bare ClaudeSDKClient, tools in memory"
                print(f"{runs} times {at_once} at once each, interleaved; median")
                for name, (_, watched) in subjects.items():
                    wall, cpu = statistics.median(walls[name]), statistics.median(cpus[name])
                    peak = watched.peak / 1e6
                    print(
                        f"{name}\n    wall {wall:.3f} s ({wall / statistics.median(walls[base]):.2f} x a), "
                        f"CPU {cpu:.2f} s ({cpu / statistics.median(cpus[base]):.2f} x a), "
                        f"peak {peak:.0f} MB ({watched.peak / subjects[base][1].peak:.2f} x a)"
                        + (f", one of them {statistics.median(singles[name]):.2f} s" if at_once > 1 else "")
                    )
                print(f"    and Postgres itself: CPU {statistics.median(postgres_cpu):.2f} s a time")
                assert model_process.stdin is not None
                model_process.stdin.write("\n")
                model_process.stdin.flush()
                for name, (calls, tokens) in json.loads(said(model_process)).items():
                    times = (runs + warming_up) * at_once * (1 if name == "Fieldmark" else 2)
                    print(f"{name}: the model is called {calls / times:.1f} times, {tokens / times:,.0f} input tokens")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in ("model", "bare", "raw", "ours"):
        asyncio.run({"model": model, "bare": bare, "raw": raw, "ours": ours}[sys.argv[1]](*sys.argv[2:]))
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--runs", type=int, default=20)
        parser.add_argument("--at-once", type=int, default=1)
        parser.add_argument("--writes", type=int, default=0)
        given = parser.parse_args()
        heed_signals()
        main(given.runs, given.at_once, given.writes)
