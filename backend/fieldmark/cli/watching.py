"""Watches a run to its end, asks the person where it waits, and shows what was read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rich.status import Status
from rich.table import Table

from fieldmark.cli.asking import Person, show_pending_call
from fieldmark.cli.process import FAILED, LOCAL_USER, WAITS
from fieldmark.cli.terminal import err, out, plain
from fieldmark.db.pool import Database
from fieldmark.domain.statuses import ExtractionStatus, RunStatus
from fieldmark.errors import Conflict, Invalid
from fieldmark.identity.scope import Scope
from fieldmark.runs.events.follow import follow
from fieldmark.runs.lifecycle import decisions
from fieldmark.runs.lifecycle.decisions import PendingCall
from fieldmark.services.exports.shape import Leaf, leaves_of
from fieldmark.services.extractions import as_json
from fieldmark.stores import extractions, runs
from fieldmark.stores.runs import RunRow


@dataclass(frozen=True, slots=True)
class Seen:
    """How a run was left: its extraction if it was completed, and whether it waits for a person. `run` is None where it
    was deleted meanwhile."""

    run: RunRow | None
    extraction: dict[str, Any] | None = None
    waits: bool = False

    @property
    def exit_code(self) -> int:
        """How a command ends that has seen this. A person has more to do where the run waits, and where the extraction
        is not complete or does not follow its schema."""
        if self.extraction is None:
            return WAITS if self.waits else FAILED
        is_done = self.extraction["status"] == ExtractionStatus.COMPLETED and self.extraction["valid"] is not False
        return 0 if is_done else WAITS


async def to_the_end(
    database: Database, scope: Scope, run_id: UUID, status: Status, person: Person | None, after: int = 0
) -> Seen:
    """Watch a run, and let the person decide what it waits for. Answers how it was left."""
    waits = False
    while not waits:
        after = await _watch(database, scope, run_id, status, after)
        pending = await decisions.pending_call(database, scope, run_id)
        if pending is None:
            break
        status.stop()
        try:
            if person is None or not await _decided(database, scope, run_id, pending, person):
                _say_how_to_decide(scope, run_id, None if person else pending)
                waits = True
        finally:
            status.start()
    async with database.as_user(scope) as conn:
        run = await runs.get(conn, run_id)
        known = None if run is None else run.extraction_id
        row = None if known is None else await extractions.get(conn, known)
    if run is None or row is None or run.status is not RunStatus.COMPLETED:
        return Seen(run, waits=waits)
    return Seen(run, await as_json(scope.org_id, row))


async def _watch(database: Database, scope: Scope, run_id: UUID, status: Status, after: int) -> int:
    """Show a run's events behind `after` until it has ended or waits; answers the last one's number."""
    async for event in follow(database, scope, run_id, after):
        if event is None:
            continue
        after, said = event[0], json.loads(event[1])
        if said.get("status") == "running":
            status.update(plain(said["message"]) + "…")
        elif said.get("status") == "complete":
            err.print(f"  [green]✓[/green] {plain(said['message'])} [dim]{said['duration_ms']} ms[/dim]")
        elif said.get("status") == "error":
            err.print(f"  [red]✗[/red] {plain(said['message'])}: {plain(said['error'][:300])}")
        elif "retry" in said:
            err.print(f"  [yellow]…[/yellow] {plain(said['retry'])} ({said['wait_s']} s)")
        elif "text" in said:
            err.print(f"  {plain(said['text'])}")
        elif "error" in said:
            err.print(f"  [red]✗ {plain(said['error'])}[/red]")
        elif "thinking" in said:
            status.update("Thinking…")
    return after


async def _decided(database: Database, scope: Scope, run_id: UUID, pending: PendingCall, person: Person) -> bool:
    while (said := await person.decide(pending)) is not None:
        try:
            await decisions.decide(database, scope, run_id, said)
        except Invalid as fault:
            err.print(f"[red]{plain(str(fault))}[/red]")
        except Conflict as fault:  # somebody else has decided, or cancelled it: that is followed instead
            err.print(plain(str(fault)))
            return True
        else:
            return True
    return False


def _say_how_to_decide(scope: Scope, run_id: UUID, pending: PendingCall | None) -> None:
    if pending is not None:
        show_pending_call(err, pending)
    whose = "" if scope.user_id == LOCAL_USER else f" --user {scope.user_id}"
    call = "" if pending is None else f" --yes {pending.call_id}"
    err.print(f"[yellow]The run waits for a decision:[/yellow] fieldmark approve {run_id}{call}{whose}")
    err.print('  (or with --reject --reason "why", or with --input and other arguments as JSON)', markup=False)


def show_extraction(extraction: dict[str, Any], filename: str) -> None:
    """What it is, and a row a field: its value, how sure it is, and where it stands."""
    about = [extraction["document_type"] or "document", f"extraction {extraction['id']}", filename]
    if extraction["status"] != ExtractionStatus.COMPLETED:
        about.append("not complete")
    if extraction["valid"] is False:
        about.append("does not follow its schema")
    # A line and no title: a table breaks its title where the table ends.
    out.print(f"[italic]{plain(' · '.join(about))}[/italic]", soft_wrap=True)
    table = Table()
    table.add_column("field", style="bold", overflow="fold")
    table.add_column("value", overflow="fold")
    table.add_column("confidence", justify="right")
    table.add_column("where", overflow="fold")
    for leaf in leaves_of(extraction):
        shown = leaf.value if isinstance(leaf.value, str) else json.dumps(leaf.value, ensure_ascii=False)
        sure = "" if leaf.confidence is None else f"{leaf.confidence:.2f}"
        table.add_row(plain(leaf.name), plain(shown), sure, _where(leaf, shown))
    out.print(table)


def _where(leaf: Leaf, shown: str) -> str:
    """Where a value stands, and how it is printed there if not as it is shown."""
    if leaf.state != "found":
        return {None: "", "blank": "[dim]left blank[/dim]"}.get(leaf.state, "[red]on no page[/red]")
    quote = leaf.quote or shown
    printed = "" if quote == shown else f" [dim]“{plain(quote if len(quote) <= 60 else quote[:59] + '…')}”[/dim]"
    return f"page {leaf.page}{printed}"
