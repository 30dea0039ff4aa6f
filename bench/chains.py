"""Whether any decision of a chain of approvals is ever lost, on a busy machine.

Each chain is one run whose model proposes five writes, one after the other. A person approves, edits or rejects each;
now and then the CLIs or the worker are killed right before or right after a decision. A chain is whole if the answer
to each decision showed it done, the fields are what was decided, no write was proposed twice, and the run completed.

    pip install '.[bench]' && python bench/chains.py [--chains 200] [--at-once 3] [--busy 8] [--kills 0.1] [--wait 0]

`--busy` processes do nothing but use the cores meanwhile; `--wait` is FIELDMARK_APPROVAL_WAIT_SECONDS. Ends with 1 if a
chain was not whole.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg

import chaos
from approvals import until_it_answers
from fieldmark.db.embedded import running
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.messages import Body, call, text
from fieldmark.offline_model.server import OfflineModel
from processes import bounded, heed_signals

LENGTH = 5
DEADLINE_SECONDS = 3000
# Not what the CLI makes of a call whose worker died before anybody was asked: a model would propose that one again.
ANSWERED = re.compile(r"Stored, version|A person refused")
TOLD = re.compile(r'- update_field \{"path": "(p\d)"')


def model(body: Body) -> list[Any]:
    """Proposes p1 to p5, then ends. What was decided is read from the conversation, however that was begun."""
    asked: dict[str, str] = {}
    decided: set[str] = set()
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block["type"]:
                case "tool_use":
                    asked[block["id"]] = block["input"]["path"]
                case "tool_result" if ANSWERED.search(json.dumps(block["content"])):
                    decided.add(asked[block["tool_use_id"]])
                case "text":
                    decided.update(TOLD.findall(block["text"]))
                case _:
                    pass
    number = next((n for n in range(1, LENGTH + 1) if f"p{n}" not in decided), None)
    if number is None:
        return [text("Done.")]
    return [call("update_field", {"path": f"p{number}", "value": number, "confidence": 0.9})]


class Killer:
    """Kills what the service needs, and lets it be started again."""

    def __init__(self, processes: chaos.Processes, share: float, chance: random.Random) -> None:
        self._processes = processes
        self._share = share
        self._chance = chance
        self.killed: collections.Counter[str] = collections.Counter()

    def maybe(self) -> None:
        if self._chance.random() >= self._share:
            return
        kind = self._chance.choice(["cli", "worker"])
        found = self._processes.clis() if kind == "cli" else self._processes.pids("worker", up=True)
        for one in found:
            with contextlib.suppress(OSError):
                os.kill(one if isinstance(one, int) else one.pid, signal.SIGKILL)
                self.killed[kind] += 1


async def one_chain(http: httpx.AsyncClient, chance: random.Random, killer: Killer, seconds: list[float]) -> str | None:
    """Why the chain was not whole; None if it was."""
    file = {"file": ("a.txt", b"Invoice number: 1\n")}
    document_id = (await http.post("/api/documents", files=file)).json()["id"]
    result = (await http.post("/api/agent/extract", json={"document_id": document_id, "approval": "ask"})).json()
    fields: dict[str, int] = {}
    for number in range(1, LENGTH + 1):
        if result["status"] != "awaiting_approval":
            return f"after {number - 1} decisions it is {result['status']}: {result.get('error')}"
        pending = result["waits_for"]
        if pending["input"]["path"] != f"p{number}":
            return f"{pending['input']['path']} was proposed again, or too soon, as number {number}"
        said: dict[str, Any] = {"call_id": pending["call_id"], "approved": True}
        match chance.choices(["approve", "edit", "reject"], [6, 2, 2])[0]:
            case "approve":
                fields[f"p{number}"] = number
            case "edit":
                fields[f"p{number}"] = number * 100
                said["input"] = {**pending["input"], "value": number * 100}
            case _:
                said |= {"approved": False, "reason": "No."}
        killer.maybe()
        began = time.monotonic()
        body = {"run_id": result["run_id"], "approvals": [said]}
        async with http.stream(
            "POST", "/api/agent/approve", json=body, headers={"Accept": "text/event-stream"}
        ) as answer:
            if answer.status_code != 200:
                return (
                    f"decision {number} was answered with {answer.status_code}: {(await answer.aread()).decode()[:200]}"
                )
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    seconds.append(time.monotonic() - began)
                    break
        now = (await http.get(f"/api/extractions/{result['extraction']['id']}")).json()
        if now["extracted_fields"] != fields:
            return f"decision {number} was answered, and the fields are {now['extracted_fields']}, not {fields}"
        killer.maybe()
        result = await until_it_waits(http, result["run_id"], pending["call_id"])
    if result["status"] != "completed" or result["extraction"]["extracted_fields"] != fields:
        return f"it ended as {result['status']} ({result.get('error')}) with {result['extraction']['extracted_fields']}"
    return None


async def until_it_waits(http: httpx.AsyncClient, run_id: str, decided: str) -> dict[str, Any]:
    """The run when it waits for another call or has ended, in the shape of the agent's answers."""
    while True:
        run = (await http.get(f"/api/runs/{run_id}")).json()
        waits = run["waits_for"]
        if (waits is not None and waits["call_id"] != decided) or run["status"] in ("completed", "failed", "cancelled"):
            extraction = (await http.get(f"/api/extractions/{run['extraction_id']}")).json()
            return {**run, "run_id": run_id, "extraction": extraction}
        await asyncio.sleep(0.05)


