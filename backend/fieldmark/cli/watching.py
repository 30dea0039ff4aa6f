"""Watches a run to its end, asks the person where it waits, and shows what was read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.status import Status
from rich.table import Table

from fieldmark.cli.asking import Person, show_pending_call
from fieldmark.cli.client import Client, Disconnected, Refused, said
from fieldmark.cli.process import FAILED, WAITS
from fieldmark.cli.terminal import err, out, plain, steps, tell
from fieldmark.domain.events import ProposedCall
from fieldmark.domain.statuses import ExtractionStatus, RunStatus
from fieldmark.services.exports.shape import Leaf, leaves_of

MOST_SHOWN = 100
"""Characters of a field that is being written, beside the spinner."""
MOST_BREAKS = 30
"""How often in a row a connection may break before a run is not watched any longer. A second lies in between."""
ROOM_SECONDS = 2
"""Sooner than HTTP's clients are told to come again: there is only this one."""
MAX_WARNINGS = 5
PASSING = (429, 502, 503, 504)
"""What a service, or the proxy before it, answers for a while: as it starts anew, say."""


T = TypeVar("T")
Show = Callable[[Mapping[str, Any], Status], None]
"""Shows an event of a run."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How a run was left: as the service tells of it, its extraction if it was completed, and whether it waits for a
    person."""

    run: Mapping[str, Any]
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
    client: Client, run_id: str, status: Status, person: Person | None, after: int = 0, *, show: Show | None = None
) -> Seen:
    """Watch a run behind an event, and let the person decide what it waits for. Answers how it was left."""
    while True:
        after = await _watch(client, run_id, status, after, show or show_event)
        run = await in_the_end(lambda: client.get(f"/api/runs/{run_id}"))
        pending = waiting_call(run)
        if pending is not None:
            status.stop()
            try:
                if person is None or not await _decided(client, run_id, pending, person):
                    _say_how_to_decide(client, run_id, None if person else pending)
                    return Seen(run, waits=True)
            finally:
                status.start()
        elif RunStatus(run["status"]).is_final:
            break
        else:  # the service has ended the stream, and not the run
            await asyncio.sleep(1)
    if run["status"] != RunStatus.COMPLETED or run["extraction_id"] is None:
        return Seen(run)
    return Seen(run, await in_the_end(lambda: client.get(f"/api/extractions/{run['extraction_id']}")))


def waiting_call(run: Mapping[str, Any]) -> ProposedCall | None:
    """The call that a run waits for."""
    return None if run["waits_for"] is None else ProposedCall.model_validate(run["waits_for"])


async def _watch(client: Client, run_id: str, status: Status, after: int, show: Show) -> int:
    """Show a run's events behind `after` until it has ended or waits; answers the last one's number."""
    breaks = 0
    while True:
        before = after
        try:
            async with client.events(run_id, after) as events:
                async for number, event in events:
                    after = max(after, number)
                    show(event, status)
            return after
        except (Disconnected, Refused) as error:
            breaks = breaks + 1 if after == before else 1
            await may_pass(error, breaks)


async def in_the_end(act: Callable[[], Awaitable[Any]]) -> Any:
    """What it answers, asked again for as long as what keeps it from that may pass."""
    breaks = 0
    while True:
        try:
            return await act()
        except (Disconnected, Refused) as error:
            breaks += 1
            await may_pass(error, breaks)


async def may_pass(error: Disconnected | Refused, breaks: int) -> None:
    """Wait a second for what may pass by itself; raise what does not, or has not for too long."""
    if breaks > MOST_BREAKS or (isinstance(error, Refused) and error.answered not in PASSING):
        raise error
    await asyncio.sleep(1)


