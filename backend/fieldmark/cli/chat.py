"""`fieldmark chat`: talk with the agent about a document, line by line, and decide what it proposes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.status import Status

from fieldmark.cli.asking import TerminalUser, show_pending_call
from fieldmark.cli.client import Client, ErrorResponse, error_text, run_with_client
from fieldmark.cli.files import file_or_document, to_json_bytes, write
from fieldmark.cli.follow import Follower, PendingDecision, StartedRuns, cancel, running, show_event, warn
from fieldmark.cli.process import CANNOT_WORK, FAILED, MISUSED, WAITS, exit_with
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import err, escape_control, out, plain, steps
from fieldmark.domain.events import ProposedCall
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import FieldmarkError

SHOWN_TURNS = 20
_COMMANDS = "/approve · /reject why · /edit arguments as JSON · /history · /quit"


@command()
def chat(
    target: Target,
    what: Annotated[str, typer.Argument(metavar="FILE|DOCUMENT", help="A file to upload, or a document id.")],
    thread: Annotated[UUID | None, typer.Option(help="Continue this conversation. Default: start a new one.")] = None,
    message: Annotated[
        list[str] | None, typer.Option("--message", "-m", help="Send these messages in order, then exit.")
    ] = None,
) -> None:
    """Chat with the agent about a document. Writes wait for your decision: /approve, /reject, /edit. Ctrl-C cancels the
    current turn, not the conversation."""
    about = file_or_document(what)
    if isinstance(about, Path) and thread is not None:
        exit_with("--thread goes with the id of the document that the conversation is about.", MISUSED)
    code = run_with_client(target, lambda client: _chat(client, about, thread, message, as_json=target.as_json))
    if code:
        raise typer.Exit(code)


async def _chat(
    client: Client, about: Path | UUID, thread: UUID | None, messages: list[str] | None, *, as_json: bool
) -> int:
    person = TerminalUser(err, client.settings.editor)
    async with running(client) as runs:
        if isinstance(about, Path):
            document = await runs.upload(about)
        else:
            document = await client.get(f"/api/documents/{about}")
        steps().print(f"[bold]{plain(document['filename'])}[/bold]")
        talk = _ChatSession(client, document["id"], runs.status, person, as_json=as_json)
        if thread is not None:
            await talk.take_up(str(thread))
        runs.status.stop()
        with talk.interruptible():
            async for line in _lines(person, messages):
                if not await talk.take(line):
                    break
        talk.end()
    return talk.exit_code


async def _lines(person: TerminalUser, messages: list[str] | None) -> AsyncGenerator[str]:
    for message in messages or ():
        yield message
    while messages is None and (line := await person.line("you>")) is not None:
        yield line


class _ChatSession:
    """One conversation at the terminal."""

    def __init__(
        self, client: Client, document_id: str, status: Status, person: TerminalUser, *, as_json: bool
    ) -> None:
        self._client = client
        self._document_id = document_id
        self._status = status
        self._person = person
        self._as_json = as_json
        self._thread_id: str | None = None
        self._turn: Follower | None = None
        self._shown = ""  # of the text that is being said
        self._has_failed = False
        self._was_warned = False
        self._main = asyncio.current_task()
        self._work: asyncio.Task[None] | None = None
        self._is_cancelled = False

    @property
    def exit_code(self) -> int:
        """4 if a call waits for a decision, 1 if a turn failed."""
        return WAITS if self._waiting is not None else FAILED if self._has_failed else 0

    @property
    def _waiting(self) -> PendingDecision | None:
        return None if self._turn is None else self._turn.waiting

    async def take_up(self, thread_id: str) -> None:
        """Continue a conversation, including a call that waits in it."""
        thread = await self._client.get(f"/api/threads/{thread_id}", limit=SHOWN_TURNS)
        if thread["document_id"] != self._document_id:
            exit_with("This conversation is about another document.", FAILED)
        if not thread["mine"]:
            exit_with("This conversation belongs to another user. Start your own, without --thread.", FAILED)
        self._thread_id = thread_id
        self._show_turns(thread)
        last = thread["turns"][0] if thread["turns"] else None
        if last is not None and last["waits_for"] is not None:
            waiting = PendingDecision(last["waiting_run_id"], ProposedCall.model_validate(last["waits_for"]))
            self._turn = Follower(self._client, self._status, last["run_id"], self._show, waiting)
            await self._turn.skip()
            self._show_waiting()

    async def take(self, line: str) -> bool:
        """Handle one input line. Return False if it ends the conversation."""
        word, _, rest = line.strip().partition(" ")
        if not sys.stdin.isatty() or self._as_json:
            steps().print(f"[bold]you>[/bold] {plain(line.strip())}")
        match word:
            case "/quit" | "/exit":
                return False
            case "/history":
                await self._history()
            case "/approve" | "/reject" | "/edit" if self._waiting is None:
                err.print("No call is waiting for a decision.")
            case "/approve" | "/reject" | "/edit":
                await self._at_work(self._decide(word.removeprefix("/"), rest))
            case "":
                pass
            # (A message may begin with a slash: with a space in front of it.)
            case _ if word.startswith("/") and line.startswith("/"):
                err.print(_COMMANDS, markup=False)
            case _:
                await self._at_work(self._say(line.strip()))
        return True

    def end(self) -> None:
        """Print the command that continues the conversation."""
        if self._thread_id is not None:
            options = f"--thread {self._thread_id}{self._client.options}"
            steps().print(f"[dim]To go on: fieldmark chat {self._document_id} {plain(options)}[/dim]")

    async def _say(self, message: str) -> None:
        body = {"document_id": self._document_id, "thread_id": self._thread_id, "message": message}
        self._turn = None
        async with StartedRuns(self._client, self._status) as runs:
            try:
                run_id = await runs.start("chat", body)
            except ErrorResponse as refused:
                if refused.exit_code == CANNOT_WORK:
                    raise
                self._has_failed = True
                err.print(f"[red]{plain(error_text(refused))}[/red]")
                return
            self._turn = Follower(self._client, self._status, run_id, self._show)
            await self._follow(self._turn)

    async def _decide(self, word: str, rest: str) -> None:
        assert self._turn is not None and self._turn.waiting is not None
        decision = await self._person.decision(self._turn.waiting.call, word, rest.strip())
        if decision is None:
            return
        try:
            if await self._turn.decide(decision):
                await self._follow(self._turn)
            else:
                self._has_failed = True
                self._show_waiting()
        except asyncio.CancelledError:
            with contextlib.suppress(FieldmarkError):
                await cancel(self._client, self._turn.run_id)
            raise

    async def _follow(self, turn: Follower) -> None:
        """Show a turn until it ends or one of its calls waits."""
        await turn.follow()
        self._end_text()
        self._status.stop()
        self._thread_id = turn.run["thread_id"]
        self._has_failed |= turn.run["status"] == RunStatus.FAILED
        self._print_json(turn)
        if not self._was_warned:
            self._was_warned = True
            await warn(self._client, self._document_id)
        self._show_waiting()

    def _print_json(self, turn: Follower) -> None:
        if self._as_json:
            write(to_json_bytes(turn.run, indented=False), None)

    def _show(self, event: Mapping[str, Any], status: Status) -> None:
        match event["type"]:
            case "text_delta":
                self._show_words(event["text_delta"])
            case "text" if not self._as_json:
                self._show_whole(event["text"])
            case _:
                if event["type"] in ("tool", "child", "error"):
                    self._end_text()
                show_event(event, status)

    def _show_words(self, words: str) -> None:
        """Print streamed text at a terminal. Through a pipe, the whole text is printed at the end."""
        if self._as_json or not out.is_terminal:
            return
        self._status.stop()
        out.print(escape_control(words), end="", markup=False, soft_wrap=True)
        self._shown += words

    def _show_whole(self, text: str) -> None:
        if not text.startswith(self._shown):
            self._end_text()
        self._status.stop()
        out.print(escape_control(text[len(self._shown) :]), markup=False, soft_wrap=True)
        self._shown = ""
        self._status.start()

    def _end_text(self) -> None:
        if self._shown:
            out.print()
            self._shown = ""
            self._status.start()

    def _show_waiting(self) -> None:
        if self._waiting is not None:
            show_pending_call(err, self._waiting.call)
            err.print("  [dim]/approve, /reject why, /edit arguments as JSON; or say something else instead[/dim]")

    async def _history(self) -> None:
        if self._thread_id is None:
            err.print("No messages yet.")
            return
        self._show_turns(await self._client.get(f"/api/threads/{self._thread_id}", limit=SHOWN_TURNS))

    def _show_turns(self, thread: Mapping[str, Any]) -> None:
        """Print the conversation, oldest message first."""
        if thread["next"] is not None:
            err.print("[dim]…[/dim]")
        for turn in reversed(thread["turns"]):
            err.print(f"[bold]you>[/bold] {plain(turn['message'] or '')}")
            for text in (*turn["earlier_texts"], turn["answer"] or turn["error"] or turn["status"]):
                err.print(plain(text))

    @contextlib.contextmanager
    def interruptible(self) -> Generator[None]:
        """In this context Ctrl-C cancels the current turn. Without a turn, or the second time, it ends the command."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _interrupt(self) -> None:
        assert self._main is not None
        if self._work is None or self._is_cancelled:
            self._main.cancel()
        else:
            self._is_cancelled = True
            self._work.cancel()

    async def _at_work(self, work: Coroutine[Any, Any, None]) -> None:
        self._status.update("At work…")
        self._status.start()
        self._work, self._is_cancelled = asyncio.create_task(work), False
        try:
            await self._work
        except asyncio.CancelledError:
            main_is_cancelled = self._main is not None and self._main.cancelling()
            if main_is_cancelled or not self._is_cancelled:
                raise
            self._end_text()
            err.print("Turn cancelled. \\[cancelled]")
            if self._turn is not None:
                await self._turn.refresh()
                self._thread_id = self._turn.run["thread_id"]
                self._print_json(self._turn)
        finally:
            self._work = None
            self._status.stop()
