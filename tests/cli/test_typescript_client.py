"""clients/typescript: generated from the OpenAPI of the service, type-checked, and used from Node."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from commands import INVOICE
from standardwebhooks import Webhook

from fieldmark.domain.permissions import Permission
from node import install_packages, node_paths, run_command
from supabase_stand_in import EMAIL, PASSWORD, PUBLISHABLE_KEY, SECRET_KEY, supabase_project

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
sys.path.insert(0, str(CLIENT.parent / "python"))

from fieldmark_client import Fieldmark  # noqa: E402

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pack a copy of the client with its locked packages, which builds it."""
    folder = tmp_path_factory.mktemp("typescript") / "client"
    shutil.copytree(CLIENT, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "generated", "openapi.json"))
    (folder / "node_modules").symlink_to(install_packages(CLIENT))
    path = f"{node_paths()[0]}:{Path(sys.executable).parent}:/usr/bin:/bin"  # `python3` has Fieldmark
    run_command(folder, "node", str(node_paths()[1]), "pack", PATH=path)
    return folder


def test_the_package_has_the_generated_code_and_no_tests(client: Path, tmp_path: Path):
    (packed,) = client.glob("*.tgz")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "node_modules").mkdir()
    package = (tmp_path / "package").rename(tmp_path / "node_modules" / "fieldmark-client")
    names = {one.relative_to(package).as_posix() for one in package.rglob("*") if one.is_file()}
    assert {"dist/src/index.js", "dist/src/index.d.ts", "dist/src/generated/sdk.gen.js", "README.md"} <= names
    assert not {name for name in names if not name.startswith("dist/src/")} - {"package.json", "README.md"}
    # In a project that checks strictly, also what it imports.
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(client / "examples" / "story.ts", tmp_path)
    (tmp_path / "node_modules" / "@types").symlink_to(client / "node_modules" / "@types")
    options = ["--strict", "--module", "nodenext", "--target", "es2023", "--lib", "es2023,dom,dom.iterable"]
    options += ["--skipDefaultLibCheck"]  # TypeScript's own
    for number, page in enumerate((CLIENT.parents[1] / "README.md", CLIENT / "README.md")):
        (tmp_path / f"readme{number}.ts").write_text(
            page.read_text("utf-8").partition("```ts\n")[2].partition("```")[0]
        )
    files = ["story.ts", "readme0.ts", "readme1.ts"]
    run_command(tmp_path, str(client / "node_modules/.bin/tsc"), *options, "--types", "node", *files)
    imported = "import { Fieldmark } from 'fieldmark-client'; console.log(Object.keys(Fieldmark).length)"
    assert run_command(tmp_path, "node", "--input-type=module", "--eval", imported) == "0\n"


def test_the_clients_have_the_same_verbs(client: Path):
    described = (client / "dist" / "src" / "index.d.ts").read_text()
    verbs = set(
        re.findall(r"^    (\w+)\(", described.partition("class Fieldmark {")[2].partition("\n}")[0], re.MULTILINE)
    )
    python = {name for name in vars(Fieldmark) if not name.startswith("_")} - {
        "close",
        "request",
    }  # generated functions
    assert verbs - {"constructor"} == {re.sub(r"_(\w)", lambda one: one[1].upper(), name) for name in python}


async def test_every_verb_works(client: Path, serve):
    secret, now = "whsec_" + "QUJD" * 8, datetime.now(UTC)
    body = json.dumps({"id": "1", "type": "run.completed", "timestamp": "x", "data": {"note": "ä"}})
    headers = {"webhook-id": "m1", "webhook-timestamp": str(int(now.timestamp()))}
    headers["webhook-signature"] = f"v1,AAAA {Webhook(secret).sign('m1', now, body)}"
    async with serve() as server:
        key = server.http.headers["authorization"].removeprefix("Bearer ")
        environment = {"FIELDMARK_URL": server.base_url, "FIELDMARK_KEY": key}
        story = ("node", "dist/tests/verbs.js", secret, body, json.dumps(headers))
        seen = json.loads(await asyncio.to_thread(run_command, client, *story, **environment))
    assert seen.pop("changes").count("extraction.completed") >= 2 and seen.pop("tools")
    assert seen == {
        "uploads": ["a.txt", "b.txt", "external_id_taken"],
        "ended": ["completed", "completed"],
        "total": 12,
        "conflict": "conflict",
        "asking": "queued",
        "late": "timeout",
        "document": "order-1",
        "names": ["a.txt", "b.txt"],
        "rows": [12, 20],
        "tables": ["none", "not_found"],
        "event": "run.completed",
        "refusals": ["refused"] * 5,
    }


def test_temporary_failures_are_repeated_if_that_is_harmless(client: Path):
    sent = json.loads(run_command(client, "node", "dist/tests/retries.js"))
    assert sent == {
        "upload": [3, 1, ""],
        "read": [2, 1, ""],
        "decide": [1, 1, "unavailable"],
        "refused": [1, 1, "not_found"],
    }


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