def show_event(event: Mapping[str, Any], status: Status) -> None:
    """Show what a run tells, and what those tell that are part of it."""
    console = steps()
    match event.get("type"):
        case "child":
            show_event(event["event"], status)
        case "tool" if event["status"] == "running":
            status.update(plain(event["message"]) + "…")
        case "tool" if event["status"] == "complete":
            console.print(f"  [green]✓[/green] {plain(event['message'])} [dim]{event['duration_ms']} ms[/dim]")
        case "tool":
            console.print(f"  [red]✗[/red] {plain(event['message'])}: {plain(event['error'][:300])}")
        case "retry":
            console.print(f"  [yellow]…[/yellow] {plain(event['retry'])} ({event['wait_s']} s)")
        case "text":
            console.print(f"  {plain(event['text'])}")
        case "error":
            failure = f"{event['error']} [{event['code']}]"
            err.print(f"  [red]✗ {plain(failure)}[/red]")
        case "reading":
            status.update(f"Reading the document: page {event['pages_read']} of {event['page_count']}…")
        case "waiting":
            status.update("Waiting for another run to end, which works on the same…")
        case "preview":
            shown = f"{event['path']}: {json.dumps(event['value'], ensure_ascii=False)}"
            status.update(plain(shown[:MOST_SHOWN]) + "…")
        case "thinking":
            status.update("Thinking…")
        case _:
            pass


async def _decided(client: Client, run_id: str, pending: ProposedCall, person: Person) -> bool:
    while (decision := await person.decide(pending)) is not None:
        try:
            await client.decide(run_id, decision.as_json())
        except Refused as refused:
            if refused.answered == 409:  # somebody else has decided, or cancelled it: that is followed instead
                err.print(plain(said(refused)))
                return True
            if refused.answered != 422:
                raise
            err.print(f"[red]{plain(said(refused))}[/red]")
        else:
            return True
    return False


def _say_how_to_decide(client: Client, run_id: str, pending: ProposedCall | None) -> None:
    if pending is not None:
        show_pending_call(err, pending)
    call = "" if pending is None else f" --yes {pending.call_id}"
    err.print(f"[yellow]The run waits for a decision:[/yellow] fieldmark approve {run_id}{call}{plain(client.options)}")
    err.print('  (or with --reject --reason "why", or with --input and other arguments as JSON)', markup=False)


def show_extraction(extraction: Mapping[str, Any], filename: str) -> None:
    """What it is, and a row a field: its value, how sure it is, and where it stands."""
    about = [extraction.get("document_type") or "document", f"extraction {extraction['id']}"]
    if filename:
        about.append(filename)
    if "latest_version" in extraction:
        about.append(f"version {extraction['version']} of {extraction['latest_version']}")
    elif extraction["status"] != ExtractionStatus.COMPLETED:
        about.append("not complete")
    if extraction.get("valid") is False:
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
        return {None: "", "blank": "[dim]left blank[/dim]", "message": "from your message"}.get(
            leaf.state, "[red]on no page[/red]"
        )
    quote = leaf.quote or shown
    printed = "" if quote == shown else f" [dim]“{plain(quote if len(quote) <= 60 else quote[:59] + '…')}”[/dim]"
    return f"page {leaf.page}{printed}"


async def when_there_is_room(status: Status, act: Callable[[], Awaitable[T]]) -> T:
    """What the action answers, begun again for as long as too much of the organisation waits. Raises what it raises
    otherwise."""
    told = False
    while True:
        try:
            return await act()
        except Refused as refused:
            if refused.answered != 429:
                raise
            if not told:
                steps().print(f"  [yellow]! {plain(said(refused))}[/yellow] [dim]Waiting for room.[/dim]")
                told = True
                tell(status, "Waiting for room in the queue…")
            await asyncio.sleep(ROOM_SECONDS)


async def warn(client: Client, document_id: str) -> dict[str, Any]:
    """Say what of a document was not read, or not read well; answers the document."""
    document: dict[str, Any] = await client.get(f"/api/documents/{document_id}")
    warnings = document["warnings"]
    for one in warnings[:MAX_WARNINGS]:
        err.print(f"  [yellow]! {plain(one['message'])}[/yellow] [dim]{plain(one['excerpt'])}[/dim]")
    if len(warnings) > MAX_WARNINGS:
        err.print(f"  [yellow]! {len(warnings) - MAX_WARNINGS} more warnings.[/yellow]")
    return document
