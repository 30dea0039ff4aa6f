"""Sources: each object of a bucket or mailbox becomes a document once, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_network
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

import psycopg
import pytest
from answers import assert_problem
from members import create_org, new_member

from extraction_case import add_member, sql, until
from fieldmark.domain.statuses import SourceKind
from fieldmark.services.sources import buckets
from fieldmark.services.sources.failures import SourceFailure
from fieldmark.services.sources.intake import Intake
from fieldmark.services.sources.oauth import TokenRequest
from fieldmark.stores import sources
from http_stub import http_stub
from mail_server import PASSWORD, USER, MailServer, mail, mail_server
from object_server import KEY_ID, SECRET, ObjectServer, etag_of, object_server

pytestmark = pytest.mark.anyio

LOOPBACK = {"private_networks": ["127.0.0.0/8", "::1/128"]}


@pytest.fixture
def bucket() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with mail_server() as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
        yield server


def of_bucket(bucket: ObjectServer, **more: Any) -> dict[str, Any]:
    return {"kind": "bucket", "address": f"{bucket.url}/inbox", "username": KEY_ID, "secret": SECRET, **more}


def of_mailbox(server: MailServer, **more: Any) -> dict[str, Any]:
    return {"kind": "mailbox", "address": server.url, "username": USER, "secret": PASSWORD, **more}


async def add(http: Any, body: dict[str, Any]) -> dict[str, Any]:
    answer = await http.post("/api/sources", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def get(http: Any) -> dict[str, Any]:
    (source,) = (await http.get("/api/sources")).json()["items"]
    return source


async def next_look(http: Any, checked: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the source when the service has looked at all that there is, or has failed."""
    before = checked and checked["checked_at"]
    if checked is not None:
        assert (await http.post(f"/api/sources/{checked['id']}/check")).status_code == 202

    async def has_looked() -> Any:
        source = await get(http)
        return source if source["error_code"] or source["checked_at"] != before else None

    return await until(has_looked)


async def documents(http: Any) -> list[dict[str, Any]]:
    listed = (await http.get("/api/documents", params={"limit": 200})).json()
    assert listed["next"] is None
    return listed["items"]


def names(found: list[dict[str, Any]]) -> list[str]:
    return sorted(one["filename"] for one in found)


@asynccontextmanager
async def intakes(server: Any, number: int, **options: Any) -> AsyncIterator[list[Intake]]:
    """Yield what so many workers look with."""
    runtime = server.runtime
    args = (runtime.database, runtime.documents, runtime.settings.private_networks, runtime.reading_limits)
    yield [Intake(*args, **options) for _ in range(number)]


async def lease(server: Any) -> list[sources.DueSource]:
    async with server.runtime.database.as_service() as conn:
        return await sources.lease_due(conn, 5, [], timedelta(seconds=60))


def test_requests_are_signed_as_in_the_examples_of_the_protocol():
    secret, at = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", datetime(2013, 5, 24, tzinfo=UTC)
    host = "examplebucket.s3.amazonaws.com"
    for query, signature in {
        "lifecycle=": "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        "max-keys=2&prefix=J": "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    }.items():
        signed = buckets.sign("GET", host, "/", query, "AKIAIOSFODNN7EXAMPLE", secret, "us-east-1", at)
        assert signed["Authorization"].endswith(f"Signature={signature}")


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("s3.eu-central-1.amazonaws.com", "eu-central-1"),
        ("s3.us-west-004.backblazeb2.com", "us-west-004"),
        ("s3.amazonaws.com", "us-east-1"),
        ("minio.example.com", "us-east-1"),
    ],
)
def test_the_region_is_that_of_the_host(host, region):
    assert buckets.region_of(host) == region


