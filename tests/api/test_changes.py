"""The feed of changes and webhooks: every change once, in order, to whom it belongs, signed, and sent again until it
arrives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from answers import assert_problem
from members import create_org, new_member
from standardwebhooks import Webhook, WebhookVerificationError

from extraction_case import sql, until
from fieldmark.services.webhooks import Sender, signed_headers
from fieldmark.stores import changes, webhooks
from http_stub import http_stub

pytestmark = pytest.mark.anyio

LOOPBACK = {"private_networks": ["127.0.0.0/8"]}


class Receiver:
    """A receiver on loopback. It answers with the statuses in `answers`, and then always with 204."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.url = ""

    def handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(({key.lower(): value for key, value in self.headers.items()}, body))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 204)
                self.send_header("location", "/elsewhere")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    with http_stub(made.handler()) as url:
        made.url = f"{url}/hook?a=b"
        yield made


async def feed(http: Any, after: Any = 0, **query: Any) -> dict[str, Any]:
    answer = await http.get("/api/changes", params={"after": after, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def feed_of(http: Any, count: int, **query: Any) -> dict[str, Any]:
    """Return the feed as soon as it has so many changes."""

    async def is_there() -> bool:
        return len((await feed(http, **query))["items"]) >= count

    await until(is_there)
    return await feed(http, **query)


async def create_webhook(http: Any, url: str, *types: str) -> dict[str, Any]:
    answer = await http.post("/api/webhooks", json={"url": url, "types": list(types)})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def deliveries(http: Any, webhook: dict[str, Any]) -> list[dict[str, Any]]:
    return (await http.get(f"/api/webhooks/{webhook['id']}/deliveries")).json()["items"]


async def test_the_feed_lists_what_happened_to_a_document_in_order(serve):
    async with serve() as server:
        document = await server.upload_text()
        run = await server.extract(document)
        extraction = run["extraction"]["id"]
        path, value = next(iter((await server.extraction(extraction))["extracted_fields"].items()))
        changed = await server.http.patch(
            f"/api/extractions/{extraction}/fields",
            json={"path": path, "value": f"{value} or so"},
            headers={"If-Match": "*"},
        )
        assert changed.status_code == 200, changed.text
        failed = await server.upload("a.pdf", b"%PDF-1.7 nothing")
        assert (await server.http.delete(f"/api/documents/{document}")).status_code == 204
        page = await feed_of(server.http, 6)
        assert [(one["type"], one["data"].get("document_id")) for one in page["items"]] == [
            ("document.ready", str(document)),
            ("extraction.completed", str(document)),
            ("run.completed", str(document)),
            ("extraction.changed", str(document)),
            ("document.failed", str(failed)),
            ("document.deleted", str(document)),
        ]
        numbers = [one["number"] for one in page["items"]]
        assert numbers == [1, 2, 3, 4, 5, 6] and page["last"] == 6 and not page["has_more"]
        assert page["items"][4]["data"]["document"]["error_code"] == "damaged"
        first = await feed(server.http, limit=2)
        assert (len(first["items"]), first["last"], first["has_more"]) == (2, 2, True)
        rest = await feed(server.http, first["last"], limit=200)
        assert [one["number"] for one in rest["items"]] == [3, 4, 5, 6]
        only = await feed(server.http, type=["document.failed"])
        assert [one["number"] for one in only["items"]] == [5] and only["last"] == 6
        assert await feed(server.http, "latest") == {"items": [], "last": 6, "has_more": False}
        assert (await feed(server.http, 10**18))["items"] == []


async def test_a_trial_reports_no_change_and_is_never_the_current_extraction(serve):
    async with serve() as server:
        document = await server.upload_text()
        trial = await server.extract(document, is_trial=True)
        assert trial["extraction"]["status"] == "completed"
        assert (await server.get(f"documents/{document}"))["stage"] == "ready"
        assert (await server.get("inbox"))["items"] == []
        run = await server.extract(document)
        assert [(one["type"], one["data"].get("run_id")) for one in (await feed_of(server.http, 3))["items"]] == [
            ("document.ready", None),
            ("extraction.completed", run["run_id"]),
            ("run.completed", run["run_id"]),
        ]
        again = {"document_id": str(document), "extraction_id": trial["extraction"]["id"], "is_trial": True}
        assert (await server.http.post("/api/agent/extract", json=again)).status_code == 422


async def test_a_change_shows_the_fields_as_the_agent_wrote_them_and_as_people_left_them(serve):
    async with serve() as server:
        run = await server.extract(await server.upload_text())
        extraction = run["extraction"]["id"]
        written = (await server.extraction(extraction))["extracted_fields"]
        path = next(name for name, value in written.items() if not isinstance(value, dict))
        for value in ("first", "second"):
            await server.http.patch(
                f"/api/extractions/{extraction}/fields", json={"path": path, "value": value}, headers={"If-Match": "*"}
            )
        changes = await feed_of(server.http, 2, type="extraction.changed")
        shown = changes["items"][-1]["data"]["extraction"]
        assert shown["initial_fields"] == written
        assert shown["fields"] == {**written, path: "second"}
        edits = [(one["path"], one["old"], one["new"]) for one in shown["edits"]]
        assert edits == [([path], written[path], "first"), ([path], "first", "second")]


async def test_no_other_organisation_reads_the_feed_or_the_webhooks(serve, receiver):
    async with serve(**LOOPBACK) as server:
        await server.upload_text()
        webhook = await create_webhook(server.http, receiver.url)
        async with server.client() as stranger:
            assert (await feed(stranger))["items"] == []
            assert (await stranger.get("/api/webhooks")).json()["items"] == []
            for method, path in (
                ("PATCH", ""),
                ("DELETE", ""),
                ("POST", "/secret"),
                ("POST", "/test"),
                ("GET", "/deliveries"),
                ("POST", f"/deliveries/{uuid4()}"),
            ):
                body = {"json": {"is_enabled": False}} if method == "PATCH" else {}
                assert_problem(await stranger.request(method, f"/api/webhooks/{webhook['id']}{path}", **body), 404)
        assert (await server.http.get("/api/webhooks")).json()["items"][0]["is_enabled"]


async def test_only_owners_manage_webhooks_and_members_read_the_feed(serve, receiver):
    async with serve(**LOOPBACK) as server:
        org = await create_org(server.http)
        owner = {"x-org-id": org}
        made = await server.http.post("/api/webhooks", json={"url": receiver.url}, headers=owner)
        assert made.status_code == 201
        async with new_member(server, org, "member") as (member, _):
            assert (await member.get("/api/changes")).status_code == 200
            assert_problem(await member.post("/api/webhooks", json={"url": receiver.url}), 403, "owner_needed")
            assert_problem(await member.get("/api/webhooks"), 403, "owner_needed")
        async with new_member(server, org, "viewer") as (viewer, _):
            assert (await viewer.get("/api/changes")).status_code == 200
            assert_problem(await viewer.delete(f"/api/webhooks/{made.json()['id']}"), 403, "read_only")


async def test_a_key_needs_the_scopes(serve, receiver):
    async with serve(**LOOPBACK) as server:
        for scope, reads, manages in (("changes:read", 200, 403), ("webhooks:write", 403, 201)):
            body = {"name": scope, "scopes": [scope]}
            key = (await server.http.post("/api/keys", json=body)).json()["key"]
            async with server.client_with_token(key) as robot:
                assert (await robot.get("/api/changes")).status_code == reads
                assert (await robot.post("/api/webhooks", json={"url": receiver.url})).status_code == manages


async def test_a_webhook_gets_each_change_signed(serve, receiver):
    async with serve(**LOOPBACK) as server:
        webhook = await create_webhook(server.http, receiver.url, "document.ready", "extraction.completed")
        await server.extract(await server.upload_text())

        async def has_both() -> bool:
            return len(receiver.got) >= 2

        await until(has_both)
        await feed_of(server.http, 3)
        verifier = Webhook(webhook["secret"])
        events = [verifier.verify(body, headers) for headers, body in receiver.got]
        assert {one["type"] for one in events} == {"document.ready", "extraction.completed"}
        listed = {one["id"]: one for one in (await feed(server.http))["items"]}
        for event, (headers, body) in zip(events, receiver.got, strict=True):
            assert event["data"].keys() == listed[event["id"]]["data"].keys()
            assert headers["webhook-id"] == event["id"]
            with pytest.raises(WebhookVerificationError):
                verifier.verify(body.replace(b"document", b"Document"), headers)
        assert "secret" not in (await server.http.get("/api/webhooks")).text.replace("previous_secret_until", "")


async def test_a_failed_delivery_is_sent_again_with_the_same_id(serve, receiver, clone):
    async with serve(**LOOPBACK) as server:
        receiver.answers = [500, 302, 200]
        webhook = await create_webhook(server.http, receiver.url, "webhook.test")
        await server.http.post(f"/api/webhooks/{webhook['id']}/test")
        for count, code in ((1, "refused"), (2, "redirected"), (3, None)):

            async def is_recorded(count: int = count) -> bool:
                found = await deliveries(server.http, webhook)
                return bool(found) and len(receiver.got) == count and found[0]["http_status"] is not None

            await until(is_recorded)

            async def has_code(code: str | None = code) -> bool:
                return (await deliveries(server.http, webhook))[0]["error_code"] == code

            await until(has_code)
            sql(clone.owner_url, "update public.webhook_deliveries set due_at = now() where status = 'pending'")
        (delivery,) = await deliveries(server.http, webhook)
        assert (delivery["status"], delivery["attempts"], delivery["due_at"]) == ("delivered", 3, None)
        assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1
        again = await server.http.post(f"/api/webhooks/{webhook['id']}/deliveries/{delivery['id']}")
        assert again.status_code == 202

        async def is_sent_again() -> bool:
            return len(receiver.got) == 4

        await until(is_sent_again)
        assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1


@asynccontextmanager
async def raw_receiver(answer: bytes, more: bytes = b"") -> AsyncIterator[str]:
    """Yield the address of a receiver that sends `answer`, then `more` again and again, and never closes."""

    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            while True:
                await writer.drain()
                await asyncio.sleep(0.001)
                writer.write(more)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


@pytest.mark.parametrize(
    ("answer", "more", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"4\r\nmore\r\n" * 5000, ("delivered", 200, None)),
        (b"HTTP/1.1 500 No\r\ncontent-length: 999999999\r\n\r\n", b"x" * 50_000, ("pending", 500, "refused")),
        (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 5000, ("pending", None, "unreachable")),
    ],
    ids=["endless body", "endless refusal", "endless headers"],
)
async def test_of_an_endless_answer_only_the_status_counts(serve, answer, more, expected):
    async with raw_receiver(answer, more) as url, serve(**LOOPBACK) as server:
        webhook = await create_webhook(server.http, url)
        await server.http.post(f"/api/webhooks/{webhook['id']}/test")

        async def is_attempted() -> bool:
            found = await deliveries(server.http, webhook)
            return bool(found) and (found[0]["http_status"] or found[0]["error_code"]) is not None

        await until(is_attempted)
        (sent,) = await deliveries(server.http, webhook)
        assert (sent["status"], sent["http_status"], sent["error_code"]) == expected


@pytest.mark.long
async def test_a_silent_receiver_times_out_and_delays_no_other_organisation(serve, receiver):
    async with raw_receiver(b"") as silent, serve(**LOOPBACK) as server:
        slow = await create_webhook(server.http, silent)
        for _ in range(30):
            await server.http.post(f"/api/webhooks/{slow['id']}/test")
        async with server.client() as other:
            webhook = await create_webhook(other, receiver.url)
            await other.post(f"/api/webhooks/{webhook['id']}/test")
            await until(lambda: len(receiver.got) == 1)
        found = await deliveries(server.http, slow)
        assert {one["status"] for one in found} == {"pending"}

        async def is_timed_out() -> bool:
            return "timeout" in {one["error_code"] for one in await deliveries(server.http, slow)}

        await until(is_timed_out)


async def test_a_delivery_of_a_worker_that_died_is_sent_by_another_when_its_lease_ends(serve, receiver, clone):
    async with serve(with_worker=False, **LOOPBACK) as server:
        webhook = await create_webhook(server.http, receiver.url)
        await server.http.post(f"/api/webhooks/{webhook['id']}/test")
        database = server.runtime.database
        async with aclosing(Sender(database, server.runtime.settings.private_networks)) as sender:
            async with database.as_service() as conn:
                await changes.publish(conn)
                (leased,) = await webhooks.lease_due(conn, 9, [], timedelta(seconds=60))
            await sender.send_due()
            assert receiver.got == []
            sql(clone.owner_url, "update webhook_deliveries set due_at = due_at - interval '60 seconds'")
            await sender.send_due()

            async def is_delivered() -> bool:
                return [one["status"] for one in await deliveries(server.http, webhook)] == ["delivered"]

            await until(is_delivered)
        ((headers, _),) = receiver.got
        assert headers["webhook-id"] == str(leased.change_id)


async def test_a_delivery_is_signed_at_the_databases_time_not_at_that_of_the_workers_clock(serve, receiver, clone):
    async with serve(with_worker=False, **LOOPBACK) as server:
        webhook = await create_webhook(server.http, receiver.url)
        await server.http.post(f"/api/webhooks/{webhook['id']}/test")
        async with server.runtime.database.as_service() as conn:
            await changes.publish(conn)
            (leased,) = await webhooks.lease_due(conn, 9, [], timedelta(seconds=60))
        (delivery,) = await deliveries(server.http, webhook)
        assert datetime.fromisoformat(delivery["attempted_at"]) == leased.attempted_at
        behind = replace(leased, attempted_at=leased.attempted_at - timedelta(minutes=10))
        for one in (leased, behind):
            assert signed_headers(one, "{}")["webhook-timestamp"] == str(int(one.attempted_at.timestamp()))


async def test_a_replaced_secret_signs_beside_the_new_one_for_a_day(serve, receiver, clone):
    async with serve(**LOOPBACK) as server:
        old = await create_webhook(server.http, receiver.url)
        new = (await server.http.post(f"/api/webhooks/{old['id']}/secret")).json()
        assert new["secret"] != old["secret"] and new["previous_secret_until"] is not None
        for number, accepted in ((1, [True, True]), (2, [False, True])):
            await server.http.post(f"/api/webhooks/{old['id']}/test")

            async def has_got(number: int = number) -> bool:
                return len(receiver.got) == number

            await until(has_got)
            headers, body = receiver.got[-1]
            verified = []
            for secret in (old["secret"], new["secret"]):
                try:
                    Webhook(secret).verify(body, headers)
                    verified.append(True)
                except WebhookVerificationError:
                    verified.append(False)
            assert verified == accepted
            sql(clone.owner_url, "update public.webhooks set previous_secret_until = now()")


async def test_a_change_about_a_quota_has_what_is_stored_and_the_limits(serve, clone):
    async with serve() as server:
        sql(clone.owner_url, "insert into credit_limits (org_id, max_documents) values (%s, 1)", server.scope.org_id)
        await server.http.post("/api/documents", files={"file": ("a.txt", b"Total: 1")})
        (change,) = (await feed_of(server.http, 1, type="quota.reached"))["items"]
        assert change["data"] == {"storage": {"documents": 1, "bytes": 8, "max_documents": 1, "max_bytes": None}}


async def test_a_webhook_that_fails_for_days_or_is_gone_is_disabled_and_reported(serve, receiver, clone):
    async with serve(**LOOPBACK) as server:
        failing = await create_webhook(server.http, receiver.url, "webhook.test")
        sql(clone.owner_url, "update public.webhooks set failing_since = now() - interval '6 days'")
        receiver.answers = [500, 410]
        await server.http.post(f"/api/webhooks/{failing['id']}/test")

        async def is_listed(count: int) -> bool:
            return len((await feed(server.http, type="webhook.disabled"))["items"]) == count

        await until(lambda: is_listed(1))
        gone = await create_webhook(server.http, receiver.url, "webhook.test")
        await server.http.post(f"/api/webhooks/{gone['id']}/test")
        await until(lambda: is_listed(2))
        found = {one["id"]: one for one in (await server.http.get("/api/webhooks")).json()["items"]}
        assert [found[one["id"]]["disabled_reason"] for one in (failing, gone)] == ["failing", "gone"]
        assert_problem(await server.http.post(f"/api/webhooks/{gone['id']}/test"), 409)
        enabled = await server.http.patch(f"/api/webhooks/{failing['id']}", json={"is_enabled": True})
        assert (enabled.json()["is_enabled"], enabled.json()["failing_since"]) == (True, None)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/a",
        "http://10.1.2.3/a",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fd00::1]/",
        "http://100.64.0.1/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://user:secret@example.com/",
        "http://example.com:0/",
        "ftp://example.com/",
        "http:///a",
        "nothing",
    ],
)
async def test_addresses_inside_the_network_are_refused(serve, url):
    async with serve() as server:
        assert_problem(await server.http.post("/api/webhooks", json={"url": url}), 422)


