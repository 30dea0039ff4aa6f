"""How long after the model has written a field somebody who watches sees it, with its box on the page.

A scripted model writes 80 tokens of four characters a second, as far as the pieces go: the ten fields of a page, in one
message. It notes when the last character of each value was sent; the client notes when its preview came over HTTP. The
model, the service and the client have processes of their own, and clocks that can be compared.

    pip install '.[bench]' && python bench/previews.py [--runs 10]
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

import httpx

from extraction import wait_for
from model_time import FIVE, PAGE, SCHEMA, TOKENS_A_SECOND, VALUES
from processes import bounded, child, free_port, heed_signals, said

DEADLINE_SECONDS = 300


async def model() -> None:
    """Serves; for each line on stdin it says when it had written each value of the last answer."""
    from fieldmark.offline_model.messages import Body, call
    from fieldmark.offline_model.replies import Paced
    from fieldmark.offline_model.server import OfflineModel

    written_at: dict[str, float] = {}
    sent_at = time.perf_counter()

    async def written(words: str) -> None:
        nonlocal sent_at
        for name, value in VALUES.items():
            if name not in written_at and f'"{name}": "{value}"' in words:
                written_at[name] = sent_at
        await asyncio.sleep(1 / TOKENS_A_SECOND)
        sent_at = time.perf_counter()

    def answer(body: Body) -> Paced:
        written_at.clear()
        return Paced([call(name, arguments) for name, arguments in FIVE[1:]], written)

    async with OfflineModel(answer) as server:
        print(server.base_url, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(written_at), flush=True)


async def previews(http: httpx.AsyncClient, document_id: str) -> dict[str, float]:
    """When the preview of each field came, in one extraction."""
    seen: dict[str, float] = {}
    last = ""
    asked: dict[str, Any] = {"params": {"deltas": "true"}, "headers": {"Accept": "text/event-stream"}}
    body = {"document_id": document_id, "schema": SCHEMA}
    async with http.stream("POST", "/api/agent/extract", json=body, **asked) as stream:
        assert stream.is_success, await stream.aread()
        async for line in stream.aiter_lines():
            at = time.perf_counter()
            if line.startswith("data: "):
                last = line
                event = json.loads(line[6:])
                if event["type"] == "preview":
                    assert event["evidence"]["boxes"], event
                    seen[event["path"]] = at
    assert '"complete": true' in last, last
    return seen


async def measure(address: str, token: str, model_process: Any, runs: int) -> None:
    firsts: list[float] = []
    rest: list[float] = []
    async with httpx.AsyncClient(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=120) as http:
        document = (await http.post("/api/documents", files={"file": ("a.txt", PAGE.encode())})).json()
        while (await http.get(f"/api/documents/{document['id']}")).json()["status"] == "reading":
            await asyncio.sleep(0.05)
        for turn in range(runs + 1):
            seen = await previews(http, document["id"])
            model_process.stdin.write("\n")
            model_process.stdin.flush()
            written = json.loads(said(model_process))
            assert seen.keys() == written.keys() == VALUES.keys(), (seen, written)
            waited = [seen[name] - written[name] for name in VALUES]
            if turn:  # the first extraction of a service warms it up
                firsts.append(waited[0])
                rest += waited[1:]
    show("the first field of a call", firsts)
    show("each that follows", rest)


def show(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    p95 = ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]
    print(
        f"{what:26} p50 {statistics.median(ordered) * 1000:6.1f} ms   p95 {p95 * 1000:6.1f} ms   "
        f"most {ordered[-1] * 1000:6.1f} ms   n={len(ordered)}"
    )


def main(runs: int) -> None:
    from fieldmark.cli.process import LOCAL_USER
    from fieldmark.identity.tokens import LocalTokens

    with (
        tempfile.TemporaryDirectory(prefix="fieldmark-bench-") as home,
        bounded(DEADLINE_SECONDS, Path(home)),
        child(str(Path(__file__)), "model") as model_process,
    ):
        settings = {
            "FIELDMARK_HOME": home,
            "ANTHROPIC_API_KEY": "bench",
            "ANTHROPIC_BASE_URL": said(model_process),
            "FIELDMARK_PORT": str(port := free_port()),
            "DATABASE_URL": "",
            "SUPABASE_URL": "",
            "FIELDMARK_LOG_LEVEL": "error",
        }
        with child("-c", "from fieldmark.cli import main; main()", "serve", **settings):
            address = f"http://127.0.0.1:{port}"
            wait_for(f"{address}/readyz")
            asyncio.run(measure(address, LocalTokens(Path(home)).sign(LOCAL_USER), model_process, runs))


if __name__ == "__main__":
    if sys.argv[1:] == ["model"]:
        asyncio.run(model())
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--runs", type=int, default=10)
        given = parser.parse_args()
        heed_signals()
        main(given.runs)