@pytest.mark.parametrize(
    ("item", "number", "is_read"),
    [
        ("<Contents><Key>a</Key><Size>1</Size></Contents>", 1000, True),
        ("<Contents><Key>a</Key><Size>1</Size></Contents>", 1001, False),
        ("<a/>", 1_000_000, False),
        ("<a>", 1_000_000, False),
    ],
)
def test_a_listing_of_more_than_was_asked_for_is_refused(item, number, is_read):
    body = f"<List>{item * number}</List>".encode()
    if is_read:
        assert buckets.parse_list(body) == ([buckets.BucketObject("a", "", 1)] * number, False)
    else:
        with pytest.raises(SourceFailure):
            buckets.parse_list(body)


async def test_objects_of_a_bucket_become_documents_and_others_are_counted(serve, bucket):
    bucket.objects = {
        "in/a.txt": b"Total: 1",
        "in/März//b+ %41.txt": b"Total: 2",
        "in/empty.pdf": b"",
        "in/program.exe": b"MZ",
        "in/folder/": b"",
        "in/../c.txt": b"Total: 3",
        "other/d.txt": b"Total: 4",
    }
    async with serve(**LOOPBACK) as server:
        source = await add(server.http, of_bucket(bucket, folder="in/", extract=""))
        assert "secret" not in source and source["error_code"] is None
        source = await next_look(server.http)
        found = await documents(server.http)
        assert names(found) == ["a.txt", "b+ %41.txt"]
        assert {one["created_by"] for one in found} == {str(server.scope.user_id)}
        assert [one["metadata"]["object"] for one in found if one["filename"] == "a.txt"] == ["in/a.txt"]
        assert (source["taken"], source["last_object"]) == (2, "a.txt")
        assert source["skipped"] == {"empty": 1, "not_a_document": 1, "folder": 1, "bad_name": 1}

        async def are_extracted() -> bool:
            runs = (await server.http.get("/api/runs")).json()["items"]
            return [one["status"] for one in runs] == ["completed"] * 2

        await until(are_extracted)


async def test_a_changed_object_is_taken_again_and_an_unchanged_one_is_not(serve, bucket):
    bucket.objects = {"a.txt": b"Total: 1", "b.txt": b"Total: 2"}
    async with serve(**LOOPBACK) as server:
        await add(server.http, of_bucket(bucket))
        first = await next_look(server.http)
        bucket.objects["b.txt"] = b"Total: 3"
        second = await next_look(server.http, first)
        assert names(await documents(server.http)) == ["a.txt", "b.txt", "b.txt"] and second["taken"] == 3


async def test_a_listing_that_ended_starts_again_from_the_first_name(serve, bucket, clone):
    bucket.objects = {"m.txt": b"Total: 1"}
    async with serve(with_worker=False, **LOOPBACK) as server:
        await add(server.http, of_bucket(bucket))
        sql(clone.owner_url, "update sources set position = 'z'")  # a look ended there, and nothing is after it
        async with intakes(server, 1) as (intake,):
            for total in (0, 1):
                (due,) = await lease(server)
                await intake.look_at(due)
                source = await get(server.http)
                assert source["taken"] == total
                await server.http.post(f"/api/sources/{source['id']}/check")


async def test_an_object_that_changes_while_it_is_taken_is_taken_as_it_is_then(serve, bucket):
    bucket.objects = {"a.txt": b"Total: 1"}

    def change(key: str) -> None:
        bucket.before_get = None
        bucket.objects[key] = b"Total: 22"

    bucket.before_get = change
    async with serve(**LOOPBACK) as server:
        await add(server.http, of_bucket(bucket))
        first = await next_look(server.http)
        assert (first["taken"], first["error_code"]) == (0, None)
        await next_look(server.http, first)
        (document,) = await documents(server.http)
        assert document["byte_size"] == 9


async def test_a_large_bucket_is_read_step_by_step_and_each_object_once(serve, bucket):
    bucket.objects = {f"{n:04}.{'txt' if n % 2 else 'bin'}": b"Total: %d" % n for n in range(240)}
    bucket.page_size = 50
    async with serve(with_worker=False, **LOOPBACK) as server:
        await add(server.http, of_bucket(bucket))
        async with intakes(server, 1) as (intake,):
            totals: list[int] = []
            while True:
                (due,) = await lease(server)
                await intake.look_at(due)
                source = await get(server.http)
                totals.append(source["taken"])
                if source["checked_at"]:
                    break
        assert totals == [50, 100, 120] and source["skipped"] == {"not_a_document": 120}
        got = Counter(key for key in bucket.keys_got())
        assert set(got.values()) == {1} and len(got) == 120


