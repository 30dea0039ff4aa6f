"""`fieldmark eval`: what it scores, how it ends, and that it leaves nothing."""

from __future__ import annotations

import json
import shutil

import psycopg
import pytest
from command import SAMPLES, Home

from fieldmark.cli.process import LOCAL_USER
from fieldmark.db.embedded import running

pytestmark = pytest.mark.xdist_group("cli-eval")

GOLD = {"invoice_number": "INV/2023/03/0008", "total": 279.84, "vendor": {"name": "Azure Interior"}}


@pytest.fixture
def folder(home: Home):
    folder = home.folder / "cases"
    folder.mkdir()
    shutil.copy(SAMPLES / "i2d_AzureInterior.pdf", folder / "azure.pdf")
    (folder / "azure.gold.json").write_text(json.dumps(GOLD))
    yield folder
    shutil.rmtree(folder)


def rows(home: Home, query: str) -> list[tuple]:
    """What a query answers that the local user sends, past all policies."""
    with running(home.path, home.major) as server, psycopg.connect(server.owner_url, autocommit=True) as conn:
        conn.execute("select set_config('request.jwt.claims', %s, false)", (json.dumps({"sub": str(LOCAL_USER)}),))
        return conn.execute(query).fetchall()


def test_a_folder_is_scored_compared_and_leaves_nothing(home: Home, folder):
    report = home.folder / "report.json"
    done = home.run("eval", folder, "--save", report)
    assert done.code == 0, done.err
    assert "invoice_number" in done.out and "in all" in done.out and "offline rules" in done.out
    saved = json.loads(report.read_text())
    assert saved["documents"] == 1 and saved["failed"] == [] and saved["cost_usd"] == 0
    assert saved["fields"]["total"] == {"gold": 1, "exact": 1, "normalised": 1, "located": 1, "extra": 0}
    assert {"document": "azure.pdf", "path": "vendor.name", "gold": "Azure Interior"} in saved["faults"]
    counted = "select (select count(*) from public.documents), (select count(*) from public.extractions)"
    assert rows(home, counted) == [(0, 0)]

    same = home.run("eval", folder, "--baseline", report, "--json")
    assert same.code == 0 and json.loads(same.out) == saved and "Worse" not in same.err

    # What was right is wrong now: the gold has changed, as if the agent had.
    (folder / "azure.gold.json").write_text(json.dumps({"extracted_fields": {**GOLD, "total": 280}}))
    worse = home.run("eval", folder, "--baseline", report)
    assert worse.code == 1 and "total: exact 100.0% before, 0.0% now" in worse.err
    assert home.run("eval", folder, "--baseline", report, "--tolerance", "1").code == 0


def test_a_document_that_cannot_be_read_counts_as_nothing_found(home: Home, folder):
    (folder / "azure.pdf").write_bytes(b"%PDF-1.7 no more")
    done = home.run("eval", folder, "--json")
    report = json.loads(done.out)
    assert done.code == 1 and report["total"]["gold"] == 3 and report["total"]["normalised"] == 0
    assert report["failed"][0]["document"] == "azure.pdf" and report["failed"][0]["error"]


def test_wrong_usage_is_said_before_anything_starts(home: Home, folder):
    (folder / "alone.gold.json").write_text("{}")
    for arguments, said in (
        ([], "Name a folder"),
        ([folder, "--corrections"], "Name a folder"),
        ([home.folder], "There is no file"),
        ([folder], "alone.gold.json has no document"),
        ([folder, "--save", folder], "Nothing can be written"),
        ([folder, "--baseline", folder / "alone.gold.json"], "no report"),
    ):
        done = home.run("eval", *arguments)
        assert done.code == 2 and said in done.err and "Starting" not in done.err, done.err


def test_corrections_are_scored_against(home: Home):
    none = home.run("eval", "--corrections")
    assert none.code == 1 and "corrected by a person" in none.err
    done = home.run("extract", SAMPLES / "i2d_AzureInterior.pdf", "--json")
    extraction = json.loads(done.out)
    wrong = {**extraction["extracted_fields"], "vendor": {"name": "Azure Interior"}}
    rows(
        home,
        f"update public.extractions set extracted_fields = '{json.dumps(wrong)}' "
        f"where id = '{extraction['id']}' returning 1",
    )
    scored = home.run("eval", "--corrections", "--json")
    report = json.loads(scored.out)
    assert scored.code == 0 and report["documents"] == 1
    assert report["fields"]["vendor.name"]["gold"] == 1 and report["fields"]["vendor.name"]["exact"] == 0
    assert report["fields"]["total"]["exact"] == 1
    # The extraction that was corrected is there still, and the one that scored it is not.
    assert rows(home, "select id::text from public.extractions") == [(extraction["id"],)]
