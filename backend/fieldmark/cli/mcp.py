"""`fieldmark mcp`: the MCP server for a client on the same computer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fieldmark.cli.client import Client, run_with_client
from fieldmark.cli.process import MISUSED, exit_with
from fieldmark.cli.target import Target, command


@command()
def mcp(
    target: Target,
    folder: Annotated[
        list[Path] | None,
        typer.Option(help="A folder whose files may be uploaded; repeat it for more. Default: the current folder."),
    ] = None,
) -> None:
    """Serve MCP on standard input and output, for Claude Desktop and other clients that start a command."""
    folders = tuple(one.resolve() for one in folder or [Path.cwd()])
    if Path("/") in folders:
        exit_with("Any file of this computer could be uploaded: name the allowed folders with --folder.", MISUSED)
    if missing := [one for one in folders if not one.is_dir()]:
        exit_with(f"{missing[0]} is not a folder.", MISUSED)
    run_with_client(target, lambda client: _serve(client, folders), "extract")


async def _serve(client: Client, folders: tuple[Path, ...]) -> None:
    # Here: it takes long to import, and other commands do without.
    from fieldmark.mcp_server.over_stdio import serve_over_stdio

    async with client.working():
        await serve_over_stdio(client.http, folders)