async def test_a_name_of_an_address_inside_the_network_is_not_called(serve, receiver):
    async with serve() as server:
        webhook = await create_webhook(server.http, receiver.url.replace("127.0.0.1", "localhost"), "webhook.test")
        await server.http.post(f"/api/webhooks/{webhook['id']}/test")

        async def is_refused() -> bool:
            found = await deliveries(server.http, webhook)
            return bool(found) and found[0]["error_code"] == "address_refused"

        await until(is_refused)
        assert receiver.got == []


@pytest.mark.parametrize("is_upload", [True, False])
async def test_a_callback_gets_the_changes_of_its_run_only(serve, receiver, is_upload):
    secret = "whsec_" + "A" * 44
    callback = {"url": receiver.url, "secret": secret}
    async with serve(**LOOPBACK) as server:
        org = await create_org(server.http)
        async with new_member(server, org, "member") as (member, _):  # no owner, and so without webhooks of their own
            for key in ("k1", "k1"):  # a repeated request adds no callback
                headers = {"Idempotency-Key": key}
                if is_upload:
                    form = {"callback": json.dumps(callback)}
                    files, query = {"file": ("a.txt", b"Total: 10.00 EUR")}, {"extract": ""}
                    made = await member.post("/api/documents", files=files, data=form, params=query, headers=headers)
                else:
                    document = (await member.post("/api/documents", files={"file": ("a.txt", b"Total: 1")})).json()
                    body = {"document_id": document["id"], "callback": callback, "wait": False}
                    made = await member.post("/api/agent/extract", json=body)
            assert made.status_code in (201, 202), made.text
            run = made.json()["run_id"]
            await member.post("/api/agent/extract", json={"document_id": made.json().get("id") or document["id"]})

            completed = ("run.completed", run)
            await until(lambda: completed in {(one["type"], one["data"]["run_id"]) for one in receiver.events()})
            for headers, body in receiver.got:
                assert Webhook(secret).verify(body, headers)
            runs = {event["data"]["run_id"] for event in receiver.events()}
            assert runs == {run} or (not is_upload and run in runs and len(runs) == 2)
        server.http.headers["x-org-id"] = org
        assert (await server.http.get("/api/webhooks")).json()["items"] == []


