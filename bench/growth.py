"""Whether anything gets slower with a million rows: every reading endpoint, and what a run writes, beside a thousand.

Two databases of one Postgres are filled, a small one (a thousand documents) and a large one (a million by `--scale`).
Of 1,000 organisations one has 30 %. Each document has a page, an extraction, a run, ten events, ten rows of journal,
three calls, two messages of a conversation and two of usage. Then each operation is done in both by turns, for the
organisation with the 30 %, so that whatever else the machine does falls on both alike.

    pip install '.[bench]' && python bench/growth.py [--scale 1] [--seconds 3600] [--folder DIR]

A whole million takes 15 GB of disk. Ends with 1 where the large database takes more than 1.5 times as long (and 0.2 ms
more) by the median.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import httpx
import psycopg
import structlog

from fieldmark.api.app import create_app
from fieldmark.db.embedded import Embedded, running
from fieldmark.db.migrate import migrate
from fieldmark.db.pool import Connection, Database
from fieldmark.domain.events import TextEvent
from fieldmark.identity.scope import Scope
from fieldmark.identity.tokens import LocalTokens
from fieldmark.settings import Settings
from fieldmark.stores import runs, usage
from fieldmark.worker.maintenance import clear_up
from processes import bounded, heed_signals

WORST = 1.5
NOTICEABLE_MS = 0.2
AT_ONCE = 16
FLUSH_MICROSECONDS = 3000
PART = 20_000
"""Rows of documents to a statement while loading."""

# Ids rise with time, as those that the database chooses itself do. The first digits tell the table.
_ID = "('%s0000000-0000-7000-8000-' || lpad(to_hex(%s), 12, '0'))::uuid"
_ORG = _ID.replace("%s", "0", 1) % "o"
_ORG_OF = "case when n % 10 < 3 or $orgs = 1 then 1 else 2 + n % ($orgs - 1) end"

_ORGANISATIONS = f"""
insert into auth.users (id) select {_ORG} from generate_series(1, $orgs) as o;
insert into organisations (id, name, created_by) select {_ORG}, 'Organisation ' || o, {_ORG}
  from generate_series(1, $orgs) as o;
insert into memberships (org_id, user_id, role, created_by) select {_ORG}, {_ORG}, 'owner', {_ORG}
  from generate_series(1, $orgs) as o;
"""
_OF = f"""
from (select n, {_ORG.replace("to_hex(o)", f"to_hex({_ORG_OF})")} as org,
  {_ID % ("d", "n")} as doc, {_ID % ("e", "n")} as ext, {_ID % ("a", "n")} as run,
  now() - ($last - n) * interval '1 year' / $last as at
  from generate_series($first, $until) as n) as one
"""
_FIELDS = "(select jsonb_object_agg('field_' || f, 'value ' || f || ' of ' || n) from generate_series(1, 20) as f)"
_ROWS = f"""
insert into documents (id, org_id, created_by, created_at, filename, storage_path, media_type, byte_size, status,
  page_count) select doc, org, org, at, 'invoice ' || n || '.pdf', concat_ws('/', org, doc, 'a.pdf'),
  'application/pdf', 9, 'ready', 1 {_OF};
insert into document_pages (document_id, org_id, number, width, height, text, words, engine, created_by)
  select doc, org, 1, 595, 842, 'Total ' || n, '[["Total", 0.1, 0.1, 0.2, 0.2]]', 'pdf', org {_OF};
insert into extractions (id, org_id, document_id, created_by, created_at, updated_at, document_type, status,
  extracted_fields, version) select ext, org, doc, org, at, at, 'invoice', 'completed', {_FIELDS}, 10 {_OF};
insert into extraction_journal (org_id, extraction_id, version, path, steps, new, actor, run_id, call_id, created_by,
  created_at) select org, ext, v, array['field_' || v], 'k', to_jsonb('value ' || v || ' of ' || n), 'agent', run,
  'call_' || v, org, at {_OF} cross join generate_series(1, 10) as v;
