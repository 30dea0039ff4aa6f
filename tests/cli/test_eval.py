"""`fieldmark eval`: what it scores, how it ends, and that it leaves nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from at_work import Commands
from command import SAMPLES
from psycopg.types.json import Jsonb

from fieldmark.cli.process import LOCAL_USER
from fieldmark.offline_model.messages import call
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

GOLD = {"invoice_number": "INV/2023/03/0008", "total": 279.84, "vendor": {"name": "Azure Interior"}}


@pytest.fixture
async def fieldmark(local_commands) -> AsyncIterator[Commands]:
    """Without a key: the offline rules answer."""
    async with local_commands(Script([]), ANTHROPIC_API_KEY="") as fieldmark:
        yield fieldmark


@pytest.fixture
def folder(quick_path: Path) -> Path:
    folder = quick_path / "cases"
    folder.mkdir()
    shutil.copy(SAMPLES / "i2d_AzureInterior.pdf", folder / "azure.pdf")
    (folder / "azure.gold.json").write_text(json.dumps(GOLD))
    return folder


async def test_a_folder_is_scored_compared_and_leaves_nothing(fieldmark, folder):
    done = await fieldmark.run("eval", "cases", "--save", "report.json")
    assert done.code == 0, done.err
    assert "invoice_number" in done.out and "in all" in done.out and "offline rules" in done.out
    saved = json.loads((fieldmark.folder / "report.json").read_text())
    assert saved["documents"] == 1 and saved["failed"] == [] and saved["cost_usd"] == 0
    assert saved["fields"]["total"] == {"gold": 1, "exact": 1, "normalised": 1, "located": 1, "extra": 0}
    assert {"document": "azure.pdf", "path": "vendor.name", "gold": "Azure Interior"} in saved["faults"]
    counted = "select (select count(*) from public.documents) + (select count(*) from public.extractions) as left"
    assert fieldmark.sql(counted) == [{"left": 0}]

    same = await fieldmark.run("eval", "cases", "--baseline", "report.json", "--json")
    assert same.code == 0 and json.loads(same.out) == saved and "Worse" not in same.err

    # What was right is wrong now: the gold has changed, as if the agent had.
    (folder / "azure.gold.json").write_text(json.dumps({"extracted_fields": {**GOLD, "total": 280}}))
    worse = await fieldmark.run("eval", "cases", "--baseline", "report.json")
    assert worse.code == 1 and "total: exact 100.0% before, 0.0% now" in worse.err
    assert (await fieldmark.run("eval", "cases", "--baseline", "report.json", "--tolerance", "1")).code == 0


async def test_examples_that_make_it_worse_are_dropped(local_commands, quick_path):
    folder, schema = quick_path / "cases", {"type": "object", "properties": {"number": {"type": "string"}}}
    folder.mkdir()
    (folder / "one.txt").write_text("Number: 1\n")
    (folder / "one.gold.json").write_text('{"number": "1"}')
    (quick_path / "schema.json").write_text(json.dumps(schema))

    async def led_astray(body):
        shown = " examples begins]" in json.dumps(body["messages"])
        fields = {"fields": {"number": "7" if shown else "1"}, "confidences": {"number": 0.9}}
        return [call("extract_fields", fields), call("complete_extraction", {"summary": "Done."})]

    async with local_commands(led_astray) as fieldmark:
        asked = ("eval", "cases", "--schema", "schema.json", "--examples", "--json")
        done = await fieldmark.run(*asked)
        assert done.code == 0, done.err
        assert json.loads(done.out)["examples"]["worse"] == []
        # A correction of another document, and the organisation wants it shown.
        (org,) = fieldmark.sql("update public.organisations set examples = true returning id")
        corrected(fieldmark, org["id"], schema)
        worse = await fieldmark.run(*asked)
        assert worse.code == 1 and "no more" in worse.err
        told = json.loads(worse.out)["examples"]
        assert told["dropped"] and told["worse"] and told["total"]["exact"] == 1
        assert fieldmark.sql("select examples from public.organisations") == [{"examples": False}]
        # Whoever may not switch them off is told all the same: what was scored is paid for.
        (team,) = fieldmark.sql("insert into public.organisations (name, examples) values ('T', true) returning id")
        joining = "insert into public.memberships (org_id, user_id, role) values (%s, %s, 'member') returning role"
        fieldmark.sql(joining, team["id"], LOCAL_USER)
        corrected(fieldmark, team["id"], schema)
        of_team = await fieldmark.run(*asked, "--org", str(team["id"]))
        assert of_team.code == 1, of_team.err
        told = json.loads(of_team.out)["examples"]
        assert told["worse"] and not told["dropped"]


def corrected(fieldmark: Commands, org: UUID, schema: dict) -> None:
    """A document in which a person has put right what an agent had read."""
    with psycopg.connect(fieldmark.clone.owner_url) as conn:
        document, extraction = uuid4(), uuid4()
        conn.execute(
            "insert into public.documents (id, org_id, filename, storage_path) values (%s, %s, 'a', %s)",
            (document, org, f"{org}/{document}/a"),
        )
        conn.execute("set local session_replication_role = replica")
        conn.execute(
            """insert into public.extractions (id, org_id, document_id, schema, extracted_fields, locks, version)
               values (%s, %s, %s, %s, '{"number": "7"}', '{"number": {}}', 2)""",
            (extraction, org, document, Jsonb(schema)),
        )
        conn.execute(
            """insert into public.extraction_journal (org_id, extraction_id, version, path, steps, old, new, actor)
               values (%(org)s, %(id)s, 1, '{number}', 'k', null, '"l"', 'agent'),
                 (%(org)s, %(id)s, 2, '{number}', 'k', '"l"', '"7"', 'user')""",
            {"org": org, "id": extraction},
        )


async def test_a_document_that_cannot_be_read_counts_as_nothing_found(fieldmark, folder):
    (folder / "azure.pdf").write_bytes(b"%PDF-1.7 no more")
    done = await fieldmark.run("eval", "cases", "--json")
    report = json.loads(done.out)
    assert done.code == 1 and report["total"]["gold"] == 3 and report["total"]["normalised"] == 0
    assert report["failed"][0]["document"] == "azure.pdf" and report["failed"][0]["error"]


async def test_corrections_are_scored_against(fieldmark):
    none = await fieldmark.run("eval", "--corrections")
    assert none.code == 1 and "corrected by a person" in none.err
    done = await fieldmark.run("extract", str(SAMPLES / "i2d_AzureInterior.pdf"), "--json")
    extraction = json.loads(done.out)
    wrong = {**extraction["extracted_fields"], "vendor": {"name": "Azure Interior"}}
    with psycopg.connect(fieldmark.clone.owner_url, autocommit=True) as conn:
        conn.execute("select set_config('request.jwt.claims', %s, false)", [json.dumps({"sub": str(LOCAL_USER)})])
        conn.execute(
            "update public.extractions set extracted_fields = %s where id = %s", [Jsonb(wrong), extraction["id"]]
        )
    scored = await fieldmark.run("eval", "--corrections", "--json")
    report = json.loads(scored.out)
    assert scored.code == 0 and report["documents"] == 1
    assert report["fields"]["vendor.name"]["gold"] == 1 and report["fields"]["vendor.name"]["exact"] == 0
    assert report["fields"]["total"]["exact"] == 1
    # The extraction that was corrected is there still, and the one that scored it is not.
    assert fieldmark.sql("select id::text from public.extractions") == [{"id": extraction["id"]}]