@pytest.mark.full
async def test_new_objects_are_found_among_a_hundred_thousand_of_which_half_are_no_documents(serve, bucket, clone):
    new = {0, 50_000, 99_998}
    bucket.objects = {f"{n:06}.{'bin' if n % 2 else 'txt'}": b"Total: %d" % n for n in range(100_000)}
    async with serve(with_worker=False, **LOOPBACK) as server:
        source = await add(server.http, of_bucket(bucket))
        with psycopg.connect(clone.owner_url) as owner, owner.cursor() as cursor:
            columns = "source_id, org_id, name, version"
            with cursor.copy(f"copy private.source_objects ({columns}) from stdin".encode()) as copy:
                for n in set(range(0, 100_000, 2)) - new:
                    name = f"{n:06}.txt"
                    copy.write_row((source["id"], server.scope.org_id, name, etag_of(bucket.objects[name])))
        async with intakes(server, 1) as (intake,):
            while not source["checked_at"]:
                source = await look(intake, server)
        assert (source["taken"], source["skipped"]) == (3, {"not_a_document": 50_000})
        assert names(await documents(server.http)) == [f"{n:06}.txt" for n in sorted(new)]


async def test_a_worker_that_dies_between_upload_and_record_neither_loses_nor_doubles(serve, bucket, clone):
    bucket.objects = {f"{n}.txt": b"Total: %d" % n for n in range(4)}
    async with serve(with_worker=False, **LOOPBACK) as server:
        await add(server.http, of_bucket(bucket))
        async with intakes(server, 2) as (first, second):
            (due,) = await lease(server)
            with psycopg.connect(clone.owner_url) as other:
                other.execute("select from sources for update")  # so that the record has to wait
                looking = asyncio.create_task(first.look_at(due))

                async def is_uploaded() -> bool:
                    return len(await documents(server.http)) > 0

                await until(is_uploaded)
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
            assert (await get(server.http))["taken"] == 0
            assert await lease(server) == []  # until the lease ends
            await server.http.post(f"/api/sources/{due.id}/check")
            (due,) = await lease(server)
            await second.look_at(due)
        assert names(await documents(server.http)) == [f"{n}.txt" for n in range(4)]
        assert (await get(server.http))["taken"] == 4


async def test_two_workers_that_look_at_once_take_each_object_once(serve, bucket):
    bucket.objects = {f"{n:02}.txt": b"Total: %d" % n for n in range(20)}
    async with serve(with_worker=False, **LOOPBACK) as server:
        source = await add(server.http, of_bucket(bucket))
        async with intakes(server, 2) as (first, second):
            (due,) = await lease(server)
            assert await lease(server) == []
            # (As after the lease of a worker that was suspended.)
            await server.http.post(f"/api/sources/{source['id']}/check")
            (again,) = await lease(server)
            await asyncio.gather(first.look_at(due), second.look_at(again))
        assert names(await documents(server.http)) == [f"{n:02}.txt" for n in range(20)]
        assert (await get(server.http))["taken"] == 20


async def test_a_key_that_expires_is_reported_and_replaced(serve, bucket):
    bucket.objects, bucket.is_key_expired = {"a.txt": b"Total: 1"}, True
    async with serve(**LOOPBACK) as server:
        source = await add(server.http, of_bucket(bucket))
        failed = await next_look(server.http)
        assert failed["error_code"] == "credentials_refused" and failed["failing_since"]
        bucket.is_key_expired = False
        at = f"/api/sources/{source['id']}"
        changed = await server.http.patch(at, json={"secret": "another"})
        assert changed.status_code == 200 and "another" not in changed.text

        async def works() -> bool:
            return (await get(server.http))["taken"] == 1

        await until(works)
        assert (await get(server.http))["error_code"] is None


