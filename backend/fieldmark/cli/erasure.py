"""`fieldmark delete organisation` and `delete account`, with a report of what was deleted."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final
from uuid import UUID

from fieldmark.cli.asking import TerminalUser
from fieldmark.cli.client import Client, ErrorResponse
from fieldmark.cli.files import print_json
from fieldmark.cli.process import FAILED, exit_with
from fieldmark.cli.target import Target
from fieldmark.cli.terminal import err, show_lines, steps

_WAIT_SECONDS: Final = 600
_PAUSE_SECONDS: Final = 0.5


async def delete_organisation(client: Client, target: Target, org_id: UUID, *, yes: bool) -> None:
    """Delete an organisation after the user has typed its name, wait until nothing is left, and print the counts. If it
    is already deleted, only print them."""
    path = f"/api/organisations/{org_id}"
    try:
        name = (await client.get(path))["name"]
    except ErrorResponse as refused:
        if refused.answered != 404:
            raise
    else:
        question = f"Delete {name} with everything in it, for all members? Type its name:"
        if not yes and (await TerminalUser(err, None).line(question) or "").strip() != name:
            exit_with(f"Nothing was deleted. Answer with the name ({name}), or pass --yes.", FAILED)
        await client.send("DELETE", path)
    async with client.working():
        report = await _wait_for_report(client, f"{path}/deletion")
    is_json = print_json(target, report)
    if not is_json:
        found: dict[str, int] = report["rows_found"] or {}
        show_lines([*found.items(), ("files", report["files_deleted"])], "")
    if report["finished_at"] is None or report["files_left"]:
        exit_with("It is still being deleted. Run the same command again for the report.", FAILED)
    if report["rows_left"]:
        exit_with(f"Some rows are left: {report['rows_left']}.", FAILED)
    if not is_json:
        steps().print(f"Organisation {org_id} is deleted. No row and no file is left.")


async def delete_account(client: Client, target: Target, user_id: UUID, *, yes: bool) -> None:
    """Delete the caller's account, which they must name by its id."""
    own = (await client.get("/api/me"))["user_id"]
    if str(user_id) != own:
        exit_with(f"This is not your account, which is {own}. Locally, pass --user {user_id}.", FAILED)
    if not yes and not await TerminalUser(err, None).agrees(f"Delete the account {own}, its keys and own threads?"):
        exit_with("Nothing was deleted. Answer y, or pass --yes.", FAILED)
    deleted = await client.send("DELETE", "/api/me")
    if not print_json(target, deleted):
        show_lines(deleted.items(), "")


async def _wait_for_report(client: Client, path: str) -> dict[str, Any]:
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        report = await client.get(path)
        is_done = report["finished_at"] is not None and not report["files_left"]
        if is_done or time.monotonic() > until:
            return report
        await asyncio.sleep(_PAUSE_SECONDS)
