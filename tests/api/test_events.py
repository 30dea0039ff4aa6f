"""/api/runs/{id}/events: a stream resumes after any event, and slow clients do not block the service."""

from __future__ import annotations

import asyncio
import fcntl
import json
import struct
import termios
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import httpx
import jwt
import psycopg
import pytest
from answers import assert_problem, execute_as_owner, parse_events

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


async def start_run(http: httpx.AsyncClient, document_id: object) -> str:
    """Start a run, read its id from the stream, and disconnect."""
    body = {"document_id": str(document_id)}
    async with http.stream("POST", "/api/agent/extract", json=body, headers=SSE) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                return json.loads(line[6:])["run_id"]
    raise AssertionError("the stream ended before its first event")


async def read_events(
    http: httpx.AsyncClient, run_id: str, after: int, at_most: int = 10_000
) -> list[tuple[int, object]]:
    """Return the events after a number; disconnect after `at_most` events."""
    found: list[tuple[int, object]] = []
    headers = {"last-event-id": str(after)} if after else {}
    async with http.stream("GET", f"/api/runs/{run_id}/events", headers=headers) as stream:
        assert stream.status_code == 200
        event = ""
        async for line in stream.aiter_lines():
            if line:
                event += line + "\n"
                continue
            found += parse_events(event + "\n")
            event = ""
            if len(found) >= at_most:
                break
    return found


def unread_bytes(writer: asyncio.StreamWriter) -> int:
    """Return the number of bytes in the receive buffer of the socket."""
    return struct.unpack("i", fcntl.ioctl(writer.get_extra_info("socket").fileno(), termios.FIONREAD, bytes(4)))[0]


async def test_stream_resumes_after_any_event(serve):
    async with serve(Script(TURNS)) as server:
        body = {"document_id": str(await server.upload_text())}
        live = parse_events((await server.http.post("/api/agent/extract", json=body, headers=SSE)).text)
        at = f"/api/runs/{live[0][1]['run_id']}/events"
        whole = parse_events((await server.http.get(at)).text)
        assert whole == live
        assert [number for number, _ in whole] == list(range(1, len(whole) + 1))
        assert len(whole) > 12 and whole[-2][1] == {"type": "text", "text": "Done:\n\n id: 7\ndata: {}\r\n\u2028 ✓"}
        for cut in range(len(whole) + 1):
            rest = await server.http.get(at, headers={"last-event-id": str(cut)})
            assert whole[:cut] + parse_events(rest.text) == whole, cut
        for number in (len(whole) + 1, 999_999_999):
            answer = await server.http.get(at, headers={"last-event-id": str(number)})
            assert_problem(answer, 400)
        assert parse_events((await server.http.get(at, headers={"last-event-id": ""})).text) == whole
        for garbage in ("x", "-1", "1.0", "1e1", "0x1", "1 2", "9" * 10, "\xb2", "null"):
            answer = await server.http.get(at, headers={"last-event-id": garbage.encode("latin-1")})
            assert_problem(answer, 400)


async def test_expired_events_get_410(serve, clone):
    async with serve(Script(TURNS)) as server:
        body = {"document_id": str(await server.upload_text())}
        live = parse_events((await server.http.post("/api/agent/extract", json=body, headers=SSE)).text)
        at = f"/api/runs/{live[0][1]['run_id']}/events"
        for ended_days_ago, status in ((0.5, 200), (2, 410)):
            await execute_as_owner(
                clone, "update public.runs set finished_at = now() - %s * interval '1 day'", ended_days_ago
            )
            await clear_up(server.runtime.database, Settings(_env_file=None, keep_days=1))
            for headers in ({}, {"last-event-id": "1"}, {"last-event-id": str(len(live))}):
                answer = await server.http.get(at, headers=headers)
                assert answer.status_code == status
                assert status == 200 or answer.json()["code"] == "events_forgotten"


async def test_clients_that_do_not_read_block_nothing(serve, clone):
    released = asyncio.Event()

    async def wait_for_release(_: object) -> list[object]:
        await released.wait()
        return [text("Done.")]

    async with serve(Script([wait_for_release]), pool_size=2) as server:
        run_id = await start_run(server.http, await server.upload_text())
        # More than the socket buffers hold.
        with psycopg.connect(clone.owner_url) as conn:
            conn.execute(
                "insert into public.run_events (run_id, org_id, number, body) "
                "select %s, %s, n, json_build_object('text', repeat('x', 1000000)) from generate_series(2, 16) n",
                (run_id, server.scope.org_id),
            )
        port = int(server.base_url.rsplit(":", 1)[1])
        request = f"GET /api/runs/{run_id}/events HTTP/1.1\r\nhost: x\r\n"
        request += f"authorization: {server.http.headers['authorization']}\r\n\r\n"
        writers = []
        for _ in range(6):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(request.encode())
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writers.append(writer)
        # Sending to them blocks.
        await until(lambda: all(unread_bytes(writer) > 100_000 for writer in writers), PATIENCE)
        for _ in range(10):
            assert (await server.http.get(f"/api/runs/{run_id}")).status_code == 200
        # A blocked stream holds no database connection.
        await until(lambda: server.runtime.database.pool_stats().busy == 0, PATIENCE)
        for writer in writers:
            writer.close()
        released.set()
        assert (await read_events(server.http, run_id, 16))[-1][1]["complete"] is True


