"""clients/typescript: generated from the OpenAPI of the service, type-checked, and used from Node."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from commands import INVOICE

from fieldmark.api.app import create_app
from fieldmark.domain.permissions import Permission
from fieldmark.settings import Settings
from node import install_packages, node_paths, run_command
from supabase_stand_in import EMAIL, PASSWORD, PUBLISHABLE_KEY, SECRET_KEY, supabase_project

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a copy of the client with its locked packages."""
    folder = tmp_path_factory.mktemp("typescript") / "client"
    shutil.copytree(CLIENT, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "generated", "openapi.json"))
    (folder / "node_modules").symlink_to(install_packages(CLIENT))
    (folder / "openapi.json").write_text(json.dumps(create_app(Settings(_env_file=None)).openapi()))
    run_command(folder, "node_modules/.bin/openapi-ts")
    run_command(folder, "node_modules/.bin/tsc")
    return folder


def test_the_package_has_the_generated_code_and_no_tests(client: Path):
    (packed,) = json.loads(run_command(client, "node", str(node_paths()[1]), "pack", "--dry-run", "--json"))
    names = {one["path"] for one in packed["files"]}
    assert {"dist/src/index.js", "dist/src/index.d.ts", "dist/src/generated/sdk.gen.js", "README.md"} <= names
    assert not {name for name in names if name.startswith(("dist/tests", "dist/examples", "tests", "src"))}


async def test_generated_typescript_client_works(client: Path, serve):
    async with serve() as server:
        scopes = [Permission.DOCUMENTS_WRITE, Permission.RUNS_READ, Permission.RUNS_WRITE, Permission.RUNS_APPROVE]
        scopes += [Permission.EXTRACTIONS_READ, Permission.EXTRACTIONS_WRITE]
        made = (await server.http.post("/api/keys", json={"name": "story", "scopes": scopes})).json()
        environment = {"FIELDMARK_URL": server.base_url, "FIELDMARK_KEY": made["key"]}

        async def node(*arguments: str) -> str:
            return await asyncio.to_thread(run_command, client, *arguments, **environment)

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


async def test_client_of_supabase_extracts_decides_and_corrects(client: Path, serve, clone):
    async with (
        supabase_project(clone) as project,
        serve(supabase_url=project.url, supabase_secret_key=SECRET_KEY) as server,
    ):
        environment = {"SUPABASE_URL": project.url, "SUPABASE_PUBLISHABLE_KEY": PUBLISHABLE_KEY}
        environment |= {"FIELDMARK_URL": server.base_url}
        story = ("node", "dist/examples/supabase.js", EMAIL, PASSWORD, str(INVOICE))
        result = json.loads(await asyncio.to_thread(run_command, client, *story, **environment))
    assert result["events"][0] == "run" and "approval" in result["events"] and result["events"][-1] == "complete"
    assert [change["path"] for change in result["changed"]] == ["vendor.name"]
    fields = result["extracted_fields"]
    assert (fields["reviewed_by"], fields["vendor"]["name"], fields["total"]) == ("Ada", "Acme", 12)
    assert result["evidence"]["invoice_number"]["page"] == 1 and result["evidence"]["invoice_number"]["boxes"]
    assert {"vendor.name", "total"} <= result["locks"].keys()
    assert result["documents"] == {"filename": INVOICE.name}
