"""clients/typescript: generated from the OpenAPI of the running service, type-checked, and used from Node."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from commands import INVOICE

from fieldmark.domain.permissions import Permission
from node import install_packages, run_command

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """Copy the client with its locked packages and without generated files."""
    folder = tmp_path / "client"
    shutil.copytree(CLIENT, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "generated", "openapi.json"))
    (folder / "node_modules").symlink_to(install_packages(CLIENT))
    return folder


async def test_generated_typescript_client_works(client: Path, serve):
    async with serve() as server:
        (client / "openapi.json").write_text((await server.http.get("/openapi.json")).text)
        scopes = [Permission.DOCUMENTS_WRITE, Permission.RUNS_READ, Permission.RUNS_WRITE, Permission.RUNS_APPROVE]
        scopes += [Permission.EXTRACTIONS_READ, Permission.EXTRACTIONS_WRITE]
        made = (await server.http.post("/api/keys", json={"name": "story", "scopes": scopes})).json()
        environment = {"FIELDMARK_URL": server.base_url, "FIELDMARK_KEY": made["key"]}

        async def node(*arguments: str) -> str:
            return await asyncio.to_thread(run_command, client, *arguments, **environment)

        await node("node_modules/.bin/openapi-ts")
        await node("node_modules/.bin/tsc")
        said = await node("node", "dist/examples/story.js", str(INVOICE))
        assert said.splitlines()[0] == "signed in with the key story"
        result = json.loads(said.strip().splitlines()[-1])
        async with server.client_with_token(made["key"]) as http:
            (example_run,) = (await http.get("/api/runs")).json()["items"]
        # The same events over a connection that breaks repeatedly.
        again = json.loads(await node("node", "dist/tests/lost.js", example_run["id"]))
        # Another user decides the same calls first.
        concurrent_result = json.loads(await node("node", "dist/tests/together.js", str(INVOICE)))
    assert result["version"] == 2 and result["events"] > 6
    assert result["fields"]["invoice_number"] == "INV/2023/03/0008"
    assert (result["fields"]["reviewed_by"], result["fields"]["note"]) == ("Grace", "paid")
    assert again == {
        "lost": 4,
        "numbers": list(range(1, result["events"] + 1)),
        "beyond": [],
        "refusal": "404 not_found",
    }
    assert "INV/2023/03/0008" in (client / "extraction.csv").read_text()
    assert (
        concurrent_result["answers"]
        and set(concurrent_result["answers"]) == {409}
        and concurrent_result["last"] == "complete"
    )