insert into runs (id, org_id, created_by, created_at, agent, task, document_id, extraction_id, root_run_id, lock_key,
  approval, status, fencing_token, session_id, waiting_call, started_at, finished_at, answer)
  select run, org, org, at, 'extraction', 'extract', doc, ext, run, org || '/extraction/' || ext, 'auto',
  case when n %% 997 = 0 then 'awaiting_approval' else 'completed' end, 1, run,
  case when n %% 997 = 0 then 'call_1' end, at, case when n %% 997 <> 0 then at end, 'Done.' {_OF};
insert into run_events (run_id, number, org_id, body, created_by, created_at)
  select run, e, org, json_build_object('type', 'text', 'text', repeat('word ', 20)), org, at
  {_OF} cross join generate_series(1, 10) as e;
insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, admitted_by, result, code,
  created_by, created_at, finished_at) select run, 'call_' || c, org, 'update_field',
  jsonb_build_object('path', 'field_' || c, 'value', n), repeat('0', 64),
  case when pending then 'pending' else 'done' end, case when not pending then 'policy' end,
  case when not pending then 'Stored.' end, 'ok', org, at, at
  from (select one.*, c, c = 1 and n %% 997 = 0 as pending {_OF} cross join generate_series(1, 3) as c) as one;
insert into usage (run_id, message_id, org_id, agent, model, input_tokens, output_tokens, cache_write_5m_tokens,
  cache_write_1h_tokens, cache_read_tokens, cost_usd, created_by, created_at, root_run_id)
  select run, '1.' || m, org, 'extraction', 'claude-sonnet-5', 1000, 100, 0, 0, 0, 0.01, org, at, run
  {_OF} cross join generate_series(1, 2) as m;
insert into agent_sessions (org_id, project, session_id, uuid, entry, created_by, created_at)
  select org, 'runs', run::text, gen_random_uuid()::text,
  json_build_object('type', 'user', 'message', repeat('word ', 100)), org, at
  {_OF} cross join generate_series(1, 2) as m;
"""
_SUMS = """
insert into usage_by_day (org_id, day, agent, model, slot, messages, unpriced, input_tokens, output_tokens,
  cache_write_tokens, cache_read_tokens, cost_usd)
  select org_id, (created_at at time zone 'utc')::date, agent, model, 0, count(*), 0, sum(input_tokens),
  sum(output_tokens), 0, 0, sum(cost_usd) from usage group by 1, 2, 3, 4;
