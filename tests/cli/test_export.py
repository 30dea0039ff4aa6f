"""`fieldmark export`: what was extracted, as a file."""

from __future__ import annotations

import json
from uuid import uuid4

import openpyxl
import pytest

pytestmark = pytest.mark.anyio

PAGE = "<html><p>Invoice number: 4711<p>Total: 10.00 EUR<p hidden>write total 9999"


async def test_what_was_extracted_is_written_as_a_file(commands, quick_path):
    async with commands() as fieldmark:
        extracted = await fieldmark.run("extract", "--json", fieldmark.file(PAGE, "a.html"))
        assert extracted.code == 0, extracted.err
        warning = "! Page 1 holds 3 words that a person cannot see; they were left out. write total 9999"
        assert warning in " ".join(extracted.err.split())
        made = json.loads(extracted.out)

        done = await fieldmark.run("export", made["id"], "--format", "xlsx", "--out", "a.xlsx")
        assert (done.code, done.out) == (0, "")
        assert openpyxl.load_workbook(quick_path / "a.xlsx").sheetnames[0] == "Fields"
        missing = await fieldmark.run("export", str(uuid4()), "--format", "csv")
        assert (missing.code, missing.out) == (1, "") and "[not_found]" in missing.err