async def test_deltas_are_prefixes_of_the_next_event_and_are_not_stored(serve):
    answer_text = "I read \u2713\U0001f600\r\n\nid: 7\ndata: {}\n\n, and so on, until the end of it."
    may_think, may_write = asyncio.Event(), asyncio.Event()
    turns = [
        pause_midway(may_think.wait, thinking("First of all I think, and then I read."), call("get_document_text", {})),
        pause_midway(may_write.wait, text(answer_text)),
    ]

    async def iterate_events(stream: httpx.Response) -> AsyncIterator[tuple[int | None, dict[str, Any]]]:
        """Yield (number, or None without an id; body) of each event."""
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
            live, stored, deltas = iterate_events(stream), [], []
            async for number, body in live:
                if number is None:
                    deltas.append((stored[-1][0], body))
                    may_think.set()
                    if "text_delta" in body:
                        break
                else:
                    stored.append((number, body))
            run_id = stored[0][1]["run_id"]
            # A second stream starts in the middle of a block; a third one does not ask for deltas.
            at = f"/api/runs/{run_id}/events"
            resumed = {"params": {"deltas": "true"}, "headers": {"last-event-id": str(stored[-1][0])}}
            async with server.http.stream("GET", at, **resumed) as second:
                reader = asyncio.create_task(read_events(server.http, run_id, 0))
                may_write.set()
                rest = [event async for event in iterate_events(second)]
            stored += [event async for event in live if event[0]]
        assert (
            await reader == stored and rest == stored[-2:]
        )  # a stream that starts within a block gets no deltas of it
        assert (
            parse_events((await server.http.get(at, params={"deltas": "true"})).text) == stored
        )  # deltas are not stored
    texts = {name: "".join(body.get(name, "") for _, body in deltas) for name in ("thinking_delta", "text_delta")}
    whole = {name: body for _, body in stored for name, body in body.items() if name in ("thinking", "text")}
    assert whole == {"thinking": "First of all I think, and then I read.", "text": answer_text}
    for name, beginning in texts.items():
        assert beginning and whole[name.removesuffix("_delta")].startswith(beginning), name
    # Each delta comes right before the event that contains its text.
    numbers = {name: number for number, body in stored for name in body if name in ("thinking", "text")}
    assert {number + 1 for number, _ in deltas} == set(numbers.values())


@pytest.mark.parametrize("table", ["runs", "documents"])
async def test_stream_ends_at_once_when_its_run_is_deleted(case, table):
    row = {"runs": (run_id := await case.queue_run()), "documents": case.document_id}
    following = follow(case.database, case.scope, run_id, poll_seconds=600)
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.wait({waiting}, timeout=0.2)  # by now it listens, or has not queried yet
    case.sql(f"delete from public.{table} where id = %s", row[table])
    with pytest.raises(NotFound):
        await asyncio.wait_for(waiting, PATIENCE)  # less than the polling interval


async def test_stream_ends_when_its_token_expires(case):
    run_id = await case.queue_run()
    for minutes, ends in ((1, False), (-1, True)):
        scope = replace(case.scope, deadline=time.monotonic() + 60 * minutes)
        following = follow(case.database, scope, run_id, poll_seconds=0.1)
        if ends:
            with pytest.raises(Unauthenticated):
                await anext(following)
        else:
            await anext(following)
        await following.aclose()


async def test_token_that_expired_by_the_clock_of_this_machine_alone_follows_a_run(serve):
    async with serve(Script([[text("Done.")]])) as server:
        body = {"document_id": str(await server.upload_text())}
        whole = parse_events((await server.http.post("/api/agent/extract", json=body, headers=SSE)).text)
        key = (server.runtime.settings.home / "keys" / "tokens").read_bytes()
        claims = {"iss": "fieldmark", "aud": "authenticated", "role": "authenticated"}
        token = jwt.encode({**claims, "sub": str(server.scope.user_id), "exp": time.time() - 240}, key, "HS256")
        async with server.client_with_token(token) as http:
            assert parse_events((await http.get(f"/api/runs/{whole[0][1]['run_id']}/events")).text) == whole


async def test_client_that_disconnects_during_a_query_returns_its_connection(case):
    run_id = await case.queue_run()
    connections = """select pid, wait_event_type = 'Lock' as held from pg_stat_activity
                 where datname = current_database() and application_name = 'fieldmark' and usename <> current_user"""
    async with case.database.as_user(case.scope):
        pass  # the pool has its connection
    pids_before = {row["pid"] for row in case.sql(connections)}
    with psycopg.connect(case.owner_url) as owner:
        owner.execute("lock table public.run_events")
        async with anyio.create_task_group() as readers:
            readers.start_soon(anext, follow(case.database, case.scope, run_id))
            await until(lambda: any(row["held"] for row in case.sql(connections)))
            readers.cancel_scope.cancel()
    await until(lambda: not any(row["held"] for row in case.sql(connections)))
    async with case.database.as_user(case.scope):
        pass
    assert pids_before <= {row["pid"] for row in case.sql(connections)}