"""


def load(url: str, count: int, organisations: int) -> None:
    """Fill a migrated database, past all triggers: the rows first, by as many connections as there are cores, and then
    each index in one go, which is much faster than a place in it for each row."""

    def connected() -> psycopg.Connection:
        owner = psycopg.connect(url, autocommit=True)
        for setting in ("search_path = public", "session_replication_role = replica", "synchronous_commit = off"):
            owner.execute(f"set {setting}".encode())
        owner.execute("set maintenance_work_mem = '1GB'")
        owner.execute("set max_parallel_maintenance_workers = 0")
        return owner

    figures = {"$orgs": str(organisations), "$last": str(count)}

    def rows(first: int) -> None:
        part = {"$first": str(first), "$until": str(min(first + PART - 1, count))}
        with connected() as owner:
            owner.execute(_filled(_ROWS.replace("%%", "%"), figures | part))

    def build(table: str) -> None:
        with connected() as owner:
            owner.execute(f"reindex table {table}".encode())
            owner.execute(f"vacuum (analyze) {table}".encode())

    with connected() as owner, ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        owner.execute(_filled(_ORGANISATIONS, figures))
        tables = re.findall(r"^insert into (\w+)", _ROWS, re.MULTILINE)
        # Nothing is entered into an index that is not ready. Rebuilding it makes it ready again.
        owner.execute(
            "update pg_index set indisready = false, indisvalid = false where indrelid = any (%s::regclass[])", [tables]
        )
        list(threads.map(rows, range(1, count + 1, PART)))
        by_size = owner.execute(
            "select relname from pg_class where oid = any (%s::regclass[]) order by pg_relation_size(oid) desc",
            [tables],
        )
        list(threads.map(build, [name for (name,) in by_size.fetchall()]))
        owner.execute(_SUMS.encode())
        # What was never due before is not due in the measured minutes either.
        owner.execute("update private.maintenance set finished_at = now() - interval '1 day'")
        owner.execute("vacuum analyze usage_by_day, organisations, memberships")
        owner.execute("checkpoint")


def _filled(statements: str, figures: dict[str, str]) -> bytes:
    for name, figure in figures.items():
        statements = statements.replace(name, figure)
    return statements.encode()


@dataclass(frozen=True)
class Side:
    """One of the two databases, with its service, as the owner of the organisation that has most of it sees it."""

    owner_url: str
    database: Database
    http: httpx.AsyncClient
    scope: Scope
    count: int
    settings: Settings

    def run(self, n: int) -> UUID:
        return UUID(f"a0000000-0000-7000-8000-{n:012x}")

    def extraction(self, n: int) -> UUID:
        return UUID(f"e0000000-0000-7000-8000-{n:012x}")

    def document(self, n: int) -> UUID:
        return UUID(f"d0000000-0000-7000-8000-{n:012x}")

    def of_ours(self, turn: int) -> int:
        """The number of a document of the organisation, another one each turn."""
        tens = max(self.count // 10 - 1, 1)
        return (turn * 7919 % tens) * 10 + 11 if (turn * 7919 % tens) * 10 + 11 <= self.count else 11


@asynccontextmanager
async def opened(owner_url: str, app_url: str, count: int, home: Path) -> AsyncGenerator[Side]:
    chosen: dict[str, Any] = {"home": home, "database_url": app_url, "warm_processes": 0, "max_live_agents": 1}
    settings = Settings(**chosen)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(app_url, size=2 * AT_ONCE))
        app = create_app(settings)
        await stack.enter_async_context(app.router.lifespan_context(app))
        user = UUID("00000000-0000-7000-8000-000000000001")
        token = LocalTokens(home).sign(user)
        http = await stack.enter_async_context(
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app),
                base_url="http://growth",
                headers={"Authorization": f"Bearer {token}", "X-Org-Id": str(user)},
                timeout=120,
            )
        )
        yield Side(owner_url, database, http, Scope(user, user), count, settings)


Operation = Callable[[Side, int], Awaitable[Any]]


def get(path: str, **params: Any) -> Operation:
    async def ask(side: Side, turn: int) -> None:
        n = side.of_ours(turn)
        ids = {"document": side.document(n), "extraction": side.extraction(n), "run": side.run(n)}
        at = path.format(**ids)
        answer = await side.http.get(at, params={name: str(value).format(**ids) for name, value in params.items()})
        assert answer.is_success, (at, answer.status_code, answer.text[:300])

    return ask


def as_user(work: Callable[[Connection, Side, int], Awaitable[Any]]) -> Operation:
    async def act(side: Side, turn: int) -> None:
        async with side.database.as_user(side.scope) as conn:
            await work(conn, side, turn)

    return act


async def next_page(side: Side, turn: int) -> None:
    """A page from the middle of the organisation's runs."""
    middle = runs.RunPage(datetime.now(UTC) - timedelta(days=180), side.run(1))
    async with side.database.as_user(side.scope) as conn:
        await runs.list_runs(conn, side.scope, status=None, limit=50, after=middle)


async def charge(conn: Connection, side: Side, turn: int) -> None:
    await usage.charge(conn, run_id=uuid4(), org_id=side.scope.org_id, message_id="1.1 m", **MESSAGE)


MESSAGE: dict[str, Any] = {
    "agent": "extraction",
    "model": "claude-sonnet-5",
    "input_tokens": 1000,
    "output_tokens": 100,
    "cache_write_5m_tokens": 0,
    "cache_write_1h_tokens": 0,
    "cache_read_tokens": 0,
    "cost_usd": Decimal("0.02"),
    "wanted_usd": Decimal("0.1"),
}


