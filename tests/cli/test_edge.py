"""`fieldmark serve` against whoever has no token, never finishes a sentence, or comes three hundred times at once."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from command import Home, Serving, read_until, serving

from fieldmark.api.connections import _peer
from standing import PATIENCE

pytestmark = pytest.mark.xdist_group("cli-edge")

MB = 1024 * 1024
OF_A_PEER = 30
IN_ALL = 100


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Serving]:
    settings = {
        "FIELDMARK_MAX_CONNECTIONS": str(IN_ALL),
        "FIELDMARK_MAX_CONNECTIONS_PER_PEER": str(OF_A_PEER),
        "FIELDMARK_REQUEST_SECONDS": "2",
        "FIELDMARK_METRICS_PORT": "0",
    }
    with serving(home, "--no-worker", **settings, FIELDMARK_MAX_FILE_MB="20", FIELDMARK_LOG_LEVEL="error") as server:
        yield server


def connected(server: Serving, peer: str = "127.0.0.1") -> socket.socket:
    """A connection; all of 127.0.0.0/8 is this machine, so that it can be several peers."""
    parts = urlsplit(server.url)
    connection = socket.create_connection((parts.hostname, parts.port), PATIENCE, source_address=(peer, 0))
    connection.settimeout(PATIENCE)
    return connection


def connections(server: Serving) -> int:
    """How many the server has open. (Its descriptors are nobody else's to see.)"""
    port = urlsplit(server.url).port
    found = psutil.net_connections("tcp4")
    return sum(bool(one.laddr) and one.laddr.port == port and one.status == psutil.CONN_ESTABLISHED for one in found)


def head(path: str, *headers: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: here", *headers, "", ""]).encode()


def answer(connection: socket.socket) -> bytes:
    """All that the server says until it ends the connection."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while came := connection.recv(65_536):
            said += came
    return said


def first_line(connection: socket.socket) -> str:
    """What the server answers, whatever it does with the connection."""
    said = b""
    while b"\r\n" not in said:
        came = connection.recv(65_536)
        assert came, "it was ended without an answer"
        said += came
    return said.split(b"\r\n")[0].decode()


def test_figures_are_told_at_a_port_of_their_own_alone(server: Serving):
    said = read_until(server.process.stderr, "/metrics")
    own = said.split("/readyz at ")[1].split()[0]
    assert own != server.url
    told = {url: httpx.get(f"{url}/metrics", timeout=PATIENCE).status_code for url in (server.url, own)}
    assert told == {server.url: 401, own: 200}
    assert httpx.get(f"{own}/api/runs", headers=server.headers, timeout=PATIENCE).status_code == 404


def test_three_hundred_half_sent_requests_keep_out_nobody_else_and_end(server: Serving):
    many = [connected(server) for _ in range(300)]
    try:
        for connection in many:
            with contextlib.suppress(OSError):  # refused already
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: he")
        while connections(server) > OF_A_PEER:  # pytest's own timeout ends it
            time.sleep(0.02)
        with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), base_url=server.url) as another:
            assert another.get("/readyz", timeout=PATIENCE).status_code == 200
        said = [answer(connection) for connection in many]  # each is ended: refused, or its time was over
        assert said.count(b"") >= OF_A_PEER
        assert {one.split(b"\r\n")[0] for one in said if one} == {b"HTTP/1.1 503 Service Unavailable"}
    finally:
        for connection in many:
            connection.close()
    assert httpx.get(f"{server.url}/healthz", timeout=PATIENCE).status_code == 200


def test_many_peers_together_have_so_many_connections_and_no_more(server: Serving):
    peers = [f"127.0.0.{number}" for number in range(10, 15)]
    assert IN_ALL / len(peers) < OF_A_PEER  # so that none of them has too many by itself
    with contextlib.ExitStack() as stack:
        for number in range(IN_ALL):
            stack.enter_context(connected(server, peers[number % len(peers)]))
        last = stack.enter_context(connected(server, "127.0.0.15"))
        assert first_line(last) == "HTTP/1.1 503 Service Unavailable"


def test_one_peer_has_so_many_connections_and_no_more_while_another_has_room(server: Serving):
    with contextlib.ExitStack() as stack:
        for _ in range(OF_A_PEER):
            stack.enter_context(connected(server, "127.0.0.20"))
        assert first_line(stack.enter_context(connected(server, "127.0.0.20"))).endswith("503 Service Unavailable")
        other = stack.enter_context(connected(server, "127.0.0.21"))
        other.sendall(head("/healthz", method="GET"))
        assert first_line(other) == "HTTP/1.1 200 OK"


def test_a_peer_is_an_address_or_the_network_of_one():
    def peer(address: str) -> object:
        return _peer(SimpleNamespace(client=(address, 1)))

    assert peer("2001:db8::1") == peer("2001:db8:0:0:ffff::2") != peer("2001:db8:0:1::1")
    assert peer("127.0.0.1") != peer("127.0.0.2")


def test_a_head_that_comes_in_drops_is_not_waited_for(server: Serving):
    with connected(server) as slow:
        for drop in range(200):
            try:
                slow.sendall(b"GET /healthz HTTP/1.1\r\n" if drop == 0 else b"X-Drop: x\r\n")
            except OSError:
                break
            time.sleep(0.1)
        else:
            pytest.fail("it was waited for")
    # Whoever has said all keeps the connection, for as long as that may take each time.
    with connected(server) as quick:
        for _ in range(3):
            quick.sendall(head("/healthz", method="GET"))
            assert first_line(quick).endswith("HTTP/1.1 200 OK")  # behind the last one's body
            time.sleep(1)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/documents", "multipart/form-data; boundary=x"),
        ("/api/agent/extract", "application/json"),
        ("/api/agent/extract", "multipart/form-data; boundary=x"),
        ("/nowhere", "text/plain"),
    ],
)
def test_without_a_token_nothing_of_a_body_is_waited_for(server: Serving, path: str, kind: str):
    for length in (f"Content-Length: {15 * MB}", "Transfer-Encoding: chunked"):
        with connected(server) as connection:
            connection.sendall(head(path, f"Content-Type: {kind}", length, "Expect: 100-continue"))
            assert first_line(connection) == "HTTP/1.1 401 Unauthorized"


def test_what_a_route_does_not_take_is_refused_before_it_comes(server: Serving):
    token, form = f"Authorization: Bearer {server.token}", "Content-Type: multipart/form-data; boundary=x"
    long = f"Content-Length: {15 * MB}"
    for path, kind, status in (
        ("/api/agent/extract", form, 413),
        ("/api/agent/extract", "Content-Type: application/json", 413),
        ("/api/documents", "Content-Type: application/json", 413),
        ("/api/documents", form, 100),  # the one route that takes it
    ):
        with connected(server) as connection:
            connection.sendall(head(path, token, kind, long, "Expect: 100-continue"))
            assert first_line(connection).split()[1] == str(status), (path, kind)


def test_an_address_that_asks_for_no_token_takes_no_body(server: Serving):
    for length, status in (("Content-Length: 1", 413), ("Content-Length: 0", 200)):
        with connected(server) as connection:
            connection.sendall(head("/healthz", length, method="GET"))
            assert first_line(connection).split()[1] == str(status)


def test_a_body_that_comes_too_slowly_is_not_waited_for(server: Serving):
    token, kind = f"Authorization: Bearer {server.token}", "Content-Type: application/json"
    with connected(server) as connection:
        connection.sendall(head("/api/agent/extract", token, kind, "Content-Length: 1000") + b"{")
        assert first_line(connection) == "HTTP/1.1 408 Request Timeout"


def test_a_body_that_comes_in_drops_is_not_waited_for(server: Serving):
    token, kind = f"Authorization: Bearer {server.token}", "Content-Type: application/json"
    with connected(server) as connection:
        connection.sendall(head("/api/agent/extract", token, kind, "Content-Length: 1000"))
        for _ in range(900):  # a drop each, with a while in between that is never too long by itself
            connection.sendall(b" ")
            if select.select([connection], [], [], 0.1)[0]:
                break
        assert first_line(connection) == "HTTP/1.1 408 Request Timeout"


def test_the_rest_of_a_refused_body_is_not_waited_for(server: Serving):
    with connected(server) as connection:
        connection.sendall(head("/api/agent/extract", "Content-Length: 1000000"))
        assert first_line(connection) == "HTTP/1.1 401 Unauthorized"
        until = time.monotonic() + PATIENCE
        with pytest.raises(OSError):
            while time.monotonic() < until:
                connection.sendall(b"x")
                time.sleep(0.05)


def test_an_answer_that_is_never_taken_is_not_waited_for(server: Serving):
    open_at_first = connections(server)
    with connected(server) as deaf:
        deaf.sendall(head("/openapi.json", method="GET") * 300)  # more than all buffers on the way hold
        with pytest.raises(OSError):
            while True:  # pytest's own timeout ends it
                deaf.sendall(b"G")
                time.sleep(0.1)
    assert connections(server) <= open_at_first


def test_refused_bodies_take_no_memory(server: Serving):
    def send(number: int) -> str:
        token = f"Authorization: Bearer {server.token}" if number % 2 else "X-No: token"
        kind = "Content-Type: multipart/form-data; boundary=x"
        with connected(server) as connection:
            connection.sendall(head("/api/agent/extract", token, kind, "Transfer-Encoding: chunked"))
            piece = b"%x\r\n%b\r\n" % (MB, b"x" * MB)
            with contextlib.suppress(OSError):  # it is ended, once its time is over
                for _ in range(20):
                    connection.sendall(piece)
            return first_line(connection).split()[1]

    process = psutil.Process(server.process.pid)
    httpx.get(f"{server.url}/api/runs", headers=server.headers, timeout=PATIENCE)
    before = process.memory_info().rss
    with ThreadPoolExecutor(10) as senders:
        statuses = []
        for sending in [senders.submit(send, number) for number in range(20)]:
            with contextlib.suppress(ConnectionResetError):
                statuses.append(sending.result())
    assert set(statuses) <= {"401", "413"} and statuses
    assert process.memory_info().rss - before < 40 * MB  # of 400 that were sent