@pytest.mark.parametrize(
    ("faults", "error_code"), [({"fail_next": [503] * 9}, "unreachable"), ({"fail_next": [418] * 9}, "not_understood")]
)
async def test_a_failing_server_is_reported(serve, bucket, faults, error_code):
    bucket.objects = {"a.txt": b"Total: 1"}
    for name, value in faults.items():
        setattr(bucket, name, value)
    async with serve(**LOOPBACK) as server:
        await add(server.http, of_bucket(bucket))
        assert (await next_look(server.http))["error_code"] == error_code


async def look(intake: Intake, server: Any) -> dict[str, Any]:
    """Look once, at what is due, and return the source."""
    (due,) = await lease(server)
    await intake.look_at(due)
    return await get(server.http)


def make_due(clone: Any) -> None:
    sql(clone.owner_url, "update sources set due_at = now()")
    sql(clone.owner_url, "update source_failures set due_at = now() where due_at is not null")


def failures(source: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(one["name"], one["error_code"], one["attempts"]) for one in source["failures"]]


async def test_a_source_that_failed_for_weeks_is_read_again(serve, bucket, clone):
    bucket.objects = {"a.txt": b"Total: 1"}
    async with serve(with_worker=False, **LOOPBACK) as server:
        await add(server.http, of_bucket(bucket))
        sql(clone.owner_url, "update sources set attempts = 500, error_code = 'unreachable', failing_since = now()")
        async with intakes(server, 1) as (intake,):
            source = await look(intake, server)
            assert (source["taken"], source["error_code"]) == (1, None)
            sql(clone.owner_url, "update sources set attempts = 500")
            bucket.is_key_expired = True
            make_due(clone)
            due_at = datetime.fromisoformat((await look(intake, server))["due_at"])
            assert timedelta(minutes=50) < due_at - datetime.now(UTC) < timedelta(minutes=70)


async def test_an_object_that_fails_holds_up_no_other_and_is_tried_again_until_it_is_abandoned(serve, bucket, clone):
    bucket.objects = {f"{n}.txt": b"Total: %d\n" % n * 500 for n in range(4)}
    bucket.cut_after, bucket.refused = {"0.txt": [2000]}, {"1.txt": 403}
    async with serve(with_worker=False, **LOOPBACK) as server:
        await add(server.http, of_bucket(bucket))
        async with intakes(server, 1) as (intake,):
            source = await look(intake, server)
            assert sorted(failures(source)) == [("0.txt", "unreachable", 1), ("1.txt", "credentials_refused", 1)]
            assert (source["taken"], source["retrying"], source["failed"], source["error_code"]) == (2, 2, 0, None)
            assert source["checked_at"] and all(one["due_at"] for one in source["failures"])
            for attempt in range(2, 11):
                make_due(clone)
                source = await look(intake, server)
                assert failures(source) == [("1.txt", "credentials_refused", attempt)]
            assert (source["taken"], source["retrying"], source["failed"]) == (3, 0, 1)
            make_due(clone)
            assert failures(await look(intake, server)) == [("1.txt", "credentials_refused", 10)]
            bucket.refused = {}
            await server.http.post(f"/api/sources/{source['id']}/check")
            source = await look(intake, server)
            assert (source["taken"], source["retrying"], source["failed"], source["failures"]) == (4, 0, 0, [])
        assert names(await documents(server.http)) == ["0.txt", "1.txt", "2.txt", "3.txt"]


async def test_a_download_without_an_end_is_stopped_and_the_others_are_taken(serve, bucket):
    bucket.objects, bucket.hangs = {f"{n}.txt": b"Total: %d" % n for n in range(3)}, {"0.txt": 1.0}
    async with serve(with_worker=False, **LOOPBACK) as server:
        await add(server.http, of_bucket(bucket))
        async with intakes(server, 1, object_seconds=0.5) as (intake,):
            source = await look(intake, server)
        assert (source["taken"], failures(source)) == (2, [("0.txt", "timeout", 1)])


