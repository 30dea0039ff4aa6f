"""`fieldmark chat`: talk with the agent about a document, line by line, and decide what it proposes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID, uuid4

import typer
from rich.status import Status

from fieldmark.cli.asking import Decision, Person, show_pending_call
from fieldmark.cli.client import Client, Disconnected, Refused, asked, said, say_offline
from fieldmark.cli.files import check_in, json_of, write
from fieldmark.cli.process import CANNOT_WORK, FAILED, MISUSED, WAITS, stop
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import err, out, plain, spelt, steps, tell
from fieldmark.cli.watching import in_the_end, may_pass, show_event, waiting_call, warn, when_there_is_room
from fieldmark.domain.events import ProposedCall
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import FieldmarkError

SHOWN_TURNS = 20
_TASK = "chat"
_COMMANDS = "/approve · /reject why · /edit arguments as JSON · /history · /quit"


@command()
def chat(
    target: Target,
    what: Annotated[str, typer.Argument(metavar="FILE|DOCUMENT", help="A file to take in, or a document's id.")],
    thread: Annotated[UUID | None, typer.Option(help="The conversation that goes on. Left out: a new one.")] = None,
    message: Annotated[
        list[str] | None, typer.Option("--message", "-m", help="Say this, one after the other, and end.")
    ] = None,
) -> None:
    """Talk with the agent about a document. What it would write waits for you: /approve, /reject, /edit. Ctrl-C cancels
    what it is at, and not the conversation."""
    document = None if Path(what).exists() else _id_of(what)
    if document is None:
        check_in(Path(what))
        if thread is not None:
            stop("--thread goes with the id of the document that the conversation is about.", MISUSED)
    about = Path(what) if document is None else document
    code = asked(target, lambda client: _chat(client, about, thread, message, as_json=target.as_json))
    if code:
        raise typer.Exit(code)


def _id_of(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


async def _chat(
    client: Client, about: Path | UUID, thread: UUID | None, messages: list[str] | None, *, as_json: bool
) -> int:
    say_offline(client)
    person = Person(err, client.settings.editor)
    with steps().status("") as status:
        tell(status, "Starting…")
        async with client.working():
            if isinstance(about, Path):
                file = about
                tell(status, f"Taking in {plain(file.name)}…")
                document = await when_there_is_room(status, lambda: client.upload(file, None))
            else:
                document = await client.get(f"/api/documents/{about}")
            steps().print(f"[bold]{plain(document['filename'])}[/bold]")
            talk = _Talk(client, document["id"], status, person, as_json=as_json)
            if thread is not None:
                await talk.take_up(str(thread))
            status.stop()
            with talk.interruptible():
                async for line in _lines(person, messages):
                    if not await talk.take(line):
                        break
            await talk.end()
    return talk.exit_code


async def _lines(person: Person, messages: list[str] | None) -> AsyncGenerator[str]:
    for message in messages or ():
        yield message
    while messages is None and (line := await person.line("you>")) is not None:
        yield line


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A call that waits for the person, and the run that it is of: a turn, or a part of one."""

    run_id: str
    call: ProposedCall


