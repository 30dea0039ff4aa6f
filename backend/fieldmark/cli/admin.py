"""`fieldmark admin`: organisations, limits, queue and spending, for the person who runs the service."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fieldmark.cli.files import print_json
from fieldmark.cli.process import read_settings, run
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import out, show_lines


@command(without_user=True)
def admin(
    target: Target,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of organisations.")] = 50,
) -> None:
    """Show organisations by spending, with their limits, and the queue. Reads no document; each call is recorded. Logs
    in as the database's owner (DATABASE_OWNER_URL)."""
    from fieldmark.runtime import administration_as_owner

    found = run(administration_as_owner(read_settings("warning"), limit))
    if print_json(target, found):
        return
    show_lines(map(_organisation, found["organisations"]), "No organisations.")
    shown = len(found["organisations"])
    out.print(f"\n{shown} of {found['organisation_count']} organisations. Queue:", soft_wrap=True)
    show_lines(((row["queue"], row["status"], row["jobs"]) for row in found["queue"]), "No jobs.")


def _organisation(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["id"],
        f"{row['spent_usd']:>9.2f} $ of {_limit(row['max_usd'], '.2f'):>8}",
        f"{row['documents']:>8} of {_limit(row['max_documents'], 'd')} documents",
        f"{row['bytes'] / 1e6:>9.1f} MB",
        f"{row['running_runs']} running, {row['waiting_runs']} + {row['waiting_documents']} waiting",
        f"{row['members']} members",
        "being deleted" if row["deleted_at"] else row["name"],
    )


def _limit(value: float | None, form: str) -> str:
    return "no limit" if value is None else format(value, form)
