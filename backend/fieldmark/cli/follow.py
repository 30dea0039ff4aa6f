"""Follow a run: start it, show its events, ask the user to decide waiting calls, and show the extraction."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import typer
from rich.status import Status
from rich.table import Table

from fieldmark.cli.asking import TerminalUser, UserDecision, show_pending_call
from fieldmark.cli.client import Client, Disconnected, ErrorResponse, error_text, print_offline_notice
from fieldmark.cli.files import print_json
from fieldmark.cli.process import CANNOT_WORK, FAILED, WAITS
from fieldmark.cli.target import Target
from fieldmark.cli.terminal import err, out, plain, show_progress, show_step, steps
from fieldmark.domain.events import ProposedCall
from fieldmark.domain.formatting import counted, value_text
from fieldmark.domain.statuses import ExtractionStatus, FieldStatus, RunStatus
from fieldmark.errors import FieldmarkError
from fieldmark.services.exports.shape import Leaf, leaves_of

T = TypeVar("T")
Show = Callable[[Mapping[str, Any], Status], None]
"""Prints an event of a run."""

MAX_SHOWN_CHARACTERS: Final = 100  # characters of a field that is being written, beside the spinner
MAX_BREAKS: Final = 30  # how often in a row, a second apart, a connection may break before a command gives up
RETRY_SECONDS: Final = 2  # shorter than Retry-After: there is only one client
MAX_WARNINGS: Final = 5
MAX_PROBLEMS: Final = 10
TEMPORARY: Final = (429, 502, 503, 504)  # statuses while a service or its proxy restarts


@dataclass(frozen=True, slots=True)
class PendingDecision:
    """A call that waits for a decision, and its run: the followed run or a child run."""

    run_id: str
    call: ProposedCall


@dataclass(frozen=True, slots=True)
class RunState:
    """The last state of a run, its extraction if the run completed, and whether it waits for a decision."""

    run: Mapping[str, Any]
    extraction: dict[str, Any] | None = None
    waits: bool = False
    problems: Sequence[str] = ()
    """How the extraction violates its schema."""

    @property
    def exit_code(self) -> int:
        """4 if the run waits for a decision, or the extraction is incomplete or violates its schema."""
        if self.extraction is None:
            return WAITS if self.waits else FAILED
        is_done = self.extraction["status"] == ExtractionStatus.COMPLETED and self.extraction["valid"] is not False
        return 0 if is_done else WAITS

    def end(self, target: Target, filename: str = "") -> None:
        """Print the extraction, and end the command with the exit code."""
        if self.extraction is not None and not print_json(target, self.extraction):
            show_extraction(self.extraction, filename, self.problems)
        if self.exit_code:
            raise typer.Exit(self.exit_code)


class StartedRuns:
    """The runs that a command has started. They are cancelled if the command is interrupted; otherwise the next worker
    would continue them, and charge for them."""

    def __init__(self, client: Client, status: Status) -> None:
        self.client = client
        self.status = status
        self._started: list[tuple[str, Mapping[str, object], str]] = []

    async def upload(self, file: Path, password: str | None = None, **query: object) -> dict[str, Any]:
        """Upload a file. Retries while the queue is full."""
        show_step(self.status, f"Uploading {plain(file.name)}…")
        return await self._retry_while_full(lambda: self.client.upload(file, password, **query))

    async def start(self, task: str, body: Mapping[str, object]) -> str:
        """Start a run and return its id. Retries while the queue is full."""
        # The idempotency key is stored first, so that an interrupted command can still find and cancel the run.
        request = (task, body, str(uuid4()))
        self._started.append(request)
        try:
            return await self._retry_while_full(lambda: self.client.start(*request))
        except ErrorResponse:
            self._started.remove(request)
            raise

    async def follow_to_end(
        self,
        run_id: str,
        person: TerminalUser | None = None,
        *,
        follower: Follower | None = None,
        show: Show | None = None,
    ) -> RunState:
        """Follow a run until it ends, or waits for a decision that the user does not make."""
        follower = follower or Follower(self.client, self.status, run_id, show)
        await follower.follow()
        while (waiting := follower.waiting) is not None:
            self.status.stop()
            decision = None if person is None else await person.decide(waiting.call)
            if decision is None:
                _say_how_to_decide(self.client, waiting, shown=person is not None)
                return RunState(follower.run, waits=True)
            self.status.start()
            if await follower.decide(decision):
                await follower.follow()
        run = follower.run
        if run["status"] != RunStatus.COMPLETED or run["extraction_id"] is None:
            return RunState(run)
        path = f"/api/extractions/{run['extraction_id']}"
        extraction = await _with_retries(lambda: self.client.get(path))
        problems = await _with_retries(lambda: list_problems(self.client, path, extraction))
        return RunState(run, extraction, problems=problems)

    async def __aenter__(self) -> StartedRuns:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for request in self._started:
                with contextlib.suppress(FieldmarkError):
                    await cancel(self.client, await self.client.start(*request))

    async def _retry_while_full(self, act: Callable[[], Awaitable[T]]) -> T:
        is_reported = False
        while True:
            try:
                return await act()
            except ErrorResponse as refused:
                if refused.answered != 429:
                    raise
                if not is_reported:
                    steps().print(
                        f"  [yellow]! {plain(error_text(refused))}[/yellow] [dim]Waiting for the queue.[/dim]"
                    )
                    show_step(self.status, "Waiting for the queue…")
                    is_reported = True
                await asyncio.sleep(RETRY_SECONDS)


@contextlib.asynccontextmanager
async def running(client: Client) -> AsyncGenerator[StartedRuns]:
    """Open a context for runs, with a status line, and with a worker if the service is in this process."""
    print_offline_notice(client)
    with steps().status("") as status:
        show_step(status, "Starting…")
        async with client.working(), StartedRuns(client, status) as runs:
            yield runs


class Follower:
    """Shows each event of a run once, and finds the call that the run or a child run waits for."""

    def __init__(
        self,
        client: Client,
        status: Status,
        run_id: str,
        show: Show | None = None,
        waiting: PendingDecision | None = None,
    ) -> None:
        self.run_id = run_id
        self.run: Mapping[str, Any] = {}
        self.waiting = waiting
        self._client = client
        self._status = status
        self._show = show or show_event
        self._after = 0
        # The child run that waits for a decision.
        self._child = None if waiting is None or waiting.run_id == run_id else waiting.run_id

    async def follow(self) -> None:
        """Show events until the run ends or a call waits."""
        while True:
            await self._read()
            if await self.refresh():
                return
            await asyncio.sleep(1)  # the stream has ended, but not the run

    async def refresh(self) -> bool:
        """Load the run, and the child run that waits. Return whether the run has ended or a call waits."""
        self.run = await _with_retries(lambda: self._client.get(f"/api/runs/{self.run_id}"))
        self.waiting = waiting_call(self.run)
        if self.waiting is None and self._child is not None:
            self.waiting = waiting_call(await _with_retries(lambda: self._client.get(f"/api/runs/{self._child}")))
        return self.waiting is not None or RunStatus(self.run["status"]).is_final

    async def skip(self) -> None:
        """Skip the events before the waiting call."""
        async with self._client.events(self.run_id) as events:
            async for number, event in events:
                self._after = max(self._after, number)
                asked = _asked_by(event)
                if self.waiting is not None and asked is not None and asked[1] == self.waiting.call.call_id:
                    break

    async def decide(self, decision: UserDecision) -> bool:
        """Send a decision. Return whether the run continues; after an error response the call may still wait."""
        assert self.waiting is not None
        try:
            await self._client.decide(self.waiting.run_id, decision.as_json())
        except ErrorResponse as refused:
            if refused.exit_code == CANNOT_WORK:
                raise
            err.print(f"[red]{plain(error_text(refused))}[/red]")
            if refused.answered != 409:
                return False
            # The call was decided or cancelled elsewhere, or its target has changed: load the current state.
            await self.refresh()
        else:
            self.waiting = None
        return self.waiting is None

    async def _read(self) -> None:
        """Show new events until the stream ends or a child run waits for a decision."""
        breaks = 0
        while True:
            before = self._after
            try:
                async with self._client.events(self.run_id, self._after) as events:
                    async for number, event in events:
                        self._after = max(self._after, number)
                        self._show(event, self._status)
                        asked = _asked_by(event)
                        if asked is not None and asked[0] is not None:
                            self._child = asked[0]
                            return
                return
            except (Disconnected, ErrorResponse) as error:
                breaks = breaks + 1 if self._after == before else 1
                await _wait_or_raise(error, breaks)


def waiting_call(run: Mapping[str, Any]) -> PendingDecision | None:
    """Return the call that a run waits for, if any."""
    call = run["waits_for"]
    return None if call is None else PendingDecision(run["id"], ProposedCall.model_validate(call))


async def cancel(client: Client, run_id: str) -> dict[str, Any]:
    """Cancel a run."""
    return await client.send("POST", f"/api/runs/{run_id}/cancel")


def _asked_by(event: Mapping[str, Any]) -> tuple[str | None, str] | None:
    """Return the child run (None: the run itself) and call id of an approval event."""
    run_id: str | None = None
    while event["type"] == "child":
        run_id, event = event["run_id"], event["event"]
    return (run_id, event["approval"]["call_id"]) if event["type"] == "approval" else None


async def _with_retries(act: Callable[[], Awaitable[Any]]) -> Any:
    breaks = 0
    while True:
        try:
            return await act()
        except (Disconnected, ErrorResponse) as error:
            breaks += 1
            await _wait_or_raise(error, breaks)


async def _wait_or_raise(error: Disconnected | ErrorResponse, breaks: int) -> None:
    if breaks > MAX_BREAKS or (isinstance(error, ErrorResponse) and error.answered not in TEMPORARY):
        raise error
    await asyncio.sleep(1)


def show_event(event: Mapping[str, Any], status: Status) -> None:
    """Show an event of a run or of a child run."""
    console = steps()
    match event.get("type"):
        case "child":
            show_event(event["event"], status)
        case "tool":
            status.update(plain(event["message"]) + "…")
        case "tool_result" if event["status"] == "complete":
            console.print(f"  [green]✓[/green] {plain(event['message'])} [dim]{event['duration_ms']} ms[/dim]")
        case "tool_result":
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
            status.update("Waiting for another run on the same document…")
        case "preview":
            shown = f"{event['path']}: {json.dumps(event['value'], ensure_ascii=False)}"
            status.update(plain(shown[:MAX_SHOWN_CHARACTERS]) + "…")
        case "progress":
            ended = event["done"] + event["failed"]
            failed = f", {event['failed']} failed" if event["failed"] else ""
            cost = f", ${event['cost']:.2f}" if event["cost"] else ""
            show_progress(status, ended, ended + event["left"], f"documents{failed}{cost}")
        case "thinking" | "thinking_delta":
            status.update("Thinking…")
        case _:
            pass


def _say_how_to_decide(client: Client, waiting: PendingDecision, *, shown: bool) -> None:
    if not shown:
        show_pending_call(err, waiting.call)
    command = f"fieldmark approve {waiting.run_id}" + ("" if shown else f" --yes {waiting.call.call_id}")
    err.print(f"[yellow]The run is waiting for a decision:[/yellow] {command}{plain(client.options)}")
    err.print('  (or: --reject --reason "why"; or: --input with edited arguments as JSON)', markup=False)


async def list_problems(client: Client, path: str, extraction: Mapping[str, Any]) -> Sequence[str]:
    """Return how an extraction violates its schema, one sentence each."""
    return (await client.get(f"{path}/problems"))["problems"] if extraction.get("valid") is False else ()


def show_extraction(extraction: Mapping[str, Any], filename: str, problems: Sequence[str] = ()) -> None:
    """Print an extraction as a table: field, value, confidence, location and status. Missing fields have rows, too.
    Then print its problems."""
    about = [extraction.get("document_type") or "document", f"extraction {extraction['id']}"]
    if filename:
        about.append(filename)
    if "latest_version" in extraction:
        about.append(f"version {extraction['version']} of {extraction['latest_version']}")
    elif extraction["status"] != ExtractionStatus.COMPLETED:
        about.append("incomplete")
    if extraction.get("review_count"):
        about.append(f"{extraction['review_count']} to review")
    if extraction.get("valid") is False:
        about.append("violates its schema")
    # Not the table's title, which would wrap at the table's width.
    out.print(f"[italic]{plain(' · '.join(about))}[/italic]", soft_wrap=True)
    show_leaves(extraction)
    for problem in problems[:MAX_PROBLEMS]:
        out.print(f"[yellow]![/yellow] {plain(problem)}", soft_wrap=True)
    if len(problems) > MAX_PROBLEMS:
        out.print(f"[yellow]![/yellow] {counted(len(problems) - MAX_PROBLEMS, 'more problem')}.")


def show_second_reading(found: Mapping[str, Any] | None) -> None:
    """Print how a second reading compares with the extraction, if there was one."""
    if found is None:
        return
    if found["code"] is not None:
        out.print(f"[yellow]![/yellow] The second reading is missing: {plain(found['code'])}.")
        return
    vendor = {
        True: " Both models are of one vendor, so agreement shows less.",
        None: " Whether both models are of one vendor is not known.",
    }.get(found["is_same_vendor"], "")
    values = f"{found['agrees']} values agree, {found['differs']} differ"
    out.print(f"Second reading: {values}, {counted(found['rows'], 'list')} with other rows.{vendor}")


def show_leaves(extraction: Mapping[str, Any]) -> None:
    """Print the leaves of an extraction as a table: field, value, confidence and location."""
    table = Table()
    table.add_column("field", style="bold", overflow="fold")
    table.add_column("value", overflow="fold")
    table.add_column("confidence", justify="right")
    table.add_column("where", overflow="fold")
    for leaf in leaves_of(extraction):
        shown = "" if leaf.value is None else value_text(leaf.value)
        confidence = "" if leaf.confidence is None else f"{leaf.confidence:.2f}"
        table.add_row(plain(leaf.name), plain(shown), confidence, _where(leaf, shown))
    out.print(table)


def _where(leaf: Leaf, shown: str) -> str:
    """Return a value's location, with the printed form if it differs, and its status unless it was just found."""
    parts: list[str] = []
    if leaf.page is not None:
        quote = leaf.quote or shown
        printed = "" if quote == shown else f" [dim]“{plain(quote if len(quote) <= 60 else quote[:59] + '…')}”[/dim]"
        parts.append(f"page {leaf.page}{printed}")
    if leaf.status is not None and (leaf.status, leaf.reason) != (FieldStatus.FOUND, None):
        colour = {FieldStatus.NEEDS_REVIEW: "red", FieldStatus.UNCLEAR: "yellow"}.get(leaf.status, "dim")
        parts.append(f"[{colour}]{plain(leaf.status_text)}[/{colour}]")
    return " · ".join(parts)


async def warn(client: Client, document_id: str) -> dict[str, Any]:
    """Print a document's reading warnings and return the document."""
    document: dict[str, Any] = await client.get(f"/api/documents/{document_id}")
    print_warnings(document["warnings"])
    return document


def print_warnings(warnings: list[dict[str, Any]]) -> None:
    """Print warnings about how a document was read."""
    for one in warnings[:MAX_WARNINGS]:
        _print_warning([one], f"{plain(one['message'])}[/] [dim]{plain(one['excerpt'])}")
    if len(warnings) > MAX_WARNINGS:
        rest = warnings[MAX_WARNINGS:]
        _print_warning(rest, f"{counted(len(rest), 'more note' if _are_notes(rest) else 'more warning')}.")


def _print_warning(warnings: list[dict[str, Any]], words: str) -> None:
    """Print a line about warnings: an error or, if they are only notes, a progress message."""
    if _are_notes(warnings):
        steps().print(f"  [dim]i {words}[/]")
    else:
        err.print(f"  [yellow]! {words}[/]")


def _are_notes(warnings: list[dict[str, Any]]) -> bool:
    return all(one["severity"] == "info" for one in warnings)