async def measure(options: argparse.Namespace, folder: Path) -> int:
    home = folder / "home"
    home.mkdir()
    chance = random.Random(options.seed)
    os.environ["FIELDMARK_APPROVAL_WAIT_SECONDS"] = str(options.wait)
    headers = {"Authorization": f"Bearer {LocalTokens(home).sign(uuid4())}"}
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(options.busy)]
    try:
        async with OfflineModel(model) as answering:
            with running(home, 18) as database:
                processes = chaos.Processes(folder, answering.base_url, workers=1)
                processes._environment["FIELDMARK_APPROVAL_WAIT_SECONDS"] = str(options.wait)
                try:
                    return await _chains(options, processes, headers, chance, database.owner_url)
                finally:
                    await processes.stop()
                    processes.end()
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


BUSY = f"import time\nend = time.monotonic() + {DEADLINE_SECONDS}\nwhile time.monotonic() < end: pass"


async def _chains(
    options: argparse.Namespace,
    processes: chaos.Processes,
    headers: dict[str, str],
    chance: random.Random,
    owner_url: str,
) -> int:
    async with httpx.AsyncClient(base_url=processes.urls[0], headers=headers, timeout=300) as http:
        processes.keep_up()
        await until_it_answers(http)
        keeping = asyncio.create_task(_keep_up(processes))
        killer, seconds, wrong = Killer(processes, options.kills, chance), list[float](), list[str]()
        room = asyncio.Semaphore(options.at_once)
        done = 0

        async def chain(seed: int) -> None:
            nonlocal done
            async with room:
                try:
                    fault = await one_chain(http, random.Random(seed), killer, seconds)
                except (httpx.HTTPError, json.JSONDecodeError, KeyError) as error:
                    fault = f"{type(error).__name__}: {error}"
                wrong.extend([f"chain {seed}: {fault}"] if fault else [])
                done += 1
                if done % 20 == 0:
                    print(f"{done} chains, {len(wrong)} not whole, load {os.getloadavg()[0]:.1f}", flush=True)

        await asyncio.gather(*(chain(options.seed * 100_000 + n) for n in range(options.chains)))
        keeping.cancel()
        with psycopg.connect(owner_url) as owner:
            query = "select count(*), count(*) filter (where decided_by is not null) from public.tool_calls"
            entered, decided = owner.execute(query).fetchone() or (0, 0)
    seconds.sort()
    print(
        f"chains      {options.chains - len(wrong)} of {options.chains} whole, killed {dict(killer.killed)}, load "
        f"{os.getloadavg()[0]:.1f}; {entered} calls entered, {decided} decided\n"
        f"decisions   {len(seconds)}, request -> told: p50 {statistics.median(seconds) * 1000:.0f} ms, "
        f"p95 {seconds[int(len(seconds) * 0.95)] * 1000:.0f} ms"
    )
    for fault in wrong[:20]:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


async def _keep_up(processes: chaos.Processes) -> None:
    while True:
        processes.keep_up()
        await asyncio.sleep(0.2)


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--busy", type=int, default=8)
    parser.add_argument("--kills", type=float, default=0.1)
    parser.add_argument("--wait", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="fieldmark-chains-", ignore_cleanup_errors=True) as folder,
        bounded(DEADLINE_SECONDS, Path(folder)),
    ):
        Path(folder).chmod(0o755)  # the CLI's own user must be able to reach its folder
        return await measure(options, Path(folder))


if __name__ == "__main__":
    heed_signals()
    sys.exit(asyncio.run(main()))