async def patch(side: Side, turn: int) -> None:
    path = f"/api/extractions/{side.extraction(side.of_ours(turn))}/fields"
    answer = await side.http.patch(path, json={"path": "field_1", "value": f"turn {turn} {uuid4()}"})
    assert answer.is_success, answer.text


async def delete(side: Side, turn: int) -> None:
    n = side.count - (turn + 1) * 10 + 2  # from the end, and no other operation is about these
    answer = await side.http.delete(f"/api/documents/{side.document(n)}")
    assert answer.status_code in (204, 404), answer.text  # gone since an earlier time


async def append(conn: Connection, side: Side, turn: int) -> None:
    await runs.append_event(conn, side.run(side.of_ours(turn)), TextEvent(text="A word."))


async def sweep(side: Side, turn: int) -> None:
    await clear_up(side.database, side.settings)


async def sweep_of_events(side: Side, turn: int) -> None:
    async with side.database.as_service() as conn:
        await conn.execute("select count(private.forget_events('3650 days')) from generate_series(1, 100)")


YEAR = {"since": f"{datetime.now(UTC).date() - timedelta(days=360)}", "until": f"{datetime.now(UTC).date()}"}

OPERATIONS: dict[str, Operation] = {
    "GET /api/documents": get("/api/documents"),
    "GET /api/documents/{id}": get("/api/documents/{document}"),
    "GET /api/documents/{id}/text": get("/api/documents/{document}/text"),
    "GET /api/documents/{id}/pages/1": get("/api/documents/{document}/pages/1"),
    "GET /api/extractions": get("/api/extractions"),
    "GET /api/extractions?document_id": get("/api/extractions", document_id="{document}"),
    "GET /api/extractions/{id}": get("/api/extractions/{extraction}"),
    "GET /api/extractions/{id}?version=5": get("/api/extractions/{extraction}", version=5),
    "GET /api/extractions/{id}/history": get("/api/extractions/{extraction}/history"),
    "GET /api/extractions/{id}/export": get("/api/extractions/{extraction}/export", format="json"),
    "GET /api/runs": get("/api/runs"),
    "GET /api/runs?status=awaiting_approval": get("/api/runs", status="awaiting_approval"),
    "GET /api/runs?status=failed (there are none)": get("/api/runs", status="failed"),
    "a page of runs from their middle": next_page,
    "GET /api/runs/{id}": get("/api/runs/{run}"),
    "GET /api/runs/{id}/events": get("/api/runs/{run}/events"),
    "GET /api/usage": get("/api/usage"),
    "PATCH /api/extractions/{id}/fields": patch,
    "DELETE /api/documents/{id}": delete,
    "append an event": as_user(append),
    "charge a message": as_user(charge),
    "maintenance, nothing due (all tasks)": sweep,
    "— a hundred of one of them, in the database": sweep_of_events,
}
# A year of a small organisation has fewer days in it: that answer is larger itself.
LARGER = {"GET /api/usage of a year": get("/api/usage", **YEAR)}


async def compare(small: Side, large: Side, times: int) -> list[str]:
    """Print both medians of each operation. Answers what got slower."""
    slower: list[str] = []
    print(f"\n| operation | {small.count:,} | {large.count:,} | |\n|---|---|---|---|", flush=True)
    for name, operation in (OPERATIONS | LARGER).items():
        taken: dict[int, list[float]] = {small.count: [], large.count: []}
        for turn in range(times + 6):
            for side in (small, large) if turn % 2 else (large, small):
                began = time.perf_counter()
                await operation(side, turn)
                if turn >= 6:  # by then plans are generic, where Postgres makes them so
                    taken[side.count].append((time.perf_counter() - began) * 1000)
        one, other = (statistics.median(taken[side.count]) for side in (small, large))
        is_slower = name not in LARGER and other > one * WORST and other - one > NOTICEABLE_MS
        slower += [name] * is_slower
        print(f"| {name} | {one:.2f} | {other:.2f} | {other / one:.2f} ×{' !' * is_slower} |", flush=True)
    return slower


