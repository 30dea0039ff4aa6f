"""Measures whether changes reach a webhook once: a receiver that fails half of the time, while it and the service are
killed at random.

Reports the changes that were lost, those that came twice, those out of order in the feed, and how much slower a write
is because of the change that it records. A refused delivery is due again at once. One that was being sent when the
service was killed is due after 16 seconds instead of 60.

The service applies the migrations at each start, and refuses those that were edited: do not edit any meanwhile.

    pip install '.[bench]' && python bench/changes.py [--writes 10000]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg

from processes import Service, free_port, kill_all, service, time_limit

ORGANISATIONS, OF_ONE_DOCUMENT = 10, 5
SERVICE_SECONDS = (20.0, 60.0)
RECEIVER_SECONDS = (5.0, 20.0)
ADD = """with document as (
    insert into public.documents (id, org_id, created_by, user_id, filename, storage_path, status, media_type,
      page_count)
    select id, %(org)s, %(user)s, %(user)s, 'a.txt', concat_ws('/', %(org)s::uuid, id, 'a.txt'), 'ready', 'text/plain',
      1
    from (select private.new_id() as id) as new returning id)
  insert into public.extractions (org_id, created_by, user_id, document_id, status)
  select %(org)s, %(user)s, %(user)s, id, 'completed' from document returning id"""
WRITE = "update public.extractions set extracted_fields = %s where id = %s"
TRIGGER = "alter table public.extractions {} trigger record_changed_extraction"


def receive(port: int, log: Path) -> None:
    """Be the receiver: note each request, and answer with 204 or, half of the time, with 500."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status = random.choice((204, 500))
            with log.open("a") as opened:
                opened.write(f"{status} {self.headers['webhook-id']} {body['id']}\n")
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


class Restarted:
    """A process that is killed, and started again, after so many seconds at random."""

    def __init__(self, seconds: tuple[float, float], *arguments: str, **environment: str) -> None:
        self._seconds = seconds
        self._arguments, self._environment = [sys.executable, *arguments], {**os.environ, **environment}
        self.kills, self._due = 0, 0.0
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._arguments, env=self._environment, start_new_session=True, stdout=subprocess.DEVNULL
        )
        self._due = time.monotonic() + random.uniform(*self._seconds)

    def kill_if_due(self) -> None:
        """Kill and restart it if its time is over. Exit if it ended by itself, since it would do so each time."""
        if self._process.poll() is not None:
            raise SystemExit(f"{self._arguments} ended by itself; its message is above.")
        if time.monotonic() >= self._due:
            self.kills += 1
            self.stop()
            self._start()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def milliseconds_of_a_write(owner: psycopg.Connection[Any], org: UUID, user: UUID) -> tuple[float, float]:
    """Return the median time of a write to a completed extraction, without and with the change that it records."""
    owner.execute("select set_config('request.jwt.claims', %s, false)", [json.dumps({"sub": str(user)})])
    row = owner.execute(ADD, {"org": org, "user": user}).fetchone()
    assert row is not None
    times: dict[str, list[float]] = {"disable": [], "enable": []}
    for number in range(40):
        for state in times:
            owner.execute(TRIGGER.format(state).encode())
            for value in range(25):
                start = time.perf_counter()
                owner.execute(WRITE, [json.dumps({"total": number * 25 + value}), row[0]])
                times[state].append(time.perf_counter() - start)
    return statistics.median(times["disable"]) * 1000, statistics.median(times["enable"]) * 1000