async def test_a_failed_object_that_is_gone_is_forgotten(serve, bucket, clone):
    bucket.objects, bucket.refused = {"a.txt": b"Total: 1"}, {"a.txt": 500}
    async with serve(with_worker=False, **LOOPBACK) as server:
        await add(server.http, of_bucket(bucket))
        async with intakes(server, 1) as (intake,):
            assert failures(await look(intake, server)) == [("a.txt", "unreachable", 1)]
            bucket.objects, bucket.refused = {}, {}
            make_due(clone)
            assert failures(await look(intake, server)) == []


async def test_a_source_of_which_all_objects_fail_is_reported_and_a_full_quota_is_no_fault_of_an_object(
    serve, bucket, clone
):
    bucket.objects = {f"{n}.txt": b"Total: %d" % n for n in range(60)}
    bucket.refused = dict.fromkeys(bucket.objects, 403)
    async with serve(with_worker=False, **LOOPBACK) as server:
        source = await add(server.http, of_bucket(bucket))
        async with intakes(server, 1) as (intake,):
            source = await look(intake, server)
            assert (source["error_code"], source["retrying"]) == ("credentials_refused", 50)
            make_due(clone)
            assert (await look(intake, server))["retrying"] == 60
            bucket.refused = {}
            sql(clone.owner_url, "delete from source_failures")
            sql(clone.owner_url, "update sources set due_at = now(), position = null")
            sql(clone.owner_url, "insert into credit_limits (org_id, max_documents) select id, 1 from organisations")
            source = await look(intake, server)
            assert (source["error_code"], source["taken"], source["failures"]) == ("quota_exceeded", 1, [])


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9/inbox", "http://[::1]/inbox", "http://169.254.169.254/latest", "imaps://10.0.0.1"]
)
async def test_an_address_inside_the_network_is_refused(serve, address):
    kind = "mailbox" if address.startswith("imaps") else "bucket"
    body = {"kind": kind, "address": address, "username": "u", "secret": "s"}
    async with serve(with_worker=False) as server:
        assert_problem(await server.http.post("/api/sources", json=body), 422, "invalid")
    async with serve(with_worker=False, private_networks=["10.0.0.0/8", "127.0.0.0/8"]) as server:
        is_allowed = address.startswith(("http://127", "imaps"))
        assert (await server.http.post("/api/sources", json=body)).status_code == (201 if is_allowed else 422)


async def test_a_name_inside_the_network_is_refused_when_it_is_used(serve, bucket):
    address = bucket.url.replace("127.0.0.1", "localhost") + "/inbox"
    bucket.objects = {"a.txt": b"Total: 1"}
    async with serve() as server:
        await add(server.http, of_bucket(bucket, address=address))
        assert (await next_look(server.http))["error_code"] == "address_refused"
    assert bucket.requests == []


@pytest.mark.parametrize(
    "change",
    [
        {"address": "ftp://a.example/b"},
        {"address": "https://a.example"},
        {"address": "https://a.example/b/c"},
        {"address": "https://u:p@a.example/b"},
        {"address": "imaps://a.example"},
        {"kind": "mailbox", "address": "imap://a.example"},
        {"kind": "mailbox", "address": "imaps://a.example/INBOX"},
        {"secret": ""},
        {"username": "\0"},
    ],
)
async def test_a_source_that_could_never_work_is_refused(serve, change):
    body = {"kind": "bucket", "address": "https://a.example/b", "username": "u", "secret": "s"}
    async with serve(with_worker=False) as server:
        assert_problem(await server.http.post("/api/sources", json=body | change), 422)
        assert_problem(await server.http.post("/api/sources", json=body | {"extract": "no such schema"}), 404)
        assert (await server.http.post("/api/sources", json=body)).status_code == 201


