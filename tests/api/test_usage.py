"""Usage, credit limits and limits on concurrent runs, over HTTP."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, time, timedelta
from urllib.parse import urlsplit
from uuid import UUID

import psycopg
import pytest
from answers import assert_problem

from extraction_case import sql
from fieldmark.offline_model.messages import Turn, call, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

UPDATE = call("update_field", {"path": "total", "value": 10, "confidence": 0.9})
USED = {"input_tokens": 50_000, "output_tokens": 1_000, "cache_read_input_tokens": 10_000}  # 0.112 USD


@pytest.fixture(autouse=True)
async def _avoid_midnight(anyio_backend) -> None:
    """Wait for the next day shortly before midnight: usage is counted per day."""
    now = datetime.now(UTC)
    left = datetime.combine(now.date() + timedelta(days=1), time(), UTC) - now
    if left < timedelta(minutes=2):
        await asyncio.sleep(left.total_seconds() + 1)


def script() -> Script:
    return Script([Turn([UPDATE], usage=USED), Turn([text("Done.")], usage=USED)])


def limit(clone, org_id: UUID, max_usd: float | None = None, runs: int | None = None) -> None:
    with psycopg.connect(clone.owner_url) as owner:
        owner.execute(
            "insert into credit_limits (org_id, max_usd, max_concurrent_runs) values (%s, %s, %s) on conflict (org_id) "
            "do update set max_usd = excluded.max_usd, max_concurrent_runs = excluded.max_concurrent_runs",
            [org_id, max_usd, runs],
        )


async def extract(server, **body):
    document_id = await server.upload_text()
    return await server.http.post("/api/agent/extract", json={"document_id": str(document_id), **body})


async def test_usage_shows_what_is_stored_and_the_quota_refuses_more(serve, clone):
    async with serve() as server:
        sql(
            clone.owner_url,
            "insert into public.credit_limits (org_id, max_documents, max_bytes) values (%s, 1, 1000)",
            server.scope.org_id,
        )
        await server.upload_text("Total: 1")
        assert (await server.get("usage"))["storage"] == {
            "documents": 1,
            "bytes": 8,
            "max_documents": 1,
            "max_bytes": 1000,
        }
        answer = await server.http.post("/api/documents", files={"file": ("a.txt", b"Total: 1")})
        assert_problem(answer, 409, "quota_exceeded")


async def test_usage_is_counted_by_day_agent_and_model(serve, clone):
    async with serve(script()) as server:
        before = await server.get("usage")
        today = datetime.now(UTC).date()
        stored = {"documents": 0, "bytes": 0, "max_documents": None, "max_bytes": None}
        assert before == {
            "since": f"{today.replace(day=1)}",
            "until": f"{today}",
            "items": [],
            "credit": None,
            "storage": stored,
        }
        for model in ("claude-sonnet-5", "claude-sonnet-5", "claude-opus-5"):
            assert (await extract(server, model=model)).json()["status"] == "completed"
        limit(clone, server.scope.org_id, 5, 3)
        answer = await server.get("usage")
        common = {"day": f"{today}", "agent": "extraction", "cache_creation_input_tokens": 0}
        assert answer["items"] == [
            common
            | {"model": "claude-opus-5", "messages": 2, "input_tokens": 100_000, "output_tokens": 2_000}
            | {"cache_read_input_tokens": 20_000, "cost_usd": 0.56},
            common
            | {"model": "claude-sonnet-5", "messages": 4, "input_tokens": 200_000, "output_tokens": 4_000}
            | {"cache_read_input_tokens": 40_000, "cost_usd": 0.448},
        ]
        assert answer["credit"] == {"max_usd": 5, "spent_usd": 1.008, "max_concurrent_runs": 3}
        async with server.client() as stranger:
            stranger_usage = (await stranger.get("/api/usage")).json()
            assert stranger_usage["items"] == [] and stranger_usage["credit"] is None


async def test_since_and_until_are_inclusive(serve, clone):
    async with serve(script()) as server:
        await extract(server)
        today = datetime.now(UTC).date()
        yesterday, tomorrow = today - timedelta(days=1), today + timedelta(days=1)

        async def count(since, until) -> int:
            answer = await server.http.get("/api/usage", params={"since": f"{since}", "until": f"{until}"})
            return sum(item["messages"] for item in answer.json()["items"])

        for since, until in (("2026-02-30", None), ("2026-03-02", "2026-03-01"), ("2024-01-01", "2025-01-01")):
            query = {name: day for name, day in (("since", since), ("until", until)) if day}
            assert_problem(await server.http.get("/api/usage", params=query), 422)
        assert await count(today, today) == await count(yesterday, tomorrow) == 2
        assert await count(yesterday, yesterday) == await count(tomorrow, tomorrow) == 0
        with psycopg.connect(clone.owner_url) as owner:
            owner.execute("update usage_by_day set day = %s", [yesterday])
        assert (await count(yesterday, yesterday), await count(today, today)) == (2, 0)


async def test_without_credit_only_started_runs_are_returned(serve, clone):
    async with serve(script()) as server:
        document_id = str(await server.upload_text())
        key = {"Idempotency-Key": "k"}
        first = await server.http.post("/api/agent/extract", json={"document_id": document_id}, headers=key)
        limit(clone, server.scope.org_id, 0.2)  # 0.224 USD are spent
        answer = await server.http.post("/api/agent/extract", json={"document_id": document_id})
        assert_problem(answer, 402, "out_of_credit")
        correction = {"extraction_id": first.json()["extraction"]["id"], "message": "set total to 11"}
        assert_problem(await server.http.post("/api/agent/correct", json=correction), 402, "out_of_credit")
        again = await server.http.post("/api/agent/extract", json={"document_id": document_id}, headers=key)
        assert again.json()["run_id"] == first.json()["run_id"]
        assert len((await server.get("runs"))["items"]) == 1
        limit(clone, server.scope.org_id, 3)
        assert (await server.http.post("/api/agent/extract", json={"document_id": document_id})).is_success


async def test_model_without_price_is_refused_if_a_cost_limit_applies(serve, clone):
    async with serve(script()) as server:
        assert_problem(await extract(server, model="unheard-of", max_cost_usd=1), 422, "invalid")
        answer = (await extract(server, model="unheard-of")).json()
        assert answer["status"] == "completed" and answer["cost_usd"] is None
        limit(clone, server.scope.org_id, 1000)
        assert_problem(await extract(server, model="unheard-of"), 422)
        assert (await extract(server, model="claude-opus-5", max_cost_usd=1)).json()["status"] == "completed"


async def test_default_month_and_today_are_those_of_the_databases_clock(serve, clone):
    database = urlsplit(clone.owner_url).path[1:]
    far = "create schema far; grant usage on schema far to public; create function far.clock_timestamp() returns "
    far += "timestamptz language sql as $$ select timestamptz '2031-05-20 23:30Z' $$;"
    with psycopg.connect(clone.owner_url, autocommit=True) as owner:
        owner.execute(f"{far} alter database {database} set search_path = far, public, pg_catalog")
    async with serve(with_worker=False) as server:
        for path in ("usage", "overview"):
            answer = (await server.http.get(f"/api/{path}")).json()
            assert (answer["since"], answer["until"]) == ("2031-05-01", "2031-05-20")
        assert (await server.http.get("/api/overview/work")).json()["today"] == "2031-05-20"