def run(at: Service, folder: Path, count: int) -> None:
    users = [uuid4() for _ in range(ORGANISATIONS)]
    for user in users:
        httpx.get(f"{at.address}/api/me", headers={"Authorization": f"Bearer {at.token(user)}"}).raise_for_status()
    port, log = free_port(), folder / "received"
    receiver = Restarted(RECEIVER_SECONDS, __file__, "--receive", str(port), str(log))
    home = {"FIELDMARK_HOME": str(at.home), "FIELDMARK_PORT": str(free_port()), "FIELDMARK_LOG_LEVEL": "error"}
    allowed = {"FIELDMARK_PRIVATE_NETWORKS": '["127.0.0.0/8"]', "ANTHROPIC_API_KEY": "", "FIELDMARK_WARM_SPARES": "0"}
    with psycopg.connect(at.database.owner_url, autocommit=True) as owner:
        orgs = owner.execute(
            "select id, personal_of from organisations where personal_of = any (%s)", [users]
        ).fetchall()
        without, with_change = milliseconds_of_a_write(owner, *orgs[0])
        owner.execute("delete from changes")
        owner.execute(
            """insert into webhooks (org_id, created_by, url, secret)
               select id, created_by, %s, 'whsec_' || repeat('A', 44) from organisations""",
            [f"http://127.0.0.1:{port}/"],
        )
        server = Restarted(SERVICE_SECONDS, "-c", "from fieldmark.cli import main; main()", "serve", **home, **allowed)
        start = time.monotonic()
        try:
            extractions: list[UUID] = []
            for number in range(count):
                round_, place = divmod(number, count // OF_ONE_DOCUMENT)
                if round_ == 0:
                    org, user = orgs[place % ORGANISATIONS]
                    extractions += owner.execute(ADD, {"org": org, "user": user}).fetchone() or ()
                else:
                    owner.execute(WRITE, [json.dumps({"total": round_}), extractions[place]])
                receiver.kill_if_due()
                server.kill_if_due()
            while not are_delivered(owner):
                receiver.kill_if_due()
                server.kill_if_due()
                time.sleep(0.5)
        finally:
            receiver.stop()
            server.stop()
        seconds = time.monotonic() - start
        sent = {str(one) for (one,) in owner.execute("select id from changes")}
        unordered = owner.execute(
            """select count(*) from (
                 select written < lag(written) over (partition by document_id order by number) as is_early from changes
               ) as c where is_early"""
        ).fetchone()
    requests = [line.split() for line in log.read_text().splitlines()]
    accepted = Counter(key for status, key, _ in requests if status == "204")
    print(f"{len(sent):,} changes, {len(requests):,} requests in {seconds:.0f} s")
    print(f"killed: the service {server.kills} times, the receiver {receiver.kills} times")
    print(f"lost: {len(sent - accepted.keys())}; of another id: {len(accepted.keys() - sent)}")
    print(f"accepted more than once, with the same id: {sum(number > 1 for number in accepted.values())}")
    print(f"another id in the body than in the header: {sum(key != body for _, key, body in requests)}")
    print(f"out of order in the feed: {unordered and unordered[0]}")
    print(f"a write: {without:.2f} ms without a change, {with_change:.2f} ms with one")


def are_delivered(owner: psycopg.Connection[Any]) -> bool:
    # (Until an attempt is recorded, it is leased for 60 seconds. It ends within 15.)
    owner.execute(
        "update webhook_deliveries set due_at = now() where status = 'pending' and due_at > now() "
        "and (due_at <> attempted_at + interval '60 seconds' or attempted_at < now() - interval '16 seconds')"
    )
    row = owner.execute(
        """select (select count(*) from webhook_deliveries where status = 'delivered'), count(*), count(number)
           from changes"""
    ).fetchone()
    return row is not None and min(row) == max(row)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--receive"]:
        receive(int(sys.argv[2]), Path(sys.argv[3]))
    parser = argparse.ArgumentParser()
    parser.add_argument("--writes", type=int, default=10_000, help="writes; each makes a change or two")
    parser.add_argument("--minutes", type=float, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fieldmark-bench-") as name, time_limit(given.minutes * 60, Path(name)):
        home = Path(name) / "home"
        with service(home, "", "--no-worker") as at:
            run(at, Path(name), given.writes)
        with suppress(Exception):
            kill_all(Path(name))
