"""`fieldmark ask`: ask about all documents, and get an answer with its sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.status import Status

from fieldmark.cli.client import Client, run_with_client
from fieldmark.cli.files import print_json
from fieldmark.cli.follow import running, show_event
from fieldmark.cli.process import FAILED, MISUSED, exit_with
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import err, out, plain, steps
from fieldmark.domain.document_filters import FieldCondition
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import Invalid

_SHOWN_QUOTE = 120


@command()
def ask(
    target: Target,
    question: Annotated[str, typer.Argument(help="A question about your documents.")],
    thread: Annotated[UUID | None, typer.Option(help="Continue this conversation. Default: start a new one.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help='Only documents that match, such as "total > 1000". Repeatable.'),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only documents with this tag. Repeatable.")] = None,
    stack: Annotated[str | None, typer.Option(help="Only documents of the stack of this name.")] = None,
    search: Annotated[bool, typer.Option("--search", help="Only show the best passages, without a model.")] = False,
) -> None:
    """Ask a question about all documents. The answer cites document and page of each claim. Ctrl-C cancels the run."""
    body: dict[str, object] = {"message": question, "mode": "search" if search else "agent"}
    if thread is not None:
        body["thread_id"] = str(thread)
    filters: dict[str, object] = {}
    if where or tag or stack is not None:
        body["filters"] = filters = {"fields": [_condition(one) for one in where or ()], "tags": list(tag or ())}

    async def work(client: Client) -> Mapping[str, Any]:
        if stack is not None:
            listed = await client.get("/api/stacks", name=stack)
            if not listed["items"]:
                exit_with(f"No stack has the name {stack!r}.", MISUSED)
            filters["stack_id"] = listed["items"][0]["id"]
        return await _ask(client, body)

    run = run_with_client(target, work, None if search else "ask")
    answer = run["result"] or {"error": run["error"], "code": run["error_code"]}
    if not print_json(target, answer) and run["result"] is not None:
        _show(run["answer"], run["result"])
        if stack is not None:
            out.print(f"(Only documents of the stack {stack}.)", markup=False, soft_wrap=True)
        steps().print(f'[dim]To go on: fieldmark ask --thread {run["thread_id"]} "…"[/dim]')
    if run["status"] != RunStatus.COMPLETED:
        raise typer.Exit(FAILED)


def _condition(text: str) -> dict[str, object]:
    try:
        return FieldCondition.parse(text).model_dump(mode="json")
    except Invalid as error:
        exit_with(str(error), MISUSED)


async def _ask(client: Client, body: Mapping[str, object]) -> Mapping[str, Any]:
    async with running(client) as runs:
        return (await runs.follow_to_end(await runs.start("ask", body), show=_show_step)).run


def _show_step(event: Mapping[str, Any], status: Status) -> None:
    """Show an event, except the answer, which is printed at the end."""
    if event.get("type") != "text":
        show_event(event, status)


def _show(answer: str, result: Mapping[str, Any]) -> None:
    out.print(answer, markup=False, soft_wrap=True)
    for source in result["sources"]:
        quote = source["quote"]
        shown = quote if len(quote) <= _SHOWN_QUOTE else f"{quote[:_SHOWN_QUOTE]}…"
        line = f"[{source['number']}] {source['filename']}, page {source['page']}: {shown}"
        out.print(plain(line), markup=False, soft_wrap=True)
    if result["kind"] == "reply":
        err.print("[dim]A reply without sources: nothing in it was checked against your documents.[/dim]")
    fallback = result["fallback"]
    if fallback is not None and fallback["by_model"]:  # else the answer says it
        err.print(f"[yellow]{plain(fallback['text'])}[/yellow]")
