"""Sends random calls of all MCP tools to the real service over HTTP, with ids of the caller's organisation, of another
one, and unknown ids, and checks each result.

    broken    an HTTP status of 500 or higher, a JSON-RPC error, or the code `internal`
    foreign   a result that contains the other organisation's word

    pip install '.[test]' && python tests/mcp_calls.py --calls 20000 --seed 1

Exits with 1 if any of these is not 0.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import functools
import json
import logging
import random
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import structlog

from fieldmark.api.app import create_app, listen, serve_app
from fieldmark.identity.tokens import LocalTokens
from fieldmark.mcp_server.tools import TOOLS
from fieldmark.settings import Settings

FOREIGN_WORD = "Quizzaciously"
VERSIONS = ("2026-07-28", "2025-11-25", "2025-06-18")
_META = "io.modelcontextprotocol/"
_TEXTS = ("invoice", "a", "", "total > 10", "x" * 300, "'; drop table documents --", "\u202e", "\x00")
_VALUES: tuple[Any, ...] = (None, True, -1, 0, 3, 10**30, 1.5, [], {}, [{"a": [1, None]}], *_TEXTS)


class McpCalls:
    """Calls tools over HTTP as a client does, without a session."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def request(self, method: str, params: dict[str, Any], version: str = VERSIONS[0]) -> httpx.Response:
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
        if version == VERSIONS[0]:
            meta = {"protocolVersion": version, "clientCapabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            params = {**params, "_meta": {f"{_META}{name}": value for name, value in meta.items()}}
            headers |= {"MCP-Method": method, **({"MCP-Name": params["name"]} if "name" in params else {})}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self._http.post("/mcp", json=body, headers=headers)

    async def call(self, tool: str, version: str = VERSIONS[0], **arguments: Any) -> dict[str, Any]:
        """Return the result of a call, or the JSON-RPC error as {"error": …}."""
        answer = await self.request("tools/call", {"name": tool, "arguments": arguments}, version)
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        message = json.loads(lines[-1] if lines else answer.content)
        return message.get("result", {"error": message, "status": answer.status_code})


def draw_arguments(draw: random.Random, name: str, ids: list[str]) -> dict[str, Any]:
    """Return arguments of a tool: mostly as its schema says, sometimes any value or a name too many."""
    schema = _schema(name)
    drawn = {
        key: _draw(draw, shape, ids)
        for key, shape in schema.get("properties", {}).items()
        if key in schema.get("required", ()) or draw.random() < 0.4
    }
    if draw.random() < 0.03:
        drawn[draw.choice(["_meta", "organisation", "x"])] = draw.choice(_VALUES)
    if "wait_seconds" in schema.get("properties", {}):
        drawn["wait_seconds"] = 0
    return drawn


@functools.cache
def _schema(name: str) -> dict[str, Any]:
    return TOOLS[name].arguments.model_json_schema()


def _draw(draw: random.Random, shape: dict[str, Any], ids: list[str]) -> Any:
    if draw.random() < 0.05:
        return draw.choice(_VALUES)
    shape = draw.choice(shape["anyOf"]) if "anyOf" in shape else shape
    if "enum" in shape:
        return draw.choice(shape["enum"])
    if shape.get("format") == "uuid":
        return draw.choice([*ids, str(uuid4())])
    match shape.get("type"):
        case "string":
            return draw.choice([*_TEXTS, FOREIGN_WORD, *ids])
        case "integer":
            return draw.choice([shape.get("minimum", 0), shape.get("maximum", 5), 1, 2])
        case "boolean":
            return draw.random() < 0.5
        case "array":
            return [_draw(draw, shape["items"], ids) for _ in range(draw.randint(0, 2))]
        case "object":
            return {draw.choice(["total", "a.b", "", "x[0]"]): draw.choice(_VALUES)}
        case _:
            return None


async def draw_calls(
    http: httpx.AsyncClient, ids: list[str], *, calls: int, seed: int
) -> tuple[collections.Counter[str], list[str]]:
    """Send random calls. Return the number of results by kind, and the faults."""
    draw, client = random.Random(seed), McpCalls(http)
    kinds: collections.Counter[str] = collections.Counter()
    faults: list[str] = []
    for _ in range(calls):
        name = draw.choice([*TOOLS])
        arguments, version = draw_arguments(draw, name, ids), draw.choice(VERSIONS)
        result = await client.call(name, version, **arguments)
        shown = json.dumps(result, ensure_ascii=False)
        if "error" in result or '"code": "internal"' in "".join(_texts(result)):
            faults.append(f"broken {name} {arguments} {shown[:500]}")
        elif not result.get("isError") and FOREIGN_WORD in shown:  # (an error may repeat the client's own word)
            faults.append(f"foreign {name} {arguments} {shown[:500]}")
        kinds[f"{name} {'refused' if result.get('isError') else 'done'}"] += 1
    return kinds, faults


def _texts(result: dict[str, Any]) -> list[str]:
    return [str(part.get("text")) for part in result.get("content", [])]


async def _main(calls: int, seed: int) -> int:
    with tempfile.TemporaryDirectory(prefix="fieldmark-mcp-", ignore_cleanup_errors=True) as home:
        settings = Settings(_env_file=None, home=Path(home), log_level="error", port=0)
        users = [LocalTokens(settings.home).sign(uuid4()) for _ in range(2)]
        async with _serving(settings, users, with_worker=True) as clients:
            ids = [one for place, client in enumerate(clients) for one in await create_objects(client, place == 1)]
        # Without a worker: what the calls start stays queued.
        async with _serving(settings, users, with_worker=False) as clients:
            kinds, faults = await draw_calls(clients[0], ids, calls=calls, seed=seed)
    for kind, number in sorted(kinds.items()):
        print(f"{kind:32} {number}")
    print(*faults[:20], sep="\n")
    print(f"{calls} calls, {len(faults)} faults")
    return 1 if faults else 0


@asynccontextmanager
async def _serving(
    settings: Settings, tokens: list[str], *, with_worker: bool
) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Run the service. Yield a client for each token."""
    app = create_app(settings, with_worker=with_worker, with_ui=False)
    listener = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with app.router.lifespan_context(app), AsyncExitStack() as stack:
        serving = asyncio.create_task(serve_app(app, listener))
        clients = [
            httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=120)
            for token in tokens
        ]
        yield [await stack.enter_async_context(client) for client in clients]
        serving.cancel()
        await asyncio.wait({serving})


async def create_objects(http: httpx.AsyncClient, is_foreign: bool) -> list[str]:
    """Create a document with an extraction, a schema and a thread. Return their ids."""
    word = FOREIGN_WORD if is_foreign else "Own"
    text = f"Invoice number: {word}\nTotal: 10.00 EUR\n".encode()
    http.headers["accept"] = "application/json"
    document = (await http.post("/api/documents", files={"file": (f"{word}.txt", text)})).json()["id"]
    run = (await http.post("/api/agent/extract", json={"document_id": document})).json()
    schema = (await http.post("/api/schemas", json={"name": word, "schema": {"type": "object"}})).json()["id"]
    asked = (await http.post("/api/agent/ask", json={"message": f"What about {word}?"})).json()
    return [document, run["extraction"]["id"], run["run_id"], schema, asked["thread_id"]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    sys.exit(asyncio.run(_main(given.calls, given.seed)))