async def test_a_mailbox_that_accepts_no_password_is_refused_with_the_reason(serve):
    body = {"kind": "mailbox", "address": "imaps://Outlook.office365.com:993", "username": "u", "secret": "s"}
    async with serve(with_worker=False) as server:
        assert_problem(await server.http.post("/api/sources", json=body), 422, "oauth_needed")
        for request in (
            {"token_url": "https://login.example/token", "client_id": 1},
            {"token_url": "http://a.example"},
        ):
            assert_problem(await server.http.post("/api/sources", json=body | {"secret": json.dumps(request)}), 422)
        with_oauth = body | {"secret": json.dumps({"token_url": "https://login.example/token", "client_id": "us"})}
        assert (await server.http.post("/api/sources", json=with_oauth)).status_code == 201
        gmail = body | {"address": "imaps://imap.gmail.com"}
        assert (await server.http.post("/api/sources", json=gmail)).status_code == 201


async def test_only_owners_see_sources_and_only_who_added_one_changes_it(serve):
    body = {"kind": "bucket", "address": "https://a.example/b", "username": "u", "secret": "s"}
    async with serve(with_worker=False) as server:
        org = await create_org(server.http)
        server.http.headers["x-org-id"] = org
        at = f"/api/sources/{(await add(server.http, body))['id']}"
        async with (
            new_member(server, org, "member") as (member, _),
            new_member(server, org, "owner") as (owner, _),
            server.client() as stranger,
        ):
            assert_problem(await member.get("/api/sources"), 403, "owner_needed")
            assert_problem(await member.post("/api/sources", json=body), 403, "owner_needed")
            assert (await stranger.get("/api/sources")).json()["items"] == []
            for other in (member, owner, stranger):
                assert_problem(await other.patch(at, json={"is_paused": True}), 404)
                assert_problem(await other.post(f"{at}/check"), 404)
            for other in (member, stranger):
                assert_problem(await other.delete(at), 404)
            assert len((await owner.get("/api/sources")).json()["items"]) == 1
            assert (await server.http.patch(at, json={"is_paused": True})).json()["is_paused"]
            assert (await owner.delete(at)).status_code == 204


async def test_a_paused_source_is_left_alone_and_a_person_who_left_adds_nothing(serve, bucket, clone):
    bucket.objects = {"a.txt": b"Total: 1"}
    async with serve(with_worker=False, **LOOPBACK) as server:
        source = await add(server.http, of_bucket(bucket))
        at = f"/api/sources/{source['id']}"
        await server.http.patch(at, json={"is_paused": True})
        assert await lease(server) == []
        await server.http.patch(at, json={"is_paused": False})
        (due,) = await lease(server)
        add_member(clone.owner_url, server.scope.org_id, "owner")
        sql(clone.owner_url, "update memberships set role = 'viewer' where user_id = %s", server.scope.user_id)
        sql(clone.owner_url, "update sources set due_at = now()")
        (due,) = await lease(server)
        assert not due.is_owner_there and due.kind is SourceKind.BUCKET
        async with intakes(server, 1) as (intake,):
            await intake.look_at(due)
        (row,) = sql(clone.owner_url, "select error_code, taken from sources")
        assert row == {"error_code": "owner_left", "taken": 0} and bucket.requests == []


async def test_attachments_of_mails_become_documents_and_replies_of_machines_do_not(serve, mailbox):
    invoice = mail("Your invoice")
    invoice.add_attachment(b"Total: 1", maintype="text", subtype="plain", filename="Rechnung März.txt")
    invoice.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="logo.png", cid="<logo>")
    robot = mail("Monthly invoice", Auto_Submitted="auto-generated")
    robot.add_attachment(b"Total: 2", maintype="text", subtype="plain", filename="b.txt", disposition="inline")
    for number, message in enumerate(
        [
            invoice,
            mail("Receipt", "Total: 3"),
            mail("Out of office", Auto_Submitted="auto-replied"),
            mail("Status", Auto_Submitted="auto-generated"),
            robot,
        ]
    ):
        mailbox.deliver(message, f"m{number}")
    async with serve(**LOOPBACK) as server:
        await add(server.http, of_mailbox(mailbox, extract=""))
        source = await next_look(server.http)
        found = await documents(server.http)
        assert names(found) == ["Receipt.eml", "Rechnung März.txt", "b.txt"]
        about = {one["filename"]: one["metadata"] for one in found}["Rechnung März.txt"]
        assert (about["from"], about["subject"]) == ("shop@example.com", "Your invoice")
        assert (source["taken"], source["skipped"]) == (3, {"auto_reply": 2})
        # The same mails with other numbers, and one more.
        mailbox.renumber()
        mailbox.deliver(mail("Another", "Total: 4"), "m9")
        source = await next_look(server.http, source)
        assert names(await documents(server.http)) == ["Another.eml", "Receipt.eml", "Rechnung März.txt", "b.txt"]
        assert (source["taken"], source["skipped"]) == (4, {"auto_reply": 2, "repeated": 5})


