"""The units of deploy/systemd are valid, are the ones that docs/deploy.md starts, and do their work."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from running_server import METRICS_TOKEN, PATIENCE, SCRAPER

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "deploy" / "systemd"
FIELDMARK = f"#!/bin/sh\nexec '{sys.executable}' -c 'from fieldmark.cli import main; main()' \"$@\"\n"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Machine:
    """A folder in place of `/`, with the files that docs/deploy.md creates, and what systemd does with a unit."""

    def __init__(self, root: Path, settings: dict[str, str], owner_url: str) -> None:
        self._root = root
        for folder in ("etc", "opt/fieldmark/bin", "var/backups"):
            (root / folder).mkdir(parents=True)
        (root / "opt/fieldmark/bin/fieldmark").write_text(FIELDMARK)
        (root / "opt/fieldmark/bin/fieldmark").chmod(0o755)
        (root / "etc/fieldmark.env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (root / "etc/fieldmark-owner.env").write_text(f"DATABASE_OWNER_URL={owner_url}\n")

    async def start(self, file: str, instance: str = "") -> asyncio.subprocess.Process:
        text = re.sub(r"(?<=[ =])/(etc|opt|var)/", rf"{self._root}/\1/", (UNITS / file).read_text())
        entries = [line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#"]
        environment = {"PATH": os.defpath}
        for name, value in entries:
            if name == "EnvironmentFile":
                environment |= dict(line.split("=", 1) for line in Path(value).read_text().splitlines())
        [command] = [value for name, value in entries if name == "ExecStart"]
        arguments = shlex.split(command.replace("%i", instance).replace("%%", "%"))
        return await asyncio.create_subprocess_exec(*arguments, env=environment, cwd="/")

    @asynccontextmanager
    async def running(self, file: str, port: int, instance: str = "") -> AsyncIterator[httpx.AsyncClient]:
        process = await self.start(file, instance)
        try:
            async with (
                httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=SCRAPER) as http,
                asyncio.timeout(PATIENCE),
            ):
                while not await _is_ready(http):
                    assert process.returncode is None
                    await asyncio.sleep(0.2)
                yield http
        finally:
            process.terminate()
            assert await process.wait() == 0


async def _is_ready(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/readyz")).is_success
    except httpx.TransportError:
        return False


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copies = [tmp_path / unit.name for unit in UNITS.iterdir()]
    for copy in copies:
        copy.write_text((UNITS / copy.name).read_text().replace("/opt/fieldmark/bin/fieldmark", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *copies], capture_output=True, text=True)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "fieldmark" in line]) == (0, [])


def test_the_documentation_starts_each_unit_and_prometheus_scrapes_each_process() -> None:
    text = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    [enabled] = re.findall(r"^systemctl enable --now (.*)$", text, re.MULTILINE)
    started = {re.sub(r"@\d+$", "@", name) for name in [*enabled.split(), *re.findall(r"systemctl start (\S+)", text)]}
    [configuration] = yaml.safe_load((ROOT / "deploy/monitoring/prometheus.yml").read_text())["scrape_configs"]
    ports = {8731, *map(int, re.findall(r"@(\d+)", enabled))}
    assert configuration["static_configs"] == [{"targets": [f"127.0.0.1:{port}" for port in sorted(ports)]}]
    assert {f"{name}.service" if "." not in name else name for name in started} == {u.name for u in UNITS.iterdir()}


@pytest.mark.anyio
async def test_the_units_serve_work_and_back_up(clone: Any, memory_path: Path) -> None:
    port, worker_port = free_port(), free_port()
    settings = {
        "DATABASE_URL": clone.app_url,
        "FIELDMARK_HOME": str(memory_path / "home"),
        "FIELDMARK_METRICS_TOKEN": METRICS_TOKEN,
        "FIELDMARK_PORT": str(port),
    }
    machine = Machine(memory_path / "machine", settings, clone.owner_url)
    async with (
        machine.running("fieldmark.service", port) as service,
        machine.running("fieldmark-worker@.service", worker_port, str(worker_port)) as worker,
    ):
        for http in (service, worker):
            assert "fieldmark_queue_jobs" in (await http.get("/metrics")).text
        assert await (await machine.start("fieldmark-backup.service")).wait() == 0
        [backup] = (memory_path / "machine/var/backups").iterdir()
        assert re.fullmatch(r"fieldmark-[1-7]\.backup", backup.name) and backup.stat().st_mode & 0o77 == 0
