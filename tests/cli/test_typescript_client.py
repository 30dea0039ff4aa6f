"""clients/typescript: generated from the running service's own description, type-checked, and used from Node."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import httpx
import pytest
from command import SAMPLES, Home, serving

from fieldmark.api.app import create_app
from fieldmark.domain.permissions import Permission
from fieldmark.settings import Settings
from node import installed, run
from standing import PATIENCE

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
INVOICE = SAMPLES / "i2d_AzureInterior.pdf"

pytestmark = [pytest.mark.xdist_group("typescript"), pytest.mark.long]


@pytest.fixture(scope="module")
def modules() -> Path:
    """The locked packages."""
    return installed(CLIENT)


@pytest.fixture
def client(modules: Path, tmp_path: Path) -> Path:
    """A copy of the client, with its packages and without anything generated."""
    folder = tmp_path / "client"
    shutil.copytree(CLIENT, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "generated", "openapi.json"))
    (folder / "node_modules").symlink_to(modules)
    return folder


def test_the_description_is_as_redocly_recommends(client: Path):
    (client / "openapi.json").write_text(json.dumps(create_app(Settings(_env_file=None)).openapi()))
    said = run(
        client, "node_modules/.bin/redocly", "lint", "openapi.json", "--extends", "recommended", "--max-problems", "200"
    )
    assert "Your API description is valid" in said and "warning" not in said, said


def test_a_generated_client_does_all_of_it(client: Path, home: Home):
    with serving(home) as server:
        with httpx.Client(base_url=server.url, headers=server.headers, timeout=PATIENCE) as http:
            (client / "openapi.json").write_text(http.get("/openapi.json").text)
            scopes = [Permission.DOCUMENTS_WRITE, Permission.RUNS_READ, Permission.RUNS_WRITE, Permission.RUNS_APPROVE]
            scopes += [Permission.EXTRACTIONS_READ, Permission.EXTRACTIONS_WRITE]
            made = http.post("/api/keys", json={"name": "story", "scopes": scopes}).json()
        run(client, "node_modules/.bin/openapi-ts")
        run(client, "node_modules/.bin/tsc")
        environment = {"FIELDMARK_URL": server.url, "FIELDMARK_KEY": made["key"]}
        said = run(client, "node", "dist/examples/story.js", str(INVOICE), **environment)
        headers = {"authorization": f"Bearer {made['key']}"}
        run_id = httpx.get(f"{server.url}/api/runs", headers=headers, timeout=PATIENCE).json()["items"][0]["id"]
        # Its events once more, by a line that is lost again and again.
        again = json.loads(run(client, "node", "dist/tests/lost.js", run_id, **environment))
        # Another person decides the same calls, and is faster.
        together = json.loads(run(client, "node", "dist/tests/together.js", str(INVOICE), **environment))
    lines = said.strip().splitlines()
    assert lines[0] == "signed in with the key story"
    told = json.loads(lines[-1])
    assert told["version"] == 2 and told["events"] > 6
    assert told["fields"]["invoice_number"] == "INV/2023/03/0008"
    assert (told["fields"]["reviewed_by"], told["fields"]["note"]) == ("Grace", "paid")
    assert again == {"lost": 4, "numbers": list(range(1, told["events"] + 1)), "beyond": [], "refusal": "404 not_found"}
    assert "INV/2023/03/0008" in (client / "extraction.csv").read_text()
    assert together["answers"] and set(together["answers"]) == {409} and together["last"] == "complete"
