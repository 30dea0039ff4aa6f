"""Where a run gets its CLI from: the one that its thread was just told something by, one that its organisation used
before and that was cleared since, one connected in advance, or a new one."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

import structlog
from claude_agent_sdk import ClaudeAgentOptions, Message

from fieldmark.agents.spec import AgentSpec, Prompt
from fieldmark.identity.scope import Scope
from fieldmark.runs.engine.binding import RunBinding, RunHandlers
from fieldmark.runs.engine.cli_attestation import COMMANDS, SandboxViolation
from fieldmark.runs.engine.options import ModelService, agent_options
from fieldmark.runs.engine.process import Process, log_stderr
from fieldmark.runs.engine.tool_server import tool_server
from fieldmark.telemetry.metrics import Metrics
from fieldmark.tools.toolset import Toolset

log = structlog.get_logger()

WORTH_WAITING_SECONDS = 0.5
"""How long a run waits for a CLI of its organisation that is just being cleared: about what a new one takes."""
LOOK_SECONDS = 5
AGAIN_SECONDS = 30
REMEMBERED = 0.9
"""What an earlier wish for a CLI counts after each later one: the last ten or so tell what is wanted."""
LEAST_DEMAND = 0.01
"""Who is asked for less is forgotten: a hundred models asked for once each must not be remembered for ever."""
WORTH_EXCHANGING = 2
"""How much more another agent must be wanted for a spare to give way: two wanted in turn must not evict each other."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """How many CLIs live on between runs, and how long. `processes` counts those at work too, up to which others are
    kept: 0 keeps none, each run then has a CLI of its own. `spares` of them are connected in advance. That of a thread
    stays for `thread_seconds` behind a turn, in what room the others leave."""

    processes: int = 0
    spares: int = 0
    runs: int = 50
    idle_seconds: float = 300
    thread_seconds: float = 120
    max_mb: int = 400


@dataclass(frozen=True, slots=True)
class ThreadTurn:
    """A turn of a thread. `last_entry` is the number of the last entry of the conversation as it is stored, where the
    turn says the next message in it; None for any other beginning."""

    thread_id: UUID
    last_entry: int | None = None


@dataclass(frozen=True, slots=True)
class CliLease:
    """A CLI as one run has it. `session_id` is the conversation that the run will have in it."""

    session_id: UUID
    _process: Process
    _check_calls: Callable[[], None]

    def converse(self, prompt: Prompt | None) -> AsyncIterator[Message]:
        """What it says to a prompt, or without one from where its conversation stopped. Raises SandboxViolation if
        the CLI has anything besides our tools, and what one of its calls failed with, if that must end the run."""
        return self._process.converse(prompt, self._check_calls)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a CLI is started with and keeps for its life."""

    agent: str
    prompt: str
    toolset: Toolset
    model: str
    one_at_a_time: bool
    max_turns: int


@dataclass(slots=True)
class _Demand:
    """How much an agent's CLI was wanted lately where no used one was there."""

    spec: AgentSpec
    model: str
    one_at_a_time: bool
    max_turns: int
    weight: float

    @property
    def kind(self) -> _Kind:
        return _kind(self.spec, self.model, self.one_at_a_time, self.max_turns)


class _Shared:
    """A CLI that serves one run after the other, all of one organisation: `org_id`, None before the first. With
    `user_id` they are turns of one thread of that user's."""

    def __init__(self, kind: _Kind, process: Process, binding: RunBinding) -> None:
        self.kind = kind
        self.process = process
        self.binding = binding
        self.org_id: UUID | None = None
        self.user_id: UUID | None = None
        self.runs = 0
        self.since = time.monotonic()


