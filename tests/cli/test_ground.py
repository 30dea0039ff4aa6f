"""`fieldmark ground`: where the values of any JSON are printed in a file, without a database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import INVOICE, Commands

pytestmark = pytest.mark.anyio

TEXT = "Invoice number: RE-7\nInsured: yes\nBolt 2 3.50\nNut 4 1.25\nTotal: 12.00 EUR\n"


@pytest.fixture
def ground(memory_path: Path) -> Commands:
    """Commands whose database does not answer."""
    return Commands(memory_path, {"DATABASE_URL": "postgresql://fieldmark_app@127.0.0.1:1/none"})


async def test_any_json_is_located_without_a_database(ground: Commands):
    lines = [{"name": "Bolt", "qty": 2, "price": 3.5}, {"name": "Nut", "qty": 4, "price": 9.99}]
    done = await ground.run("ground", ground.file(TEXT), ground.file(json.dumps(lines), "lines.json"), "--json")
    assert done.code == 4, done.err
    values = {one["path"]: one for one in json.loads(done.out)["values"]}
    assert [values[f"[{row}].{name}"]["state"] for row in (0, 1) for name in ("name", "qty", "price")] == [
        *["found"] * 5,
        "not_found",
    ]
    price = values["[0].price"]
    assert (price["value"], price["page"], price["quote"], price["confidence"]) == (3.5, 1, "3.50", 0.98)
    assert len(price["boxes"]) == 1 and values["[1].price"]["confidence"] == 0
    assert values["[0].qty"]["boxes"][0][1] < values["[1].qty"]["boxes"][0][1]


async def test_values_of_a_pdf_come_from_a_pipe_and_are_shown_as_a_table(ground: Commands):
    values = {"invoice_number": "INV/2023/03/0008", "total": 279.84, "due date": "2023-04-04", "a\u200b": None}
    done = await ground.run("ground", str(INVOICE), "-", stdin=json.dumps(values))
    assert done.code == 0 and "page 1" in done.out and "04/04/2023" in done.out, done.err


async def test_yes_or_no_is_located_by_its_quote(ground: Commands):
    file, values = ground.file(TEXT), ground.file('{"insured": true, "paid": false}', "values.json")
    without = await ground.run("ground", file, values, "--json")
    assert [one["state"] for one in json.loads(without.out)["values"]] == ["not_found", "not_found"]
    quotes = ground.file('{"insured": "Insured: yes", "paid": "Insured: yes"}', "quotes.json")
    done = await ground.run("ground", file, values, "--quotes", quotes, "--json")
    assert [one["state"] for one in json.loads(done.out)["values"]] == ["found", "not_found"]


async def test_unreadable_file_exits_1_with_its_code(ground: Commands):
    done = await ground.run("ground", ground.file(b"%PDF-1.7 no more", "a.pdf"), ground.file("{}", "values.json"))
    assert (done.code, done.out) == (1, "") and "[damaged]" in done.err