async def test_only_owners_and_who_started_the_run_see_what_its_callback_got_and_send_it_again(serve, receiver):
    async with serve(**LOOPBACK) as server:
        org = await create_org(server.http)
        async with new_member(server, org, "member") as (member, _), new_member(server, org, "member") as (other, _):
            document = (await member.post("/api/documents", files={"file": ("a.txt", b"Total: 1")})).json()
            callback = {"url": receiver.url, "secret": "whsec_" + "A" * 44}
            body = {"document_id": document["id"], "callback": callback, "wait": False}
            run = (await member.post("/api/agent/extract", json=body)).json()["run_id"]
            log = f"/api/runs/{run}/deliveries"

            async def delivered() -> dict[str, Any] | None:
                sent = (await member.get(log, params={"status": "delivered"})).json()["items"]
                return next((one for one in sent if one["type"] == "run.completed"), None)

            done = await until(delivered)
            assert done["attempts"] == 1 and done["http_status"] == 204
            assert (await member.post(f"{log}/{done['id']}")).status_code == 202
            await until(lambda: [one["id"] for one in receiver.events()].count(done["change_id"]) == 2)
            assert (await other.get(log)).json()["items"] == []
            assert_problem(await other.post(f"{log}/{done['id']}"), 404)
        server.http.headers["x-org-id"] = org
        assert done["id"] in [one["id"] for one in (await server.http.get(log)).json()["items"]]


