"""The programs of docs/recipes, as they are printed there, against the real service."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from extraction_case import until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script
from http_stub import http_stub
from running_server import RunningServer

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def block(page: str, language: str) -> str:
    """Return the only block in a language of a recipe."""
    content = (ROOT / "docs" / "recipes" / f"{page}.md").read_text("utf-8")
    (found,) = re.findall(rf"```{language}\n(.*?)```", content, re.DOTALL)
    return found


def variables(server: RunningServer, **more: str) -> dict[str, str]:
    key = server.http.headers["authorization"].removeprefix("Bearer ")
    clients = str(ROOT / "clients" / "python")
    return {"SERVICE": server.base_url, "KEY": key, "PYTHONPATH": clients, **more}


@asynccontextmanager
async def running(
    code: str, folder: Path, *arguments: str, **environment: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, *arguments, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.long
async def test_the_slack_notifier_posts_each_new_review_once(serve, tmp_path):
    posted: list[str] = []
    tries: list[str] = []

    class Slack(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            tries.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["text"])
            is_limited = len(tries) == 1
            self.send_response(429 if is_limited else 200)
            if is_limited:
                self.send_header("Retry-After", "0")
            else:
                posted.append(tries[-1])
            self.end_headers()

    invented = {"fields": {"vendor": "Acme"}, "confidences": {"vendor": 0.9}}
    replies = [[call("extract_fields", invented)], [call("complete_extraction", {})], [text("Done.")]]
    with http_stub(Slack) as slack:
        async with serve(Script(replies * 3)) as server:
            environment = variables(server, SLACK_WEBHOOK_URL=slack)

            async def extract(name: str) -> str:
                document = str(await server.upload_text(name=name))
                answer = await server.http.post("/api/agent/extract", json={"document_id": document})
                assert answer.json()["extraction"]["review_count"] > 0
                return document

            await extract("before the first start.txt")
            seen = tmp_path / "seen.txt"
            async with running(block("slack", "python"), tmp_path, **environment):
                start = await until(lambda: seen.exists() and seen.read_text())
                first = await extract("a.txt")
                # (Killed before it has stored its place, it would post the first again.)
                await until(lambda: len(posted) == 1 and seen.read_text() not in ("", start))
            second = await extract("b.txt")
            async with running(block("slack", "python"), tmp_path, **environment):  # goes on where it was
                await until(lambda: len(posted) == 2)
    assert len(posted) == 2 and f"/documents/{first}|" in posted[0] and f"/documents/{second}|" in posted[1]


@pytest.mark.long
async def test_documents_become_a_data_frame(serve, tmp_path):
    pytest.importorskip("pandas")
    (tmp_path / "a.txt").write_text("Invoice number: 1\nTotal: 10.00 EUR\n")
    schema = {"name": "invoices", "schema": {"type": "object", "properties": {"total": {"type": "number"}}}}
    async with serve() as server:
        (await server.http.post("/api/schemas", json=schema)).raise_for_status()
        arguments = ("invoices", str(tmp_path / "a.txt"))
        async with running(block("dataframe", "python"), tmp_path, *arguments, **variables(server)) as process:
            output = (await process.communicate())[0].decode()
    assert process.returncode == 0 and re.search(r"a\.txt +10\b", output), output