async def test_without_a_target_a_mail_is_a_document_with_its_attachments_inside(serve, mailbox):
    invoice = mail("Your invoice")
    invoice.add_attachment(b"Total: 1", maintype="text", subtype="plain", filename="a.txt")
    mailbox.deliver(invoice, "m0")
    async with serve(**LOOPBACK) as server:
        await add(server.http, of_mailbox(mailbox))
        await next_look(server.http)

        async def are_read() -> bool:
            found = await documents(server.http)
            return [one["status"] for one in found] == ["ready", "ready"]

        await until(are_read)
        found = {one["filename"]: one for one in await documents(server.http)}
        assert found["a.txt"]["parent_document_id"] == found["Your invoice.eml"]["id"]


async def test_a_mailbox_is_read_in_parts_and_a_refused_password_is_reported(serve, mailbox):
    for number in range(70):
        mailbox.deliver(mail(f"Receipt {number}", f"Total: {number}"), f"m{number}")
    async with serve(with_worker=False, **LOOPBACK) as server:
        await add(server.http, of_mailbox(mailbox))
        async with intakes(server, 1) as (intake,):
            for total in (50, 70):
                (due,) = await lease(server)
                await intake.look_at(due)
                assert (await get(server.http))["taken"] == total
            mailbox.set_password("another")
            await server.http.post(f"/api/sources/{due.id}/check")
            (due,) = await lease(server)
            await intake.look_at(due)
        source = await get(server.http)
        assert (source["error_code"], source["taken"]) == ("credentials_refused", 70)
        assert len(await documents(server.http)) == 70


