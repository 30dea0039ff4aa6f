"""Lines about a document's reading warnings on the command line."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fieldmark.cli.client import Client
from fieldmark.cli.follow import MAX_WARNINGS, warn
from fieldmark.cli.terminal import be_quiet

pytestmark = pytest.mark.anyio


class OneDocument:
    """A service with one document that has warnings of these severities."""

    def __init__(self, severities: list[str]) -> None:
        self.warnings = [{"severity": one, "message": "Page 1.", "excerpt": ""} for one in severities]

    async def get(self, path: str) -> dict[str, Any]:
        return {"warnings": self.warnings}


@pytest.mark.parametrize(("rest", "sign"), [(["info", "info"], "i"), (["info", "warning"], "!"), (["warning"], "!")])
async def test_line_about_more_warnings_has_the_sign_of_the_rest(capsys, rest, sign):
    await warn(cast(Client, OneDocument(["warning"] * MAX_WARNINGS + rest)), "1")
    last = capsys.readouterr().err.splitlines()[-1].split()
    assert last[:2] == [sign, str(len(rest))]


async def test_quiet_command_prints_warnings_without_notes(capsys):
    be_quiet(True)
    try:
        await warn(cast(Client, OneDocument(["info", "warning", "info"])), "1")
    finally:
        be_quiet(False)
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["!"]
