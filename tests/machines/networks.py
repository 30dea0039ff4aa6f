"""Two hosts with networks of their own and one between them, out of namespaces; whatever listens there is led to us.

Nothing of the machine's own network is touched: the sockets of the network in between are made inside it and handed
over, and its end of a cable can be pulled.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

# Opens a listener for each port in the namespace that it is started in, and hands them over.
_LISTEN = """
import socket, sys
way = socket.socket(fileno=int(sys.argv[1]))
listeners = [socket.create_server(("0.0.0.0", int(port)), backlog=128) for port in sys.argv[2:]]
socket.send_fds(way, [b"."], [listener.fileno() for listener in listeners])
"""


@dataclass(frozen=True)
class Host:
    """A network namespace that reaches the one in between at `to`, and nothing else."""

    name: str
    to: str
    _between: str
    _cable: str

    @property
    def inside(self) -> Sequence[str]:
        """What a command starts with to run on this host."""
        return ["ip", "netns", "exec", self.name]

    def cut_off(self) -> None:
        _ip("-n", self._between, "link", "set", self._cable, "down")

    def connect(self) -> None:
        _ip("-n", self._between, "link", "set", self._cable, "up")


def why_not() -> str | None:
    """Why no namespaces can be made here, or None."""
    if shutil.which("ip") is None:
        return "ip is not installed (Debian: iproute2)"
    name = f"fm-{uuid4().hex[:6]}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces cannot be made here: {made.stderr.strip()}"
    try:
        cable = ["ip", "-n", name, "link", "add", "one", "type", "veth", "peer", "name", "other"]
        made = subprocess.run(cable, capture_output=True, text=True, check=False)
        return f"virtual cables cannot be made here: {made.stderr.strip()}" if made.returncode else None
    finally:
        _ip("netns", "delete", name)


@asynccontextmanager
async def two_hosts(ports: dict[int, tuple[str, int]]) -> AsyncIterator[list[Host]]:
    """Two hosts whose connections to a port of the network in between are led to an address of ours."""
    async with AsyncExitStack() as stack:
        between = stack.enter_context(_namespace("between"))
        hosts = []
        for number in (1, 2):
            name, cable, to = stack.enter_context(_namespace(f"host{number}")), f"to{number}", f"10.77.{number}.1"
            _ip("-n", between, "link", "add", cable, "type", "veth", "peer", "name", "cable", "netns", name)
            _ip("-n", between, "address", "add", f"{to}/24", "dev", cable)
            _ip("-n", name, "address", "add", f"10.77.{number}.2/24", "dev", "cable")
            _ip("-n", between, "link", "set", cable, "up")
            _ip("-n", name, "link", "set", "cable", "up")
            hosts.append(Host(name, to, between, cable))
        for listener, target in zip(_listeners_in(between, list(ports)), ports.values(), strict=True):
            await stack.enter_async_context(_leading(listener, target))
        yield hosts


@contextmanager
def _namespace(what: str) -> Iterator[str]:
    name = f"fm-{uuid4().hex[:6]}-{what}"
    _ip("netns", "add", name)
    try:
        _ip("-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        _ip("netns", "delete", name)


def _listeners_in(namespace: str, ports: Sequence[int]) -> list[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        number = str(theirs.fileno())
        command = ["ip", "netns", "exec", namespace, sys.executable, "-c", _LISTEN, number, *map(str, ports)]
        subprocess.run(command, pass_fds=[theirs.fileno()], check=True)
        _, descriptors, _, _ = socket.recv_fds(ours, 1, len(ports))
    return [socket.socket(fileno=descriptor) for descriptor in descriptors]


@asynccontextmanager
async def _leading(listener: socket.socket, target: tuple[str, int]) -> AsyncIterator[None]:
    """Lead every connection to the target until the end. One that falls silent stays open, as it would at a server."""
    led: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        led[task] = [writer]
        try:
            with suppress(OSError):
                there, back = await asyncio.open_connection(*target)
                led[task].append(back)
                await asyncio.gather(_pour(reader, back), _pour(there, writer))
        finally:
            for end in led.pop(task):
                end.transport.abort()

    server = await asyncio.start_server(lead, sock=listener)
    try:
        yield
    finally:
        server.close()
        under_way = list(led)
        for end in [end for ends in led.values() for end in ends]:
            end.transport.abort()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while some := await reader.read(65_536):
        writer.write(some)
        await writer.drain()
    writer.close()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, env={"PATH": os.environ["PATH"]})  # noqa: TID251  no settings here
