"""`fieldmark changes` and `fieldmark webhook`: what happened, and where it is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from fieldmark.cli.client import Client, fetch_items, run_with_client
from fieldmark.cli.files import print_json
from fieldmark.cli.process import MISUSED, exit_with
from fieldmark.cli.target import HelpedCommand, HelpedGroup, Target, command
from fieldmark.cli.terminal import say_if_more, show_lines, steps
from fieldmark.domain.statuses import ChangeType

_POLL_SECONDS = 2
_MOST_AT_ONCE = 200

webhook = typer.Typer(
    cls=HelpedGroup, help="Send changes to another system: create, test and watch webhooks.", no_args_is_help=True
)
WebhookId = Annotated[UUID, typer.Argument(metavar="webhook", help="The webhook's id, as shown by `webhook list`.")]


@command()
def show_changes(
    target: Target,
    after: Annotated[int, typer.Option(min=0, help="Only changes with a higher number.")] = 0,
    types: Annotated[str, typer.Option("--type", help="Only these types, separated by commas.")] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new changes until you press Ctrl+C.")] = False,
) -> None:
    """Print what happened, oldest first: a line for each change, or with --json one JSON object."""
    run_with_client(target, lambda client: _print_changes(client, target, after, _parse_types(types), follow))


async def _print_changes(client: Client, target: Target, after: int, types: list[str], follow: bool) -> None:
    while True:
        page = await client.get("/api/changes", after=after, type=types or None, limit=_MOST_AT_ONCE)
        for change in page["items"]:
            typer.echo(json.dumps(change, ensure_ascii=False) if target.as_json else _line(change))
        after = page["last"]
        if not page["has_more"]:
            if not follow:
                return
            await asyncio.sleep(_POLL_SECONDS)


def _line(change: Mapping[str, Any]) -> str:
    data = change["data"]
    at = datetime.fromisoformat(change["created_at"]).astimezone()
    about = data.get("document", {}).get("filename") or data.get("table", {}).get("name") or ""
    of = next((data[key] for key in ("extraction_id", "document_id", "run_id", "webhook_id") if key in data), "")
    return f"{change['number']}  {at:%Y-%m-%d %H:%M:%S}  {change['type']}  {of}  {about}".rstrip()


@webhook.command("create", cls=HelpedCommand)
@command()
def create_webhook(
    target: Target,
    url: Annotated[str, typer.Argument(help="Where changes are sent by POST.")],
    types: Annotated[str, typer.Option("--type", help="Only these types, separated by commas. Default: all.")] = "",
) -> None:
    """Create a webhook and print its secret to standard output. It is shown only once."""
    body = {"url": url, "types": _parse_types(types)}
    made = run_with_client(target, lambda client: client.send("POST", "/api/webhooks", body))
    if not print_json(target, made):
        typer.echo(made["secret"])
        steps().print(f"Created webhook {made['id']}. Copy the secret now; it is not shown again.")


@webhook.command("list", cls=HelpedCommand)
@command()
def list_webhooks(target: Target) -> None:
    """List the webhooks of the organisation, newest first."""
    found = run_with_client(target, lambda client: client.get("/api/webhooks"))["items"]
    if not print_json(target, found):
        rows = ((one["id"], _state(one), one["url"], ",".join(one["types"]) or "all") for one in found)
        show_lines(rows, "No webhooks.")


@webhook.command("test", cls=HelpedCommand)
@command()
def test_webhook(target: Target, webhook_id: WebhookId) -> None:
    """Send a change of the type webhook.test."""
    sent = run_with_client(target, lambda client: client.send("POST", f"/api/webhooks/{webhook_id}/test"))
    if not print_json(target, sent):
        steps().print(f"Sending. See `fieldmark webhook deliveries {webhook_id}`.")


@webhook.command("deliveries", cls=HelpedCommand)
@command()
def list_deliveries(
    target: Target,
    webhook_id: WebhookId,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of rows.")] = 50,
) -> None:
    """List what was and is sent, newest first."""
    path = f"/api/webhooks/{webhook_id}/deliveries"
    found, is_more = run_with_client(target, lambda client: fetch_items(client, path, limit, {}))
    say_if_more(found, is_more)
    if not print_json(target, found):
        rows = (
            (
                one["id"],
                one["type"],
                one["status"],
                f"{one['attempts']} attempts",
                str(one["http_status"] or one["error_code"]),
            )
            for one in found
        )
        show_lines(rows, "Nothing was sent.")


@webhook.command("again", cls=HelpedCommand)
@command()
def send_again(target: Target, webhook_id: WebhookId, delivery_id: Annotated[UUID, typer.Argument()]) -> None:
    """Send a delivery again now."""
    path = f"/api/webhooks/{webhook_id}/deliveries/{delivery_id}"
    run_with_client(target, lambda client: client.send("POST", path))
    steps().print("Sending.")


@webhook.command("enable", cls=HelpedCommand)
@command()
def enable_webhook(target: Target, webhook_id: WebhookId) -> None:
    """Enable a webhook that was disabled."""
    body = {"is_enabled": True}
    changed = run_with_client(target, lambda client: client.send("PATCH", f"/api/webhooks/{webhook_id}", body))
    if not print_json(target, changed):
        steps().print("Webhook enabled.")


@webhook.command("secret", cls=HelpedCommand)
@command()
def replace_secret(target: Target, webhook_id: WebhookId) -> None:
    """Replace the secret and print the new one. For a day requests are signed with both."""
    made = run_with_client(target, lambda client: client.send("POST", f"/api/webhooks/{webhook_id}/secret"))
    if not print_json(target, made):
        typer.echo(made["secret"])


@webhook.command("delete", cls=HelpedCommand)
@command()
def delete_webhook(target: Target, webhook_id: WebhookId) -> None:
    """Delete a webhook."""
    run_with_client(target, lambda client: client.send("DELETE", f"/api/webhooks/{webhook_id}"))
    steps().print("Webhook deleted.")


def _parse_types(text: str) -> list[str]:
    wanted = [one.strip() for one in text.split(",") if one.strip()]
    if unknown := [one for one in wanted if one not in list(ChangeType)]:
        exit_with(f"Unknown type {unknown[0]!r}. Choose from: {', '.join(ChangeType)}.", MISUSED)
    return wanted


def _state(row: Mapping[str, Any]) -> str:
    if not row["is_enabled"]:
        return f"disabled ({row['disabled_reason'] or 'by a person'})"
    return "failing" if row["failing_since"] else "enabled"
