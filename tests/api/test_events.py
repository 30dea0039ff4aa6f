"""/api/runs/{id}/events: a stream that can be cut anywhere and loses nothing, and that costs the others nothing."""

from __future__ import annotations

import asyncio
import fcntl
import json
import struct
import termios
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import httpx
import psycopg
import pytest
from answers import as_owner, events, problem

from extraction_case import until
from fieldmark.errors import NotFound, Unauthenticated
from fieldmark.offline_model.messages import call, text, thinking
from fieldmark.runs.events.follow import follow
from fieldmark.settings import Settings
from fieldmark.testing.script import Script, pause_midway
from fieldmark.worker.maintenance import clear_up
from running_server import PATIENCE

pytestmark = pytest.mark.anyio

SSE = {"accept": "text/event-stream"}
TURNS = [
    [thinking("First I read."), call("get_document_text", {})],
    [call("identify_document", {"document_type": "invoice", "confidence": 0.9})],
    [call("extract_fields", {"fields": {"number": "1"}, "confidences": {"number": 0.9}})],
    [call("update_field", {"path": "items[3]", "value": 1, "confidence": 0.9})],
    [call("complete_extraction", {})],
    [text("Done:\n\n id: 7\ndata: {}\r\n\u2028 ✓")],
]


async def start(http: httpx.AsyncClient, document_id: object) -> str:
    """Starts a run and goes away as soon as it is named."""
    body = {"document_id": str(document_id)}
    async with http.stream("POST", "/api/agent/extract", json=body, headers=SSE) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                return json.loads(line[6:])["run_id"]
    raise AssertionError("the stream ended before its first event")


async def read(http: httpx.AsyncClient, run_id: str, after: int, at_most: int = 10_000) -> list[tuple[int, object]]:
    """The events behind a number; the connection is cut after `at_most` of them."""
    found: list[tuple[int, object]] = []
    headers = {"last-event-id": str(after)} if after else {}
    async with http.stream("GET", f"/api/runs/{run_id}/events", headers=headers) as stream:
        assert stream.status_code == 200
        event = ""
        async for line in stream.aiter_lines():
            if line:
                event += line + "\n"
                continue
            found += events(event + "\n")
            event = ""
            if len(found) >= at_most:
                break
    return found


def unread(writer: asyncio.StreamWriter) -> int:
    """Bytes that have come to this end and that nobody has taken."""
    return struct.unpack("i", fcntl.ioctl(writer.get_extra_info("socket").fileno(), termios.FIONREAD, bytes(4)))[0]


async def test_a_stream_cut_anywhere_goes_on_where_it_was(serve):
    async with serve(Script(TURNS)) as server:
        body = {"document_id": str(await server.upload_text())}
        live = events((await server.http.post("/api/agent/extract", json=body, headers=SSE)).text)
        at = f"/api/runs/{live[0][1]['run_id']}/events"
        whole = events((await server.http.get(at)).text)
        assert whole == live
        assert [number for number, _ in whole] == list(range(1, len(whole) + 1))
        assert len(whole) > 12 and whole[-2][1] == {"type": "text", "text": "Done:\n\n id: 7\ndata: {}\r\n\u2028 ✓"}
        for cut in range(len(whole) + 1):
            rest = await server.http.get(at, headers={"last-event-id": str(cut)})
            assert whole[:cut] + events(rest.text) == whole, cut
        for foreign in (len(whole) + 1, 999_999_999):
            answer = await server.http.get(at, headers={"last-event-id": str(foreign)})
            assert "no event of this run" in problem(answer, 400)
        assert events((await server.http.get(at, headers={"last-event-id": ""})).text) == whole
        for garbage in ("x", "-1", "1.0", "1e1", "0x1", "1 2", "9" * 10, "\xb2", "null"):
            answer = await server.http.get(at, headers={"last-event-id": garbage.encode("latin-1")})
            assert "Last-Event-ID" in problem(answer, 400), garbage


async def test_a_run_whose_events_are_kept_no_longer_says_so(serve, clone):
    async with serve(Script(TURNS)) as server:
        body = {"document_id": str(await server.upload_text())}
        live = events((await server.http.post("/api/agent/extract", json=body, headers=SSE)).text)
        at = f"/api/runs/{live[0][1]['run_id']}/events"
        for ended_days_ago, status in ((0.5, 200), (2, 410)):
            await as_owner(clone, "update public.runs set finished_at = now() - %s * interval '1 day'", ended_days_ago)
            await clear_up(server.runtime.database, Settings(_env_file=None, keep_days=1))
            for headers in ({}, {"last-event-id": "1"}, {"last-event-id": str(len(live))}):
                answer = await server.http.get(at, headers=headers)
                assert answer.status_code == status
                assert status == 200 or answer.json()["code"] == "events_forgotten"


async def test_readers_that_do_not_read_hold_nothing_up(serve, clone):
    let_go = asyncio.Event()

    async def wait_for_release(_: object) -> list[object]:
        await let_go.wait()
        return [text("Done.")]

    async with serve(Script([wait_for_release]), pool_size=2) as server:
        run_id = await start(server.http, await server.upload_text())
        # More than all buffers between here and there take.
        with psycopg.connect(clone.owner_url) as conn:
            conn.execute(
                "insert into public.run_events (run_id, org_id, number, body) "
                "select %s, %s, n, json_build_object('text', repeat('x', 1000000)) from generate_series(2, 16) n",
                (run_id, server.scope.org_id),
            )
        port = int(server.base_url.rsplit(":", 1)[1])
        request = f"GET /api/runs/{run_id}/events HTTP/1.1\r\nhost: x\r\n"
        request += f"authorization: {server.http.headers['authorization']}\r\n\r\n"
        silent = []
        for _ in range(6):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(request.encode())
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            silent.append(writer)
        # They are being sent events, and are stuck in that.
        await until(lambda: all(unread(writer) > 100_000 for writer in silent), PATIENCE)
        for _ in range(10):
            assert (await server.http.get(f"/api/runs/{run_id}")).status_code == 200
        # Whatever is busy is so for a moment: a reader who had a connection would never give it back.
        await until(lambda: server.runtime.database.pool_stats().busy == 0, PATIENCE)
        for writer in silent:
            writer.close()
        let_go.set()
        assert (await read(server.http, run_id, 16))[-1][1]["complete"] is True