class _Talk:
    """One conversation at the terminal."""

    def __init__(self, client: Client, document_id: str, status: Status, person: Person, *, as_json: bool) -> None:
        self._client = client
        self._document_id = document_id
        self._status = status
        self._person = person
        self._as_json = as_json
        self._thread_id: str | None = None
        # The last message as it was asked for, its run, and the number of the last event that was seen of that.
        self._asked: tuple[Mapping[str, object], str] | None = None
        self._turn: str | None = None
        self._after = 0
        self._child: str | None = None
        self._waiting: _Waiting | None = None
        # What was shown of the block that is being said.
        self._shown = ""
        self._has_failed = False
        self._was_warned = False
        self._main = asyncio.current_task()
        self._work: asyncio.Task[None] | None = None
        self._cancelling: asyncio.Task[None] | None = None
        self._is_cancelled = False

    @property
    def exit_code(self) -> int:
        """A person has more to do where a call waits; else it says whether a message came to nothing."""
        return WAITS if self._waiting is not None else FAILED if self._has_failed else 0

    async def take_up(self, thread_id: str) -> None:
        """Go on with a conversation, and with the call that waits in it."""
        thread = await self._client.get(f"/api/threads/{thread_id}", limit=SHOWN_TURNS)
        if thread["document_id"] != self._document_id:
            stop("This conversation is about another document.", FAILED)
        if not thread["mine"]:
            stop("This conversation is somebody else's: begin one of your own, without --thread.", FAILED)
        self._thread_id = thread_id
        self._show_turns(thread)
        if thread["turns"] and thread["turns"][0]["waits_for"] is not None:
            last = thread["turns"][0]
            self._turn = last["run_id"]
            self._waiting = _Waiting(last["waiting_run_id"], ProposedCall.model_validate(last["waits_for"]))
            self._after = await self._number_of(self._waiting)
            self._show_waiting()

    async def take(self, line: str) -> bool:
        """Do what a line says; False where it says that this is all."""
        word, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if not sys.stdin.isatty() or self._as_json:
            steps().print(f"[bold]you>[/bold] {plain(line.strip())}")
        match word:
            case "/quit" | "/exit":
                return False
            case "/history":
                await self._history()
            case "/approve" | "/reject" | "/edit" if self._waiting is None:
                err.print("Nothing waits for a decision.")
            case "/approve" if self._waiting is not None:
                await self._decide(self._waiting, Decision(self._waiting.call.call_id, True))
            case "/reject" if self._waiting is not None:
                await self._decide(self._waiting, Decision(self._waiting.call.call_id, False, reason=rest or None))
            case "/edit" if self._waiting is not None:
                arguments = await self._person.edited(self._waiting.call, rest)
                if arguments is not None:
                    await self._decide(self._waiting, Decision(self._waiting.call.call_id, True, arguments))
            case "":
                pass
            # (A message may begin with a slash: with a space in front of it.)
            case _ if word.startswith("/") and line.startswith("/"):
                err.print(_COMMANDS, markup=False)
            case _:
                await self._say(line.strip())
        return True

    async def end(self) -> None:
        """Say how the conversation is taken up again."""
        if self._thread_id is not None:
            options = f"--thread {self._thread_id}{self._client.options}"
            steps().print(f"[dim]To go on: fieldmark chat {self._document_id} {plain(options)}[/dim]")

    # What the agent is asked

    async def _say(self, message: str) -> None:
        body = {"document_id": self._document_id, "thread_id": self._thread_id, "message": message}
        self._asked, self._turn, self._after, self._child, self._waiting = (body, str(uuid4())), None, 0, None, None
        await self._at_work(self._start(*self._asked))

    async def _start(self, body: Mapping[str, object], key: str) -> None:
        try:
            self._turn = await when_there_is_room(self._status, lambda: self._client.start(_TASK, body, key))
        except Refused as refused:
            self._say_refused(refused)
            return
        await self._watch(self._turn)

    async def _decide(self, waiting: _Waiting, decision: Decision) -> None:
        await self._at_work(self._carry_out(waiting, decision))

    async def _carry_out(self, waiting: _Waiting, decision: Decision) -> None:
        try:
            await self._client.decide(waiting.run_id, decision.as_json())
        except Refused as refused:
            if refused.answered != 409:
                self._say_refused(refused)  # it goes on waiting
                return
            # Somebody else has decided or ended it, or what it would change has moved: then it is shown anew.
            err.print(f"[red]{plain(said(refused))}[/red]")
            now = waiting_call(await self._client.get(f"/api/runs/{waiting.run_id}"))
            if now is not None:
                self._waiting = _Waiting(waiting.run_id, now)
                self._show_waiting()
                return
        self._waiting = self._child = None
        assert self._turn is not None
        await self._watch(self._turn)

    def _say_refused(self, refused: Refused) -> None:
        if refused.exit_code == CANNOT_WORK:
            raise refused
        self._has_failed = True
        err.print(f"[red]{plain(said(refused))}[/red]")

    # What comes of it

    async def _watch(self, run_id: str) -> None:
        """Show what a turn tells until it has ended, or a call of it waits."""
        while True:
            await self._read(run_id)
            run = await in_the_end(lambda: self._client.get(f"/api/runs/{run_id}"))
            self._thread_id = run["thread_id"]
            if (call := waiting_call(run)) is not None:
                self._waiting = _Waiting(run_id, call)
                break
            if RunStatus(run["status"]).is_final:
                break
            if self._child is not None:
                child_id, self._child = self._child, None
                part = await in_the_end(lambda child_id=child_id: self._client.get(f"/api/runs/{child_id}"))
                if (call := waiting_call(part)) is not None:
                    self._waiting = _Waiting(child_id, call)
                    break
            else:  # the service has ended the stream, and not the run
                await asyncio.sleep(1)
        self._end_block()
        self._status.stop()
        self._has_failed |= run["status"] == RunStatus.FAILED
        if self._as_json:
            write(json_of(run, indented=False), None)
        if not self._was_warned:
            self._was_warned = True
            await warn(self._client, self._document_id)
        if self._waiting is not None:
            self._show_waiting()

    async def _read(self, run_id: str) -> None:
        """Show the events of a run behind the last that was seen, until there are no more, or a part of it waits."""
        breaks = 0
        while True:
            before = self._after
            try:
                async with self._client.events(run_id, self._after) as events:
                    async for number, event in events:
                        is_kept, self._after = number > self._after, max(self._after, number)
                        self._show(event, is_kept=is_kept)
                        if (asking := _asks(event)) is not None and asking[0] is not None:
                            self._child = asking[0]
                            return
                return
            except (Disconnected, Refused) as error:
                breaks = breaks + 1 if self._after == before else 1
                await may_pass(error, breaks)

    async def _number_of(self, waiting: _Waiting) -> int:
        """The number of the event that has told of a call that waits."""
        assert self._turn is not None
        last = 0
        async with self._client.events(self._turn) as events:
            async for number, event in events:
                last = max(last, number)
                if (asking := _asks(event)) is not None and asking[1] == waiting.call.call_id:
                    break
        return last

    def _show(self, event: Mapping[str, Any], *, is_kept: bool) -> None:
        match event["type"]:
            case "text_delta":
                self._show_words(event["text_delta"])
            case "text" if not self._as_json:
                self._show_whole(event["text"])
            case "thinking_delta":
                self._status.update("Thinking…")
            case _:
                if is_kept:
                    self._end_block()
                show_event(event, self._status)

    def _show_words(self, words: str) -> None:
        """The next words of what is being said, at a terminal. Elsewhere the whole comes."""
        if self._as_json or not out.is_terminal:
            return
        self._status.stop()
        out.print(spelt(words), end="", markup=False, soft_wrap=True)
        self._shown += words

    def _show_whole(self, text: str) -> None:
        self._status.stop()
        if self._shown and not text.startswith(self._shown):
            self._end_block()
            self._status.stop()
        out.print(spelt(text[len(self._shown) :]), markup=False, soft_wrap=True)
        self._shown = ""
        self._status.start()

    def _end_block(self) -> None:
        if self._shown:
            out.print()
            self._shown = ""
            self._status.start()

    def _show_waiting(self) -> None:
        assert self._waiting is not None
        show_pending_call(err, self._waiting.call)
        err.print("  [dim]/approve, /reject why, /edit arguments as JSON; or say something else instead[/dim]")

    async def _history(self) -> None:
        if self._thread_id is None:
            err.print("Nothing was said yet.")
            return
        self._show_turns(await self._client.get(f"/api/threads/{self._thread_id}", limit=SHOWN_TURNS))

    def _show_turns(self, thread: Mapping[str, Any]) -> None:
        """What was said, the oldest first."""
        if thread["next"] is not None:
            err.print("[dim]…[/dim]")
        for turn in reversed(thread["turns"]):
            err.print(f"[bold]you>[/bold] {plain(turn['message'] or '')}")
            err.print(plain(turn["answer"] or turn["error"] or turn["status"]))

    # Ctrl-C

    @contextlib.contextmanager
    def interruptible(self) -> Generator[None]:
        """While this lasts, Ctrl-C ends what the agent is at. Where it is at nothing, or at the second, all ends."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _interrupted(self) -> None:
        assert self._main is not None
        if self._work is None or self._is_cancelled:
            self._main.cancel()
            return
        self._is_cancelled = True
        if self._turn is None:
            self._work.cancel()
        else:
            self._cancelling = asyncio.create_task(self._cancel())

    async def _at_work(self, work: Coroutine[Any, Any, None]) -> None:
        self._status.update("At work…")
        self._status.start()
        self._work, self._is_cancelled = asyncio.create_task(work), False
        try:
            await self._work
        except asyncio.CancelledError:
            # Told to end in the middle of a turn, or before anything was heard of it: it does not go on behind the
            # person's back.
            await self._cancel()
            if not self._is_cancelled or self._turn is not None:
                raise
            err.print("The message was taken back.")
        finally:
            self._work = None
            self._status.stop()

    async def _cancel(self) -> None:
        with contextlib.suppress(FieldmarkError):
            run_id = self._turn
            if run_id is None:
                assert self._asked is not None
                run_id = await self._client.start(_TASK, *self._asked)  # the same key, so the same run
            await self._client.send("POST", f"/api/runs/{run_id}/cancel")


def _asks(event: Mapping[str, Any]) -> tuple[str | None, str] | None:
    """The run below this one whose event asks a person (None for this one itself), and the call; None for any other."""
    run_id: str | None = None
    while event["type"] == "child":
        run_id, event = event["run_id"], event["event"]
    return (run_id, event["approval"]["call_id"]) if event["type"] == "approval" else None
