"""How long a write takes: from the hook to the commit of `update_field`, and from that commit to a client's event.

One run with a hundred calls of `update_field` in a service of its own process; the scripted model without delay and the
client that follows the stream over HTTP have theirs. The hook and the tools are stamped from outside, by a clock that
all processes share; beside each figure stands what the CLI itself takes between the hook's answer and the call of the
tool, which is no work of ours.

    pip install '.[bench]' && python bench/latency.py [--calls 100]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import uvicorn

from fieldmark.api.app import create_app
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.messages import call, text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.engine import tool_executor
from fieldmark.runs.engine.permission_hook import PermissionHook
from fieldmark.settings import Settings
from fieldmark.telemetry.logs import set_up_logs
from fieldmark.testing.script import Script
from processes import child, said

stamps: dict[str, dict[str, float]] = {}


def stamp(call_id: str | None, what: str) -> None:
    if call_id:
        stamps.setdefault(call_id, {})[what] = time.perf_counter()


def watch_hook_and_tools() -> None:
    hook, run = PermissionHook.__call__, tool_executor.run_call

    async def stamped_hook(self: PermissionHook, given: Any, call_id: str | None, context: Any) -> Any:
        stamp(call_id, "hook")
        verdict = await hook(self, given, call_id, context)
        stamp(call_id, "admitted")
        return verdict

    async def stamped_run(
        toolset: Any, context: Any, name: str, call_id: str | None, arguments: Any, ahead: Any
    ) -> Any:
        stamp(call_id, "called")
        answer = await run(toolset, context, name, call_id, arguments, ahead)
        stamp(call_id, "committed")
        return answer

    PermissionHook.__call__ = stamped_hook
    tool_executor.run_call = stamped_run


async def model(calls: str) -> None:
    turns = [[call("update_field", {"path": f"field_{n}", "value": n, "confidence": 0.9})] for n in range(int(calls))]
    async with OfflineModel(Script([*turns, [text("Done.")]])) as server:
        print(server.base_url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def client(address: str, token: str) -> None:
    """Follows one extraction and prints, for each field, when its event was there."""
    async with httpx.AsyncClient(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=120) as http:
        document = (await http.post("/api/documents", files={"file": ("a.txt", b"Total: 1")})).json()
        while (await http.get(f"/api/documents/{document['id']}")).json()["status"] == "reading":
            await asyncio.sleep(0.05)
        body = {"document_id": document["id"]}
        seen: dict[str, float] = {}
        async with http.stream(
            "POST", "/api/agent/extract", json=body, headers={"Accept": "text/event-stream"}
        ) as stream:
            async for line in stream.aiter_lines():
                at = time.perf_counter()
                event = json.loads(line[6:]) if line.startswith("data: ") else {"type": None}
                if event["type"] == "changed":
                    seen[event["changed"][0]["path"]] = at
                assert event["type"] != "error", line
        print(json.dumps(list(seen.values())), flush=True)


async def measure(calls: int) -> None:
    set_up_logs("error")
    watch_hook_and_tools()
    me = str(Path(__file__))
    with (
        tempfile.TemporaryDirectory(prefix="fieldmark-bench-") as home,
        child(me, "model", str(calls)) as model_process,
    ):
        settings = Settings(
            home=Path(home),
            anthropic_api_key="bench",
            anthropic_base_url=said(model_process),
            database_url=None,
            supabase_url=None,
            max_turns=calls + 10,
            log_level="error",
            _env_file=None,
        )
        server = uvicorn.Server(uvicorn.Config(create_app(settings), port=0, log_config=None))
        serving = asyncio.create_task(server._serve())
        while not server.started:
            await asyncio.sleep(0.01)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        with child(me, "client", address, LocalTokens(Path(home)).sign(uuid4())) as client_process:
            events: list[float] = json.loads(await asyncio.to_thread(said, client_process))[5:]
        server.should_exit = True
        await serving
    times = list(stamps.values())[5:]
    show("hook to commit", [one["committed"] - one["hook"] for one in times])
    show("  of it the hook", [one["admitted"] - one["hook"] for one in times])
    show("  of it the CLI", [one["called"] - one["admitted"] for one in times])
    show("  of it the tool", [one["committed"] - one["called"] for one in times])
    show("commit to client's event", [at - one["committed"] for one, at in zip(times, events, strict=True)])


def show(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    p95 = ordered[int(len(ordered) * 0.95)]
    print(f"{what:32} p50 {statistics.median(ordered) * 1000:6.2f} ms   p95 {p95 * 1000:6.2f} ms   n={len(ordered)}")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in ("model", "client"):
        asyncio.run({"model": model, "client": client}[sys.argv[1]](*sys.argv[2:]))
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--calls", type=int, default=100)
        asyncio.run(measure(parser.parse_args().calls))
