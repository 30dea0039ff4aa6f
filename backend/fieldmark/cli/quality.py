"""`fieldmark quality`: how good the values of a table were, and what audits prove about those that no one looked at."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from fieldmark.cli.client import Client, run_with_client
from fieldmark.cli.files import print_json
from fieldmark.cli.schemas import find_or_exit
from fieldmark.cli.tables import Name, pad_columns
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import out, plain, show_lines
from fieldmark.domain.statuses import CountedKind


@command()
def quality(
    target: Target,
    name: Name,
    since: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="First day (UTC).")] = None,
    until: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Last day (UTC).")] = None,
    show: Annotated[CountedKind | None, typer.Option(help="List the values that this number counts.")] = None,
    column: Annotated[str | None, typer.Option(help="With --show: only values of this field.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="With --show: maximum number of values.")] = 50,
) -> None:
    """Show how good a table's values were, by column, and what audits prove. Default: this month."""
    days = {"since": since and since.date(), "until": until and until.date()}

    async def ask(client: Client) -> Any:
        path = f"/api/schemas/{await _schema_id(client, name)}/quality"
        if show is None:
            return await client.get(path, **days)
        return await client.get(f"{path}/values", show=show, column=column, limit=limit, **days)

    found = run_with_client(target, ask)
    if print_json(target, found if show is None else found["items"]):
        return
    if show is not None:
        show_lines(pad_columns(map(_value_line, found["items"])), "No values.")
        return
    documents, columns = found["documents"], found["columns"]
    header = ["column", "filled", "confirmed", "corrected", "entered", "wrong at most"]
    show_lines(pad_columns([header, *(_column_line(one, documents) for one in columns)]), "No columns.")
    out.print(plain(_claim(found["review"]["claim"])), soft_wrap=True)


async def _schema_id(client: Client, name: str) -> str:
    stacks = (await client.get("/api/stacks", name=name))["items"]
    if stacks and stacks[0]["schema_id"] is not None:
        return stacks[0]["schema_id"]
    return (await find_or_exit(client, "schema", name))["id"]


def _column_line(column: dict[str, Any], documents: int) -> list[str]:
    checks, filled = column["checks"], column["filled"]
    return [
        column["path"],
        "" if filled is None or documents == 0 else f"{filled / documents:.0%}",
        str(checks["checked"] - checks["corrected"]),
        str(checks["corrected"]),
        str(column["found"]),
        _share(checks["at_most"]),
    ]


def _value_line(value: dict[str, Any]) -> list[str]:
    was, now = value["was"], "nothing" if value["now"] is None else value["now"]
    return [value["filename"], value["path"], now if was in (None, now) else f"{was} → {now}"]


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.2%}"


def _claim(claim: dict[str, Any]) -> str:
    said = f"{claim['values']} values accepted without a look; {claim['audited']} audited, {claim['wrong']} wrong"
    if claim["at_most"] is not None:
        said += f": at most {_share(claim['at_most'])} wrong with 95 % confidence"
    needed = "no goal" if claim["needed"] is None else f"{claim['needed']} audits prove {claim['max_error']:.2%}"
    said += f" ({needed}, {claim['waiting']} wait)"
    if claim["uncovered_values"]:
        layouts = f"{claim['uncovered_layouts']} layouts without enough audits"
        said += f". Not covered: {claim['uncovered_values']} values in {layouts}"
    return said