async def test_a_callback_inside_the_network_is_refused(serve, receiver):
    async with serve() as server:
        callback = {"url": receiver.url, "secret": "whsec_" + "A" * 44}
        document = str(await server.upload_text())
        for refused in (callback, {**callback, "secret": "x"}, {"url": "https://a.example"}):
            body = {"document_id": document, "callback": refused, "wait": False}
            assert_problem(await server.http.post("/api/agent/extract", json=body), 422)
            answer = await server.http.post(
                "/api/documents",
                files={"file": ("b.txt", b"Total: 1")},
                data={"callback": json.dumps(refused)},
                params={"extract": ""},
            )
            assert_problem(answer, 422)
        assert (await server.get("runs"))["items"] == []
        assert len((await server.get("documents"))["items"]) == 1


async def test_an_organisation_has_at_most_20_webhooks(serve):
    async with serve() as server:
        made = [await server.http.post("/api/webhooks", json={"url": "https://example.com/"}) for _ in range(21)]
        assert [one.status_code for one in made] == [201] * 20 + [409]


async def test_numbers_follow_the_order_of_commits_seen_by_readers(serve, clone):
    """A change whose transaction commits late gets a number after those that readers have already seen."""
    async with serve() as server:
        org = str(server.scope.org_id)
        insert = "insert into public.changes (org_id, type) values (%s, 'webhook.test')"
        with psycopg.connect(clone.owner_url) as slow, psycopg.connect(clone.owner_url, autocommit=True) as fast:
            slow.execute(insert, (org,))
            fast.execute(insert, (org,))
            seen = await feed_of(server.http, 1)
            assert seen["last"] == 1
            slow.commit()

            async def is_there() -> bool:
                return (await feed(server.http, seen["last"]))["last"] == 2

            await until(is_there)
        many = await asyncio.gather(*(feed(server.http) for _ in range(8)))
        assert all([one["number"] for one in page["items"]] == [1, 2] for page in many)
        assert len({UUID(one["id"]) for one in many[0]["items"]}) == 2