class CliPool:
    """Hands out CLIs, and keeps what is left of them warm while it is open. One instance serves a whole worker.

    `most_turns` and `seconds` are the limits of a run that says nothing of them: a CLI cannot be given others later, so
    a run that wants fewer turns than its agent's tasks do gets one of its own. `first` is the agent for which CLIs are
    connected in advance before anybody has asked for one."""

    def __init__(
        self,
        service: ModelService,
        *,
        most_turns: int,
        seconds: int,
        settings: PoolSettings | None = None,
        first: tuple[AgentSpec, str] | None = None,
        metrics: Metrics | None = None,
        most_at_work: int = 1,
    ) -> None:
        self._service = service
        self._most_at_work = most_at_work
        self._most_turns = most_turns
        self._seconds = seconds
        self._settings = settings or PoolSettings()
        self._metrics = metrics or Metrics()
        self._demand: dict[tuple[str, str, bool, int], _Demand] = {}
        if first is not None:  # a guess, that one wish outweighs
            guess = _Demand(*first, False, most_turns, 1 / WORTH_EXCHANGING)
            self._demand[first[0].name, first[1], False, most_turns] = guess
        self._idle: list[_Shared] = []  # oldest first
        self._threads: dict[UUID, _Shared] = {}  # by thread, oldest first
        self._spares: list[_Shared] = []
        self._clearing: dict[_Shared, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._at_work = 0
        self._connecting = 0
        self._changed = asyncio.Event()
        self._keeps = False
        self._tender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._tell()
        if self._settings.processes:
            self._keeps = True
            self._tender = _apart(self._tend())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeps = False
        if self._tender is not None:
            self._tender.cancel()
            await asyncio.wait({self._tender})
        for clearing in self._clearing.values():
            clearing.cancel()
        if self._clearing:
            await asyncio.wait(self._clearing.values())
        for shared in [*self._idle, *self._spares, *self._clearing, *self._threads.values()]:
            self._throw_away(shared, "closed")
        while self._ending:
            await asyncio.wait(self._ending)

    @property
    def has_room(self) -> bool:
        """Whether one run more could be at work beside those that are."""
        return self._at_work < self._most_at_work

    @asynccontextmanager
    async def acquire(
        self,
        spec: AgentSpec,
        scope: Scope,
        work: RunHandlers,
        *,
        model: str,
        max_turns: int,
        session_id: UUID,
        resumed: bool = False,
        turn: ThreadTurn | None = None,
        one_at_a_time: bool = False,
    ) -> AsyncGenerator[CliLease]:
        """A connected CLI for one run, whose conversation need not be `session_id`: the client tells which it is.

        A conversation that goes on (`resumed`) gets a CLI of its own, unless it is a `turn` of a thread whose CLI
        stayed. With `one_at_a_time` the model is asked for one call a message. However the block ends, no other run has
        any of this one's but the thread's next turn: a CLI goes back only after a run that was completed, and is
        cleared first. Not every member may read a thread: one that was in a thread serves nothing else."""
        stayed = None if turn is None else self._threads.pop(turn.thread_id, None)
        if not self._keeps or (resumed and turn is None) or max_turns not in self._usual_turns(spec):
            if stayed is not None:
                self._throw_away(stayed, "changed")

            def options_in(folder: Path) -> ClaudeAgentOptions:
                return agent_options(
                    spec.prompt,
                    model=model,
                    service=self._service,
                    folder=folder,
                    server=tool_server(spec.toolset, work.executor),
                    hook=work.hook,
                    after=work.after,
                    sessions=work.sessions,
                    session_id=session_id,
                    resumed=resumed,
                    max_turns=max_turns,
                    cpu_seconds=self._seconds,
                    on_stderr=log_stderr,
                    several_calls=not one_at_a_time,
                )

            self._taken("own")
            try:
                async with of_its_own(options_in, work, session_id) as client:
                    yield client
            finally:
                self._left()
            return
        if turn is None:
            shared = await self._find(spec, model, one_at_a_time, max_turns, scope.org_id)
        else:
            if stayed is not None and not self._goes_on(
                stayed, _kind(spec, model, one_at_a_time, max_turns), scope, session_id, turn
            ):
                self._throw_away(stayed, "changed")
                stayed = None
            if stayed is not None:
                shared = stayed
                self._taken("thread")
            elif resumed:
                self._taken("own")
                shared = await self._connected(
                    self._connect(_kind(spec, model, one_at_a_time, max_turns), work, session_id)
                )
            else:
                shared = await self._find(spec, model, one_at_a_time, max_turns, None)
        in_order = False
        try:
            shared.org_id = scope.org_id
            shared.user_id = None if turn is None else scope.user_id
            shared.runs += 1
            shared.binding.take(work)
            yield CliLease(shared.process.session_id, shared.process, work.executor.check)
            in_order = True
        finally:
            shared.binding.leave(goes_on=turn is not None)
            is_fit = in_order and shared.process.ended_well and self._keeps
            if is_fit and turn is not None and self._why_not(shared) is None:
                shared.since = time.monotonic()
                self._threads[turn.thread_id] = shared
                self._left()
                self._trim()
            # Runs go on while CLIs are cleared, which may take long.
            elif is_fit and turn is None and len(self._clearing) < self._settings.processes:
                self._clearing[shared] = _apart(self._clear(shared))
                self._left()
            else:
                self._metrics.clis_ended.labels("room" if is_fit else "run").inc()
                try:
                    await shared.process.end(in_order)
                finally:
                    self._left()

    # Finding one

    def _usual_turns(self, spec: AgentSpec) -> set[int]:
        """How many turns an agent's runs may have that say nothing of them."""
        return {min(self._most_turns, task.max_turns or self._most_turns) for task in spec.tasks.values()}

    def _goes_on(self, stayed: _Shared, kind: _Kind, scope: Scope, session_id: UUID, turn: ThreadTurn) -> bool:
        """Whether the CLI that stayed for a thread has said all that its conversation holds, and nothing else."""
        return (
            stayed.kind == kind
            and (stayed.org_id, stayed.user_id) == (scope.org_id, scope.user_id)
            and stayed.process.session_id == session_id
            and turn.last_entry is not None
            and stayed.binding.ends_at() == turn.last_entry
            and stayed.process.lives()
            and self._why_not(stayed) is None
        )

    async def _find(
        self, spec: AgentSpec, model: str, one_at_a_time: bool, max_turns: int, org_id: UUID | None
    ) -> _Shared:
        """One that this organisation used before, else one that nobody has used."""
        kind = _kind(spec, model, one_at_a_time, max_turns)
        until = time.monotonic() + WORTH_WAITING_SECONDS
        while True:
            self._drop_what_is_out_of_date(kind)
            for shared in reversed(self._idle):
                if shared.kind == kind and shared.org_id == org_id:
                    self._idle.remove(shared)
                    self._taken("used_before")
                    return shared
            soon = [task for one, task in self._clearing.items() if one.kind == kind and one.org_id == org_id]
            left = until - time.monotonic()
            if not soon or left <= 0:
                break
            await asyncio.wait(soon, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        self._count(spec, model, one_at_a_time, max_turns)
        for shared in self._spares:
            if shared.kind == kind:
                self._spares.remove(shared)
                self._taken("spare")
                return shared
        self._taken("new")
        return await self._connected(self._connect(kind))

    async def _connected(self, connects: Coroutine[Any, Any, _Shared]) -> _Shared:
        """What comes of connecting one; whoever gives up meanwhile is at work no more."""
        connecting: asyncio.Task[_Shared] = _apart(connects)
        try:
            return await connecting
        except BaseException:
            connecting.add_done_callback(self._unwanted)
            try:
                await asyncio.wait({connecting})
            finally:  # a second cancellation may come here
                self._left()
            raise

    def _unwanted(self, connecting: asyncio.Task[_Shared]) -> None:
        if not connecting.cancelled() and connecting.exception() is None:
            self._throw_away(connecting.result(), "run")

    def _taken(self, source: str) -> None:
        self._at_work += 1
        self._metrics.clis_taken.labels(source).inc()
        self._trim()
        self._changed.set()

    def _left(self) -> None:
        self._at_work -= 1
        self._tell()
        self._changed.set()

    async def _connect(self, kind: _Kind, work: RunHandlers | None = None, resumed: UUID | None = None) -> _Shared:
        """A new one; with `work` it goes on with a conversation of that run's."""
        session_id = resumed or uuid4()
        binding = RunBinding(session_id)
        if work is not None:
            binding.take(work)

        def options_in(folder: Path) -> ClaudeAgentOptions:
            return agent_options(
                kind.prompt,
                model=kind.model,
                service=self._service,
                folder=folder,
                server=tool_server(kind.toolset, binding.answer),
                hook=binding.hook,
                after=binding.after,
                sessions=binding,
                session_id=session_id,
                resumed=resumed is not None,
                max_turns=kind.max_turns,
                cpu_seconds=2 * self._seconds,  # see _why_not: there is enough for a run left when it begins
                on_stderr=log_stderr,
                shared=resumed is None,  # one that goes on with a conversation is never cleared
                several_calls=not kind.one_at_a_time,
            )

        process = Process(options_in, kind.toolset, session_id, COMMANDS if resumed is None else frozenset())
        try:
            await process.connect()
        except BaseException:
            await process.end(in_order=False)
            raise
        return _Shared(kind, process, binding)

    # Keeping them

    async def _clear(self, shared: _Shared) -> None:
        reason = "uncleared"
        try:
            reason = self._why_not(shared)
            if reason is None:
                reason = "uncleared"
                shared.binding.begin(await shared.process.clear())
                reason = "spoilt" if shared.binding.spoilt else None
        except Exception as error:  # noqa: BLE001  whatever it was, nobody gets this one
            log.warning("a CLI could not be cleared", error=type(error).__name__)
        finally:
            del self._clearing[shared]
            if reason is None:
                shared.since = time.monotonic()
                self._idle.append(shared)
            else:
                self._throw_away(shared, reason)
            self._trim()
            self._changed.set()

    def _why_not(self, shared: _Shared) -> str | None:
        """Why a CLI that lives is not to be used, as a metric's label."""
        if shared.binding.spoilt:
            return "spoilt"
        if shared.runs >= self._settings.runs:
            return "runs"
        if shared.process.memory_mb() > self._settings.max_mb:
            return "memory"
        if shared.process.cpu_seconds() > self._seconds:
            return "cpu"
        return None

    def _drop_what_is_out_of_date(self, kind: _Kind) -> None:
        for shared in [*self._idle, *self._spares]:
            alike = replace(shared.kind, prompt=kind.prompt, toolset=kind.toolset)
            changed = alike == kind != shared.kind
            reason = "changed" if changed else self._why_not(shared) if shared.process.lives() else "died"
            if reason is not None:
                self._throw_away(shared, reason)

    def _trim(self) -> None:
        """Keep no more than there is room for: spares before those that were used, the last used before others, and
        those of threads last."""
        room = max(0, self._settings.processes - self._at_work - len(self._clearing) - self._connecting)
        while len(self._spares) > room:
            self._throw_away(self._least_wanted(), "room")
        room -= max(len(self._spares), min(self._settings.spares - self._connecting, room))
        for shared in self._idle[: max(0, len(self._idle) - room)]:
            self._throw_away(shared, "room")
        room -= len(self._idle)
        for shared in list(self._threads.values())[: max(0, len(self._threads) - room)]:
            self._throw_away(shared, "room")
        self._tell()

    def _throw_away(self, shared: _Shared, reason: str) -> None:
        for among in (self._idle, self._spares):
            if shared in among:
                among.remove(shared)
        self._threads = {thread_id: one for thread_id, one in self._threads.items() if one is not shared}
        self._metrics.clis_ended.labels(reason).inc()
        task = _apart(shared.process.end(in_order=reason not in ("spoilt", "died", "uncleared")))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _tend(self) -> None:
        """Connect in advance, and end what nobody has used for long."""
        not_before = 0.0
        while True:
            self._changed.clear()
            for shared in list(self._idle):
                if time.monotonic() - shared.since > self._settings.idle_seconds:
                    self._throw_away(shared, "idle")
            for shared in list(self._threads.values()):
                if time.monotonic() - shared.since > self._settings.thread_seconds:
                    self._throw_away(shared, "idle")
            self._trim()
            try:
                if time.monotonic() >= not_before and await self._prepare():
                    continue
            except Exception as error:  # noqa: BLE001  runs connect their own, and say what is wrong
                log.warning("no CLI could be connected in advance", error=type(error).__name__)
                not_before = time.monotonic() + AGAIN_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()

    async def _prepare(self) -> bool:
        """Connect one in advance, of the kind that is wanted most beside those that are there; False if none is."""
        if not self._demand or not self._settings.spares:
            return False
        for known in self._demand.values():
            self._drop_what_is_out_of_date(known.kind)
        kind = max((one.kind for one in self._demand.values()), key=lambda one: self._wanted(one, 1))
        if len(self._spares) >= self._settings.spares:
            worst = self._least_wanted()
            if self._wanted(kind, 1) < WORTH_EXCHANGING * self._wanted(worst.kind):
                return False
            self._throw_away(worst, "demand")
        alive = self._at_work + len(self._clearing) + len(self._idle) + len(self._spares)
        if alive >= self._settings.processes:
            return False
        self._connecting += 1
        self._trim()
        try:
            shared = await self._connect(kind)
            try:
                # It need not be, but has then done everything once, which the first run would else wait for.
                shared.binding.begin(await shared.process.clear())
                if not shared.process.lives() or self._why_not(shared):
                    raise SandboxViolation(
                        "The CLI connected in advance is not fit for a run."
                    )  # nor is the next, most likely
            except BaseException:
                await shared.process.end(in_order=False)
                raise
        finally:
            self._connecting -= 1
        self._spares.append(shared)
        return True

    def _count(self, spec: AgentSpec, model: str, one_at_a_time: bool, max_turns: int) -> None:
        """Remember that a CLI was wanted, and what was wanted before a little less."""
        for known, demand in list(self._demand.items()):
            demand.weight *= REMEMBERED
            if demand.weight < LEAST_DEMAND:
                del self._demand[known]
        wanted = (spec.name, model, one_at_a_time, max_turns)
        before = self._demand.get(wanted)
        self._demand[wanted] = _Demand(spec, model, one_at_a_time, max_turns, 1 + (before.weight if before else 0))

    def _wanted(self, kind: _Kind, more: int = 0) -> float:
        """How much each spare of a kind is wanted, if there were so many more. The next spare goes to where that is
        most: so spares come to be in proportion to demand."""
        demand = self._demand.get((kind.agent, kind.model, kind.one_at_a_time, kind.max_turns))
        there = sum(shared.kind == kind for shared in self._spares) + more
        return 0 if demand is None else demand.weight / there

    def _least_wanted(self) -> _Shared:
        return min(self._spares, key=lambda shared: self._wanted(shared.kind))

    def _tell(self) -> None:
        self._metrics.live_clis.set(self._at_work)
        self._metrics.warm_clis.labels("idle").set(len(self._idle))
        self._metrics.warm_clis.labels("clearing").set(len(self._clearing))
        self._metrics.warm_clis.labels("spare").set(len(self._spares))
        self._metrics.warm_clis.labels("thread").set(len(self._threads))


@asynccontextmanager
async def of_its_own(
    options_in: Callable[[Path], ClaudeAgentOptions], work: RunHandlers, session_id: UUID
) -> AsyncGenerator[CliLease]:
    """A new CLI that is gone with the block, however that ends. `options_in(folder)` gives its options."""
    process = Process(options_in, work.executor.toolset, session_id)
    in_order = False
    try:
        await process.connect()
        yield CliLease(session_id, process, work.executor.check)
        in_order = True
    finally:
        await process.end(in_order)


def _kind(spec: AgentSpec, model: str, one_at_a_time: bool, max_turns: int) -> _Kind:
    return _Kind(spec.name, spec.prompt, spec.toolset, model, one_at_a_time, max_turns)


def _apart(action: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Do something in a context of its own, for what no single run is the cause of."""
    return asyncio.create_task(action, context=contextvars.Context())
