"""Measures agent processes that are reused between runs, and checks that runs stay isolated.

Measures how long a first run waits for the agent's first text if a spare process exists. With --canaries, makes that
many runs of 50 organisations with few processes. Each run's document, file name and instructions contain a unique word,
which is searched in all model requests and in all rows of all tables. (`bench/extraction.py compare` measures later
runs.)

    pip install '.[bench]' && python bench/warm.py [--first 20] [--canaries 1000]

Exits with 1 if a word, session, call or cost of a run was found in another run.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import random
import re
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
from psycopg.rows import dict_row

from fieldmark.db.pool import Database
from fieldmark.identity.scope import Scope
from fieldmark.offline_model.messages import Body, Turn, call, text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.services.organisations import scope_of_user
from fieldmark.stores import documents
from fieldmark.testing.script import count_model_answers
from pagewords import Page
from processes import Service, restore_signals, service, time_limit

METRICS_TOKEN = "a-token-of-the-benchmark"
ORGANISATIONS = 50
USERS = 8
CONSECUTIVE_RUNS = (1, 9)
DEADLINE_SECONDS = 1800
CANARY = re.compile(r"canary-[0-9a-f]{32}")
TOKENS = {"input_tokens": 1000, "output_tokens": 10}
TURNS = 4


async def cli_metrics(http: httpx.AsyncClient) -> dict[str, float]:
    """Return the service's metrics of its agent processes: {name{label}: value}."""
    lines = (await http.get("/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})).text.splitlines()
    metrics = [line.rsplit(" ", 1) for line in lines if re.match(r"fieldmark_(warm_|live_)?clis", line)]
    return {name.removeprefix("fieldmark_"): float(value) for name, value in metrics if "_created" not in name}


@dataclass
class User:
    """A user with their own organisation, and a new document for each run."""

    scope: Scope
    http: httpx.AsyncClient

    async def document(self, database: Database, words: str, name: str = "a.txt") -> UUID:
        """Insert a document that is already read: reading is not measured here."""
        document_id = uuid4()
        page = Page(number=1, width=600, height=800, text=words, words=[], engine="text")
        async with database.as_user(self.scope) as conn:
            path = f"{self.scope.org_id}/{document_id}/a.txt"
            await documents.add(
                conn, document_id=document_id, org_id=self.scope.org_id, filename=name, storage_path=path, byte_size=1
            )
            await documents.add_pages(conn, document_id, self.scope.org_id, [page])
            await documents.finish_reading(conn, document_id, media_type="text/plain", page_count=1)
        return document_id


async def create_users(at: Service, database: Database, count: int) -> list[User]:
    users = [uuid4() for _ in range(count)]
    return [User(await scope_of_user(database, user), at.client(user)) for user in users]


# The first word ------------------------------------------------------------------------------------------------------


async def measure_first_words(home: Path, times: int) -> None:
    async def answer(body: Body) -> list[Any]:
        if count_model_answers(body) == 0:
            return [text("I read it."), call("get_document_text")]
        return [text("Done.")]

    seconds: list[float] = []
    async with OfflineModel(answer) as model:
        with service(home, model.base_url, FIELDMARK_METRICS_TOKEN=METRICS_TOKEN) as at:
            async with Database(at.database.app_url, size=2) as database:
                for user in await create_users(at, database, times + 1):
                    body = {"document_id": str(await user.document(database, "Total: 1"))}
                    while not (await cli_metrics(user.http)).get('warm_clis{state="spare"}'):
                        await asyncio.sleep(0.05)
                    await asyncio.sleep(0.2)  # the rest of the connection setup is not part of this run
                    seconds.append(await seconds_to_first_word(user.http, body))
                    await user.http.aclose()
    seconds = sorted(seconds[1:])
    p95 = seconds[min(len(seconds) - 1, round(0.95 * len(seconds)))]
    print(f"request to the first word, a spare process there, {times} organisations' first runs:")
    print(
        f"    p50 {statistics.median(seconds) * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms, most {seconds[-1] * 1000:.0f} ms"
    )


async def seconds_to_first_word(http: httpx.AsyncClient, body: dict[str, str]) -> float:
    started, first = time.perf_counter(), 0.0
    accept = {"Accept": "text/event-stream"}
    async with http.stream("POST", "/api/agent/extract", json=body, headers=accept) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: ") and not first and json.loads(line[6:])["type"] == "text":
                first = time.perf_counter() - started
    assert first
    return first


# Canaries ------------------------------------------------------------------------------------------------------------


@dataclass
class ModelRequests:
    """The model requests by canary of their run."""

    requests: collections.Counter[str] = field(default_factory=collections.Counter)
    of_session: dict[str, str] = field(default_factory=dict)
    prefixes: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def answer(self, body: Body) -> Turn:
        canaries = set(CANARY.findall(json.dumps(body)))
        if len(canaries) != 1:
            self.faults.append(f"a request holds {len(canaries)} canaries: {sorted(canaries)}")
        canary = min(canaries, default="")
        session = json.loads(body["metadata"]["user_id"])["session_id"]
        if self.of_session.setdefault(session, canary) != canary:
            self.faults.append(f"session {session} is that of {self.of_session[session]} and of {canary}")
        self.requests[canary] += 1
        self.prefixes.add(json.dumps([body["tools"], body["system"]]))
        turns = [
            [call("get_document_text")],
            [call("extract_fields", {"fields": {"vendor": canary}, "confidences": {"vendor": 0.9}})],
            [call("complete_extraction")],
            [text(f"Done with {canary}.")],
        ]
        return Turn(turns[min(count_model_answers(body), 3)], usage=TOKENS)


async def check_canaries(home: Path, runs: int, seed: int) -> int:
    found, chance = ModelRequests(), random.Random(seed)
    expected: dict[str, tuple[UUID, UUID]] = {}  # canary: (organisation, run)
    settings = {
        "FIELDMARK_METRICS_TOKEN": METRICS_TOKEN,
        "FIELDMARK_MAX_LIVE_AGENTS": str(USERS),
        "FIELDMARK_WARM_SPARES": "6",
        "FIELDMARK_MODEL_PRICE": "3/15",
    }
    async with OfflineModel(found.answer) as model:
        with service(home, model.base_url, **settings) as at:
            async with Database(at.database.app_url, size=USERS + 2) as database:
                users = await create_users(at, database, ORGANISATIONS)
                free = list(users)
                started = time.monotonic()

                async def work() -> None:
                    while len(expected) < runs:
                        user = free.pop(chance.randrange(len(free)))
                        for _ in range(chance.randint(*CONSECUTIVE_RUNS)):
                            if len(expected) >= runs:
                                break
                            canary = f"canary-{uuid4().hex}"
                            expected[canary] = (user.scope.org_id, UUID(int=0))
                            document = await user.document(database, f"Vendor: {canary}", f"{canary}.txt")
                            body = {"document_id": str(document), "instructions": f"/model {canary}"}
                            ended = (await user.http.post("/api/agent/extract", json=body)).json()
                            if ended.get("status") != "completed":
                                found.faults.append(f"a run did not complete: {ended}")
                                continue
                            expected[canary] = (user.scope.org_id, UUID(ended["run_id"]))
                        free.append(user)

                await asyncio.gather(*[work() for _ in range(USERS)])
                seconds = time.monotonic() - started
                metrics = await cli_metrics(users[0].http)
                search_database(at.database.owner_url, expected, found)
                for user in users:
                    await user.http.aclose()
    print(f"{len(expected)} runs of {ORGANISATIONS} organisations in {seconds:.0f} s, {USERS} at once, seed {seed}")
    print(f"    processes: {', '.join(f'{name} {value:.0f}' for name, value in metrics.items() if value)}")
    print(f"    {sum(found.requests.values())} requests, {len(found.of_session)} sessions, ", end="")
    print(f"{len(found.prefixes)} prefix of tools and system prompt, {len(found.faults)} faults")
    for fault in found.faults[:20]:
        print(f"    {fault}", file=sys.stderr)
    return 1 if found.faults or len(found.prefixes) != 1 else 0


def search_database(owner_url: str, expected: dict[str, tuple[UUID, UUID]], found: ModelRequests) -> None:
    """Search all rows of all tables: a canary may only occur with its own organisation and run."""
    rows = 0
    with psycopg.connect(owner_url, row_factory=dict_row) as owner:
        run_of_session = {
            str(row["session_id"]): row["id"] for row in owner.execute("select id, session_id from public.runs")
        }
        if len(run_of_session) != len(expected):
            found.faults.append(f"{len(run_of_session)} sessions of {len(expected)} runs")
        tables = owner.execute(
            """select c.oid::regclass::text as name, array_agg(a.attname::text) as columns
               from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
               where c.relkind = 'r' and n.nspname in ('public', 'queue', 'private') and a.attnum > 0
               group by c.oid"""
        ).fetchall()
        seen: collections.Counter[str] = collections.Counter()
        for table in tables:
            columns = set(table["columns"])
            org = "t.org_id" if "org_id" in columns else "null::uuid"
            run = (
                "t.id"
                if table["name"] in ("runs", "public.runs")
                else "t.run_id"
                if "run_id" in columns
                else "null::uuid"
            )
            session = "t.session_id::text" if table["name"].endswith("agent_sessions") else "null::text"
            query = f"select {org} as org, {run} as run, {session} as session, t::text as row from {table['name']} t"
            for row in owner.execute(query):
                rows += 1
                held = set(CANARY.findall(row["row"]))
                seen[table["name"]] += bool(held)
                if len(held) > 1:
                    found.faults.append(f"a row of {table['name']} holds {sorted(held)}")
                run_id = row["run"] or run_of_session.get(row["session"] or "")
                if row["session"] and run_id is None:
                    found.faults.append(f"a row of {table['name']} is of session {row['session']}, which no run has")
                for canary in held:
                    org_id, of = expected[canary]
                    if row["org"] is not None and row["org"] != org_id:
                        found.faults.append(f"{canary} stands in {table['name']} of another organisation")
                    if run_id is not None and run_id != of:
                        found.faults.append(f"{canary} stands in {table['name']} of another run")
        costs = owner.execute(
            """select run_id, count(*) as messages, sum(cost_usd) as cost, count(distinct org_id) as orgs,
                 min(org_id::text) as org
               from public.usage group by run_id"""
        ).fetchall()
        org_of = {run: str(org) for org, run in expected.values()}
        price = TURNS * (TOKENS["input_tokens"] * 3 + TOKENS["output_tokens"] * 15) / 1e6
        for cost in costs:
            if cost["messages"] != TURNS or abs(float(cost["cost"]) - price) > 1e-9 or cost["orgs"] != 1:
                found.faults.append(f"run {cost['run_id']} was charged {cost['messages']} messages, {cost['cost']} USD")
            if org_of.get(cost["run_id"]) != cost["org"]:
                found.faults.append(f"run {cost['run_id']} was charged to another organisation")
        if len(costs) != len(expected):
            found.faults.append(f"{len(costs)} of {len(expected)} runs were charged")
    for canary in expected:
        if found.requests[canary] != TURNS:
            found.faults.append(f"{canary} was in {found.requests[canary]} requests and not in {TURNS}")
    where = ", ".join(f"{name} {count}" for name, count in sorted(seen.items()) if count)
    print(f"searched {rows} rows of {len(tables)} tables; canaries in {where}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=20, help="first runs beside a spare process (0: none)")
    parser.add_argument("--canaries", type=int, default=0, help="runs of 50 organisations (0: none)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fieldmark-warm-") as folder, time_limit(DEADLINE_SECONDS, Path(folder)):
        if options.first:
            asyncio.run(measure_first_words(Path(folder), options.first))
    if not options.canaries:
        return 0
    with tempfile.TemporaryDirectory(prefix="fieldmark-warm-") as folder, time_limit(DEADLINE_SECONDS, Path(folder)):
        return asyncio.run(check_canaries(Path(folder), options.canaries, options.seed))


if __name__ == "__main__":
    restore_signals()
    sys.exit(main())