class TokenServer(BaseHTTPRequestHandler):
    """Issues an access token for `SECRET`, and says whose it is."""

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        is_known = form == {"grant_type": ["client_credentials"], "client_id": ["us"], "client_secret": [SECRET]}
        self.answer(200 if is_known else 400, {"access_token": "issued"} if is_known else {"error": "invalid_client"})

    def do_GET(self) -> None:
        self.answer(*((200, {"email": USER}) if self.path == "/of/issued" else (401, {})))

    def answer(self, status: int, body: dict[str, str]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        if self.path == "/packed":
            content = gzip.compress(gzip.compress(content))
            self.send_header("Content-Encoding", "gzip, gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


async def test_a_compressed_token_is_not_unpacked():
    form = {"grant_type": "client_credentials", "client_id": "us", "client_secret": SECRET}
    with http_stub(TokenServer) as url:
        plain, packed = (
            TokenRequest(at, form, [ip_network("127.0.0.0/8")]) for at in (f"{url}/plain", f"{url}/packed")
        )
        assert await plain.send() == "issued"
        with pytest.raises(SourceFailure, match="not_understood"):
            await packed.send()


async def test_a_mailbox_with_oauth_is_read_with_a_token_of_its_token_request(serve, monkeypatch):
    with http_stub(TokenServer) as tokens, mail_server(f"{tokens}/of/") as mailbox:
        monkeypatch.setenv("SSL_CERT_FILE", str(mailbox.certificate))
        mailbox.deliver(mail("One"), "1")
        request = {"token_url": tokens, "grant_type": "client_credentials", "client_id": "us", "client_secret": SECRET}
        async with serve(**LOOPBACK) as server:
            source = await add(server.http, of_mailbox(mailbox, secret=json.dumps(request | {"client_secret": "x"})))
            assert (await next_look(server.http))["error_code"] == "credentials_refused"
            at = f"/api/sources/{source['id']}"
            changed = await server.http.patch(at, json={"secret": json.dumps(request)})
            assert changed.status_code == 200 and SECRET not in changed.text

            async def is_taken() -> bool:
                return (await get(server.http))["taken"] == 1

            await until(is_taken)


async def test_a_mail_that_cannot_be_read_holds_up_no_other(serve, mailbox, clone):
    for number in range(4):
        mailbox.deliver(mail(f"Receipt {number}", f"Total: {number}"), f"m{number}")
    mailbox.allow_reading("m1", False)
    async with serve(with_worker=False, **LOOPBACK) as server:
        await add(server.http, of_mailbox(mailbox))
        async with intakes(server, 1) as (intake,):
            source = await look(intake, server)
            (failure,) = source["failures"]
            assert (source["taken"], source["retrying"], failure["attempts"]) == (3, 1, 1)
            assert failure["name"].endswith(":2") and failure["error_code"] in ("not_understood", "unreachable")
            mailbox.allow_reading("m1", True)
            make_due(clone)
            source = await look(intake, server)
            assert (source["taken"], source["failures"]) == (4, [])
        assert names(await documents(server.http)) == [f"Receipt {number}.eml" for number in range(4)]


async def test_a_hostile_mail_becomes_a_document_that_failed_and_holds_up_no_other(serve, mailbox):
    nested = "".join(f'Content-Type: multipart/mixed; boundary="{n}"\n\n--{n}\n' for n in range(2000))
    mailbox.deliver(f"{nested}\nText\n".encode(), "m0")
    mailbox.deliver(mail("Receipt", "Total: 1"), "m1")
    async with serve(**LOOPBACK) as server:
        await add(server.http, of_mailbox(mailbox))
        source = await next_look(server.http)
        assert (source["taken"], source["retrying"]) == (2, 0)

        async def statuses() -> Any:
            found = {one["filename"]: one["status"] for one in await documents(server.http)}
            return found == {"mail.eml": "failed", "Receipt.eml": "ready"}

        await until(statuses)


@pytest.mark.parametrize("fault", ["folder", "certificate", "disconnect"])
async def test_a_mailbox_that_cannot_be_read_is_reported(serve, mailbox, monkeypatch, fault):
    body, error_code = of_mailbox(mailbox), {"folder": "not_found", "disconnect": "unreachable"}.get(fault, fault)
    if fault == "folder":
        body["folder"] = "Nothing"
    elif fault == "certificate":
        monkeypatch.delenv("SSL_CERT_FILE")
    with socket.socket() as closing:
        closing.bind(("127.0.0.1", 0))  # bound but not listening: refuses connections
        if fault == "disconnect":
            body["address"] = f"imaps://127.0.0.1:{closing.getsockname()[1]}"
        async with serve(**LOOPBACK) as server:
            await add(server.http, body)
            assert (await next_look(server.http))["error_code"] == error_code


async def test_documents_of_a_deleted_source_stay(serve, bucket):
    bucket.objects = {"a.txt": b"Total: 1"}
    async with serve(**LOOPBACK) as server:
        source = await add(server.http, of_bucket(bucket))
        await next_look(server.http)
        assert (await server.http.delete(f"/api/sources/{source['id']}")).status_code == 204
        assert (await server.http.get("/api/sources")).json()["items"] == []
        assert len(await documents(server.http)) == 1


async def test_a_source_adds_its_documents_to_a_stack(serve, bucket):
    bucket.objects = {"a.txt": b"Total: 1"}
    async with serve(**LOOPBACK) as server:
        stack = (await server.http.post("/api/stacks", json={"name": "t", "document_ids": []})).json()["id"]
        await add(server.http, of_bucket(bucket, stack_id=stack))
        await next_look(server.http)
        in_stack = await server.http.get("/api/documents", params={"stack_id": stack})
        assert [UUID(one["id"]) for one in in_stack.json()["items"]]
