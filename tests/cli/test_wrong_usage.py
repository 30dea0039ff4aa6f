"""Wrong usage: said on standard error with exit code 2, before anything is started."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest
from command import SAMPLES, said_at_once

INVOICE = str(SAMPLES / "i2d_AzureInterior.pdf")
ID = str(uuid4())
ELSEWHERE = ("--server", "https://a.example")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the table names."""
    folder = tmp_path_factory.mktemp("usage")
    (folder / "cases").mkdir()
    (folder / "nothing").mkdir()
    for name, content in {
        "a.json": {"type": "array"},
        "no-schema.json": {"type": "munber"},
        "fields.json": {"total": "number"},
        "remote.json": {"$ref": "https://example.com/a.json"},
        "cases/alone.gold.json": {},
    }.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "no-json.json").write_text("{")
    return folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing",), "nothing"),
        (("extract",), "argument"),
        (("extract", INVOICE, "@/missing.pdf"), "missing.pdf"),
        (("extract", "@"), "is a folder"),
        (("extract", INVOICE, "--schema", "@/no-schema.json"), "munber"),
        (("extract", INVOICE, "--schema", "@/fields.json"), '{"type": "object", "properties": {"total"'),
        (("extract", INVOICE, "--schema", "@/no-json.json"), "no-json.json"),
        (("extract", INVOICE, "--schema", "@"), "Is a directory"),
        (("extract", INVOICE, "--schema", "@/remote.json"), "https://example.com/a.json"),
        (("extract", INVOICE, "--schema", "@/missing.json"), "missing.json"),
        (("extract", INVOICE, "--out", "@/nowhere/out.json"), "nowhere/out.json"),
        (("extract", INVOICE, "--out", "@"), "written"),
        (("extract", INVOICE, "--user", "me"), "UUID"),
        (("extract", INVOICE, "--colour"), "--colour"),
        (("extract", INVOICE, "--password"), "standard input"),
        (("chat", "nowhere.pdf"), "nowhere.pdf"),
        (("chat", ID, "--thread", "no-uuid"), "UUID"),
        (("approve", "no-uuid"), "UUID"),
        (("approve", ID, "--reject", "--input", "{}"), "--input"),
        (("approve", ID, "--reject", "--yes", "a-call"), ""),
        (("approve", ID, "a-call"), "a-call"),
        (("approve", ID, "--reason", "because"), "--re"),
        (("approve", ID, "--input", "[1]"), "--"),
        (("runs", "--status", "asleep"), "asleep"),
        (("key", "create", "k", "--scopes", "everything"), "documents:read"),
        (("key", "create", "k", "--scopes", " ,"), "scope"),
        (("members", "role", ID, "king"), "king"),
        (("propose", "no-such-file.pdf"), "no-such-file.pdf"),
        (("schema", "push", "@/remote.json"), "example.com"),
        (("schema", "push", "@/missing.json"), "missing.json"),
        (("schema", "diff", "Invoices", "@/a.json"), "a.json"),
        (("export", ID, "--format", "pdf"), "json, csv, xlsx, html"),
        (("export", ID, "--out", "@/no/a.json"), "a.json"),
        (("eval",), "--corrections"),
        (("eval", "@/cases", "--corrections"), "--corrections"),
        (("eval", "@/nothing"), "nothing"),
        (("eval", "@/cases"), "alone.gold.json"),
        (("eval", "@/cases", "--save", "@/cases"), "written"),
        (("eval", "@/cases", "--baseline", "@/cases/alone.gold.json"), "report"),
        (("eval", "a", *ELSEWHERE), "--server"),
        (("documents", *ELSEWHERE), "--key"),
        (("documents", "--key", "fm_x"), "--server"),
        (("documents", *ELSEWHERE, "--key", "fm_x", "--user", ID), "--user"),
        (("documents", *ELSEWHERE, "--key", "a key"), "key"),
        (("documents", "--server", "https://[", "--key", "fm_x"), "https://["),
        (("documents", "--server", "https://me:word@a.example", "--key", "fm_x"), "FIELDMARK_KEY"),
        (("documents", "--server", "https://a.example/?b", "--key", "fm_x"), "FIELDMARK_KEY"),
        (("show", ID, "--history", "--version", "1"), "--history"),
        (("delete", "organisation", ID), "organisation"),
        (("usage", "--since", "yesterday"), "yesterday"),
    ],
)
def test_wrong_usage_exits_2_before_anything_starts(folder: Path, arguments: tuple[str, ...], said: str):
    done = said_at_once(*(one.replace("@", str(folder)) if one.startswith("@") else one for one in arguments))
    assert (done.code, done.out) == (2, ""), done.err
    assert said in done.err.replace("│\n│ ", "") and "Starting" not in done.err
