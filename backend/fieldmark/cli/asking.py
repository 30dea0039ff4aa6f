"""Asks the user, at the terminal or through a pipe, to decide a proposed write."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError
from rich.console import Console
from rich.markup import escape

from fieldmark.cli.terminal import plain
from fieldmark.domain.events import ProposedCall
from fieldmark.domain.formatting import value_text

_ARGUMENTS: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
_MAX_REASON_CHARACTERS = 2000
_REJECT = ("r", "reject", "n", "no")


@dataclass(frozen=True, slots=True)
class UserDecision:
    """A user's decision about a call. `arguments`: the edited arguments, if they were edited."""

    call_id: str
    approved: bool
    arguments: dict[str, JsonValue] | None = None
    reason: str | None = None

    def as_json(self) -> dict[str, JsonValue]:
        said: dict[str, JsonValue] = {"call_id": self.call_id, "approved": self.approved}
        if self.arguments is not None:
            said["input"] = self.arguments
        if self.reason is not None:
            said["reason"] = self.reason
        return said


class TerminalUser:
    """The user on standard input. `console` shows questions; `editor` is a command line."""

    def __init__(self, console: Console, editor: str | None) -> None:
        self._console = console
        self._editor = editor
        self._read = b""

    async def decide(self, pending: ProposedCall) -> UserDecision | None:
        """Ask until the user decides the call. Return None at the end of input, or if the user decides later."""
        show_pending_call(self._console, pending)
        while (line := await self._ask_user("Approve, reject, edit, or leave it for later? (a/r/e/l)")) is not None:
            word, _, rest = line.strip().partition(" ")
            word = word.lower()
            if word in ("l", "leave"):
                return None
            if word in _REJECT and not rest:
                rest = await self._ask_user("Reason, sent to the agent (Enter for none):") or ""
            if word and (decision := await self.decision(pending, word, rest.strip())) is not None:
                return decision
        return None

    async def decision(self, pending: ProposedCall, word: str, rest: str) -> UserDecision | None:
        """Parse an answer into a decision. Print a hint and return None if it is not one."""
        if word in ("a", "approve", "y", "yes"):
            return UserDecision(pending.call_id, True)
        if word in _REJECT:
            return UserDecision(pending.call_id, False, reason=rest[:_MAX_REASON_CHARACTERS] or None)
        if word in ("e", "edit"):
            arguments = await self._read_edited_arguments(pending, rest)
            return None if arguments is None else UserDecision(pending.call_id, True, arguments)
        self._console.print("Answer with a, r, e or l: one line, such as [bold]r It is the subtotal.[/bold]")
        return None

    async def line(self, prompt: str) -> str | None:
        """Return the next line, None at the end of input. The prompt is shown at a terminal only."""
        if sys.stdin.isatty():
            self._console.print(f"[bold]{prompt}[/bold] ", end="")
        return await self._line()

    async def agrees(self, question: str) -> bool:
        """Ask a yes-or-no question. Anything but yes counts as no."""
        return (await self._ask_user(f"{question} (y/n)") or "").strip().lower() in ("y", "yes")

    async def _read_edited_arguments(self, pending: ProposedCall, given: str) -> dict[str, JsonValue] | None:
        """Read edited arguments from the same line, the editor, or the next line."""
        text: str | None = given
        if not given.strip():
            if self._editor and sys.stdin.isatty():
                text = await self._edit_in_editor(pending.input)
            else:
                text = await self._ask_user("Arguments as JSON, on one line:")
        try:
            return None if text is None else _ARGUMENTS.validate_json(text)
        except ValidationError as error:
            self._console.print(f"[red]Not a JSON object: {escape(error.errors()[0]['msg'])}.[/red]")
            return None

    async def _edit_in_editor(self, arguments: dict[str, Any]) -> str | None:
        assert self._editor is not None
        with tempfile.TemporaryDirectory(prefix="fieldmark-edit-") as folder:
            file = Path(folder) / "arguments.json"
            file.write_text(json.dumps(arguments, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
            try:
                editing = await asyncio.create_subprocess_exec(*shlex.split(self._editor), str(file))
            except (OSError, ValueError):
                self._console.print(f"[red]Could not start the editor {escape(self._editor)}.[/red]")
                return None
            if await editing.wait() != 0:
                self._console.print("The editor failed. Nothing was changed.")
                return None
            return file.read_text(encoding="utf-8")

    async def _ask_user(self, question: str) -> str | None:
        self._console.print(f"[bold]{question}[/bold] ", end="")
        line = await self._line()
        if line is None or not sys.stdin.isatty():
            self._console.print()  # no Enter was pressed
        return line

    async def _line(self) -> str | None:
        """Return the next line, None at the end. Reads on demand only, because an editor reads the same input."""
        while b"\n" not in self._read:
            more = await _read_some()
            if not more:
                rest, self._read = self._read, b""
                return rest.decode(errors="replace") if rest else None
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")


async def _read_some() -> bytes:
    """Return the next bytes of standard input; empty at its end."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()

    def set_result(data: bytes) -> None:
        if not answer.done():
            answer.set_result(data)

    def read() -> None:
        try:
            data = os.read(sys.stdin.fileno(), 65_536)
        except (OSError, ValueError, AttributeError):  # there is no standard input
            data = b""
        if not loop.is_closed():
            loop.call_soon_threadsafe(set_result, data)

    # Not the loop's own threads: those are waited for at the end, and this one may wait for an Enter that never comes.
    threading.Thread(target=read, daemon=True, name="standard input").start()
    return await answer


def show_pending_call(console: Console, pending: ProposedCall) -> None:
    """Show the changes of a call, old → new for each path, or else its arguments. Text is escaped for the terminal."""
    console.print(f"[yellow]?[/yellow] {plain(pending.message)} [dim]{plain(pending.tool)}[/dim]")
    for change in pending.changes:
        old = "[dim]nothing[/dim]" if change.added else plain(value_text(change.old))
        new = "[red]removed[/red]" if change.removed else plain(value_text(change.new))
        console.print(f"  [bold]{plain(change.path)}[/bold]: {old} → {new}")
    if not pending.changes:
        console.print(plain(json.dumps(pending.input, ensure_ascii=False, indent=2)))