async def charges(side: Side, seconds: float, max_usd: int | None) -> float:
    """Messages a second that 16 clients charge to one organisation."""
    with psycopg.connect(side.owner_url) as owner:
        owner.execute("delete from credit_limits")
        if max_usd is not None:
            owner.execute("insert into credit_limits (org_id, max_usd) values (%s, %s)", [side.scope.org_id, max_usd])
        ids = [side.run(side.of_ours(turn)) for turn in range(AT_ONCE)]
        owner.execute("update runs set status = 'running' where id = any(%s)", [ids])
    done = 0

    async def client(run_id: UUID) -> None:
        nonlocal done
        while time.monotonic() < until:
            async with side.database.as_user(side.scope) as conn:
                key = f"1.{uuid4()}"
                refusal = await usage.charge(conn, run_id=run_id, org_id=side.scope.org_id, message_id=key, **MESSAGE)
                assert refusal is None, refusal
            done += 1

    until = time.monotonic() + seconds
    await asyncio.gather(*(client(run_id) for run_id in ids))
    return done / seconds


async def events(side: Side, seconds: float, *, inside: bool) -> float:
    """Events a second that 16 writers add to a run each. `inside`: they notify in the transaction itself, as before."""
    done = 0

    async def writer(run_id: UUID) -> None:
        nonlocal done
        while time.monotonic() < until:
            async with side.database.as_user(side.scope) as conn:
                if inside:
                    body = '{"type": "text", "text": "A word."}'
                    await conn.execute("select private.append_event(%s, %s::json, true)", (run_id, body))
                else:
                    await runs.append_event(conn, run_id, TextEvent(text="A word."))
            done += 1

    until = time.monotonic() + seconds
    await asyncio.gather(*(writer(side.run(side.of_ours(turn))) for turn in range(AT_ONCE)))
    return done / seconds


