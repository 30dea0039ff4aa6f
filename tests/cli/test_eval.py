"""`fieldmark eval`: scores, exit codes, and that it leaves no documents."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import psycopg
import pytest
from commands import INVOICE
from psycopg.types.json import Jsonb

from fieldmark.cli.process import LOCAL_USER
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

GOLD = {"invoice_number": "INV/2023/03/0008", "total": 279.84, "vendor": {"name": "Azure Interior"}}


def write_case(folder: Path, name: str, gold: dict) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.gold.json").write_text(json.dumps(gold))


async def test_a_folder_is_scored_compared_and_leaves_nothing(local_commands, memory_path):
    folder = memory_path / "cases"
    write_case(folder, "azure", GOLD)
    shutil.copy(INVOICE, folder / "azure.pdf")
    async with local_commands(Script([]), ANTHROPIC_API_KEY="") as fieldmark:
        done = await fieldmark.run("eval", "cases", "--save", "report.json", "--calibration", "curve.svg")
        assert done.code == 0, done.err
        assert "invoice_number" in done.out and "in all" in done.out and "offline rules" in done.out
        saved = json.loads((fieldmark.folder / "report.json").read_text())
        assert saved["documents"] == 1 and saved["failed"] == [] and saved["cost_usd"] == 0
        assert saved["fields"]["total"] == {"gold": 1, "exact": 1, "normalised": 1, "located": 1, "extra": 0}
        assert saved["calibration"]["right_shown"]["value"] == 1 and saved["calibration"]["documents"] == 1
        assert "<polyline" in (fieldmark.folder / "curve.svg").read_text()
        assert {"document": "azure.pdf", "path": "vendor.name", "gold": "Azure Interior"} in saved["faults"]
        count_query = (
            "select (select count(*) from public.documents) + (select count(*) from public.extractions) as left"
        )
        assert fieldmark.sql(count_query) == [{"left": 0}]

        # With changed gold values the score falls. An unreadable file counts as no values found.
        write_case(folder, "azure", {"extracted_fields": {**GOLD, "total": 280}})
        write_case(folder, "broken", GOLD)
        (folder / "broken.pdf").write_bytes(b"%PDF-1.7 no more")
        worse = await fieldmark.run("eval", "cases", "--baseline", "report.json", "--json")
        assert worse.code == 1 and "total: exact 100.0% before, 0.0% now" in worse.err
        report = json.loads(worse.out)
        assert [one["document"] for one in report["failed"]] == ["broken.pdf"] and report["failed"][0]["error"]
        assert (report["total"]["gold"], report["total"]["normalised"]) == (6, 1)


async def test_corrections_serve_as_expected_values(local_commands):
    async with local_commands(Script([]), ANTHROPIC_API_KEY="") as fieldmark:
        none = await fieldmark.run("eval", "--corrections")
        assert none.code == 1 and "corrected by a person" in none.err
        done = await fieldmark.run("extract", str(INVOICE), "--json")
        extraction = json.loads(done.out)
        wrong = {**extraction["extracted_fields"], "vendor": {"name": "Azure Interior"}}
        with psycopg.connect(fieldmark.owner_url, autocommit=True) as conn:
            conn.execute("select set_config('request.jwt.claims', %s, false)", [json.dumps({"sub": str(LOCAL_USER)})])
            conn.execute(
                "update public.extractions set extracted_fields = %s where id = %s", [Jsonb(wrong), extraction["id"]]
            )
        scored = await fieldmark.run("eval", "--corrections", "--json")
        report = json.loads(scored.out)
        assert scored.code == 0 and report["documents"] == 1
        assert report["fields"]["vendor.name"]["gold"] == 1 and report["fields"]["vendor.name"]["exact"] == 0
        assert report["fields"]["total"]["exact"] == 1
        # The corrected extraction still exists, and the one made for scoring does not.
        assert fieldmark.sql("select id::text from public.extractions") == [{"id": extraction["id"]}]
        # If writes need approval, eval reports that and starts no run.
        fieldmark.sql("update public.organisations set second_person = true returning id")
        count_query = "select count(*) from public.runs"
        before = fieldmark.sql(count_query)
        refused = await fieldmark.run("eval", "--corrections")
        assert refused.code == 1 and "second_person_needed" in refused.err and fieldmark.sql(count_query) == before