async def test_deltas_are_the_beginning_of_what_comes_next_for_whoever_asks_and_whenever(serve):
    words = "I read \u2713\U0001f600\r\n\nid: 7\ndata: {}\n\n, and so on, until the end of it."
    think, write = asyncio.Event(), asyncio.Event()
    turns = [
        pause_midway(think.wait, thinking("First of all I think, and then I read."), call("get_document_text", {})),
        pause_midway(write.wait, text(words)),
    ]

    async def each(stream: httpx.Response) -> AsyncIterator[tuple[int | None, dict[str, Any]]]:
        """(number, or None without one; object) of each event, as they come."""
        part: dict[str, str] = {}
        async for line in stream.aiter_lines():
            if line.startswith(("id: ", "data: ")):
                part |= [line.split(": ", 1)]
            elif not line and part:
                yield int(part["id"]) if "id" in part else None, json.loads(part["data"])
                part = {}

    async with serve(Script(turns)) as server:
        body = {"document_id": str(await server.upload_text())}
        ask = {"params": {"deltas": "true"}, "headers": SSE}
        async with (
            asyncio.timeout(PATIENCE),
            server.http.stream("POST", "/api/agent/extract", json=body, **ask) as stream,
        ):
            live, kept, gathered = each(stream), [], []
            async for number, said in live:
                if number is None:
                    gathered.append((kept[-1][0], said))
                    think.set()
                    if "text_delta" in said:
                        break
                else:
                    kept.append((number, said))
            run_id = kept[0][1]["run_id"]
            # Another comes while the model is in the middle of it, one has not asked, and one asks for JSON.
            at = f"/api/runs/{run_id}/events"
            begun = {"params": {"deltas": "true"}, "headers": {"last-event-id": str(kept[-1][0])}}
            async with server.http.stream("GET", at, **begun) as second:
                patient = asyncio.create_task(read(server.http, run_id, 0))
                write.set()
                rest = [event async for event in each(second)]
            kept += [event async for event in live if event[0]]
        assert await patient == kept and rest == kept[-2:]  # who comes in the middle of a block hears the next one
        assert events((await server.http.get(at, params={"deltas": "true"})).text) == kept  # nothing of them was kept
    texts = {name: "".join(said.get(name, "") for _, said in gathered) for name in ("thinking_delta", "text_delta")}
    whole = {name: said for _, body in kept for name, said in body.items() if name in ("thinking", "text")}
    assert whole == {"thinking": "First of all I think, and then I read.", "text": words}
    for name, beginning in texts.items():
        assert beginning and whole[name.removesuffix("_delta")].startswith(beginning), name
    # Each was told right before the event that it is the beginning of.
    numbers = {name: number for number, body in kept for name in body if name in ("thinking", "text")}
    assert {number + 1 for number, _ in gathered} == set(numbers.values())


@pytest.mark.parametrize("table", ["runs", "documents"])
async def test_a_reader_hears_at_once_of_a_run_that_is_deleted(case, table):
    row = {"runs": (run_id := await case.queue_run()), "documents": case.document_id}
    following = follow(case.database, case.scope, run_id, poll_seconds=600)
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.wait({waiting}, timeout=0.2)  # it listens by now, or looks for the first time later
    case.sql(f"delete from public.{table} where id = %s", row[table])
    with pytest.raises(NotFound):
        await asyncio.wait_for(waiting, PATIENCE)  # fewer seconds than it would look after by itself


async def test_a_reader_whose_token_or_key_has_expired_is_cut_off(case):
    run_id = await case.queue_run()
    for minutes, ends in ((1, False), (-1, True)):
        scope = replace(case.scope, expires_at=datetime.now(UTC) + timedelta(minutes=minutes))
        following = follow(case.database, scope, run_id, poll_seconds=0.1)
        if ends:
            with pytest.raises(Unauthenticated):
                await anext(following)
        else:
            await anext(following)
        await following.aclose()


async def test_a_reader_that_is_cut_off_in_the_middle_of_a_statement_costs_no_connection(case):
    run_id = await case.queue_run()
    at_work = """select pid, wait_event_type = 'Lock' as held from pg_stat_activity
                 where datname = current_database() and application_name = 'fieldmark' and usename <> current_user"""
    async with case.database.as_user(case.scope):
        pass  # the pool has its connection
    before = {row["pid"] for row in case.sql(at_work)}
    with psycopg.connect(case.owner_url) as owner:
        owner.execute("lock table public.run_events")
        async with anyio.create_task_group() as readers:
            readers.start_soon(anext, follow(case.database, case.scope, run_id))
            await until(lambda: any(row["held"] for row in case.sql(at_work)))
            readers.cancel_scope.cancel()
    await until(lambda: not any(row["held"] for row in case.sql(at_work)))
    async with case.database.as_user(case.scope):
        pass
    assert before <= {row["pid"] for row in case.sql(at_work)}