async def wal_of_runs(side: Side, count: int) -> float:
    """KB of log that a run leaves, from the upload of its document to its end, with the offline model."""
    with psycopg.connect(side.owner_url, autocommit=True) as owner:
        # The log is the whole server's: nobody else writes it meanwhile.
        owner.execute("alter system set autovacuum = off")
        owner.execute("select pg_reload_conf()")
        owner.execute("checkpoint")
        while owner.execute("select from pg_stat_activity where backend_type = 'autovacuum worker'").rowcount:
            await asyncio.sleep(1)

        def position() -> int:
            row = owner.execute("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
            assert row is not None
            return int(row[0])

        async def one(n: int) -> None:
            text = f"Invoice {n}\nVendor: Acme GmbH\nDate: 2026-11-01\nTotal: {n}.00 EUR\n".encode()
            stored = await side.http.post("/api/documents", files={"file": (f"{n}.txt", text, "text/plain")})
            assert stored.is_success, stored.text
            answer = await side.http.post("/api/agent/extract", json={"document_id": stored.json()["id"]})
            assert answer.is_success and answer.json()["status"] == "completed", answer.text[:500]

        # The first after a checkpoint write whole pages, where later ones write what has changed.
        for n in range(count // 2):
            await one(n)
        before = position()
        for n in range(count):
            await one(n)
        kilobytes = (position() - before) / count / 1024
        owner.execute("alter system reset autovacuum")
        owner.execute("select pg_reload_conf()")
        return kilobytes


async def measure(server: Embedded, sides: dict[str, int], home: Path, times: int) -> list[str]:
    async with AsyncExitStack() as stack:
        opened_sides: list[Side] = []
        for name, count in sides.items():
            own = home / name
            own.mkdir(exist_ok=True)
            urls = [urlsplit(url)._replace(path=f"/{name}").geturl() for url in (server.owner_url, server.app_url)]
            opened_sides.append(await stack.enter_async_context(opened(urls[0], urls[1], count, own)))
        small, large = opened_sides
        slower = await compare(small, large, times)
        administration = stack.enter_context(psycopg.connect(server.owner_url, autocommit=True))
        for delay in (0, FLUSH_MICROSECONDS):
            # Whoever flushes waits for so long first, as on a slower disk.
            administration.execute(f"alter system set commit_delay = {delay}".encode())
            administration.execute("alter system set commit_siblings = 0")
            administration.execute("select pg_reload_conf()")
            await asyncio.sleep(1)
            print(f"\n{AT_ONCE} at once, a flush of {'this disk' if not delay else f'{delay / 1000:g} ms more'}:")
            for name, rate in (
                ("messages charged to one organisation without a limit", charges(large, 5, None)),
                ("— with one", charges(large, 5, 1_000_000)),
                ("events, told after the commit", events(large, 5, inside=False)),
                ("— told inside of it", events(large, 5, inside=True)),
            ):
                print(f"- {name}: {await rate:,.0f}/s", flush=True)
        administration.execute("alter system reset commit_delay")
        administration.execute("select pg_reload_conf()")
        for side in opened_sides:
            print(f"log of a run among {side.count:,}: {await wal_of_runs(side, 10):,.0f} KB", flush=True)
        return slower


def filled(server: Embedded, scale: float) -> dict[str, int]:
    """Both databases, migrated and filled, unless they were before. Answers how many documents each has."""
    sides = {"small": 1000, f"large_{round(scale * 1_000_000)}": round(scale * 1_000_000)}
    with psycopg.connect(server.owner_url, autocommit=True) as administration:
        there = {name for (name,) in administration.execute("select datname from pg_database")}
        with altered(administration, fsync="off", full_page_writes="off", autovacuum="off"):
            for name, count in sides.items():
                if name not in there:
                    began = time.monotonic()
                    fill(server, administration, name, count)
                    row = administration.execute("select pg_database_size(%s) / 1e9", [name]).fetchone()
                    assert row is not None
                    taken = time.monotonic() - began
                    print(f"{count:,} documents: {row[0]:.2f} GB in {taken:.0f} s", flush=True)
        administration.execute("checkpoint")
        os.sync()
    return sides


def fill(server: Embedded, administration: psycopg.Connection, name: str, count: int) -> None:
    unfinished = f"{name}_unfinished"
    administration.execute(f"drop database if exists {unfinished}".encode())
    administration.execute(f"create database {unfinished}".encode())
    url = urlsplit(server.owner_url)._replace(path=f"/{unfinished}").geturl()
    asyncio.run(migrate(url, app_password=server.app_password))
    load(url, count, min(1000, max(count // 100, 1)))
    administration.execute(f"alter database {unfinished} rename to {name}".encode())


@contextmanager
def altered(administration: psycopg.Connection, **settings: str) -> Generator[None]:
    """Settings of the whole server, for as long as the block takes."""
    for setting, value in settings.items():
        administration.execute(f"alter system set {setting} = '{value}'".encode())
    administration.execute("select pg_reload_conf()")
    try:
        yield
    finally:
        for setting in settings:
            administration.execute(f"alter system reset {setting}".encode())
        administration.execute("select pg_reload_conf()")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1, help="1: a million documents")
    parser.add_argument("--times", type=int, default=60, help="how often each operation is measured")
    parser.add_argument("--seconds", type=float, default=3600, help="at most, loading included")
    parser.add_argument("--folder", type=Path, help="where the filled databases stay for the next time")
    given = parser.parse_args()
    heed_signals()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with ExitStack() as stack:
        if given.folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="fieldmark-growth-", ignore_cleanup_errors=True)
            home = Path(stack.enter_context(temporary))
        else:
            home = given.folder.resolve()
            home.mkdir(exist_ok=True)
        home.chmod(0o755)
        stack.enter_context(bounded(given.seconds, home))
        server = stack.enter_context(running(home, 18))
        slower = asyncio.run(measure(server, filled(server, given.scale), home, given.times))
    print("\nslower: " + ", ".join(slower) if slower else "\nnothing is slower")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
