"""Hands out CLIs: one that the organisation used before, a spare, or a new one."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Self
from uuid import UUID, uuid4

import structlog

from fieldmark.agents.spec import AgentSpec
from fieldmark.identity.scope import Scope
from fieldmark.runs.engine.binding import RunBinding, RunHandlers
from fieldmark.runs.engine.options import CliKind, ModelService, agent_options
from fieldmark.runs.engine.process import Process
from fieldmark.runs.engine.start_gate import StartGate, StartRank
from fieldmark.telemetry.metrics import Metrics

log = structlog.get_logger()

LOOK_SECONDS = 5


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """How many CLIs the pool keeps alive: `processes` in all, those at work included, and `spares` of them connected
    before a run asks. With 0 processes, no CLI outlives its run. At most `starts` of them start at a time."""

    processes: int = 0
    spares: int = 0
    runs: int = 50
    idle_seconds: float = 300
    max_mb: int = 400
    starts: int = field(default_factory=lambda: os.cpu_count() or 1)


class CliPool:
    """Hands out CLIs, and keeps them for later runs while it is open. One pool serves a whole worker.

    `seconds` is how long a run may take. A CLI of the kind `first` is connected before any run has asked for one."""

    def __init__(
        self,
        service: ModelService,
        *,
        seconds: int,
        settings: PoolSettings | None = None,
        first: CliKind | None = None,
        metrics: Metrics | None = None,
        most_at_work: int = 1,
    ) -> None:
        self._service = service
        self._seconds = seconds
        self._settings = settings or PoolSettings()
        self._metrics = metrics or Metrics()
        self._most_at_work = most_at_work
        self._at_work = 0
        self._kept: list[Process] = []  # the longest idle first; spares have no organisation
        self._first = first
        # The kinds that runs asked for last and found no used CLI of.
        self._wanted: deque[CliKind] = deque(maxlen=2 * self._settings.spares)
        self._ending: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._is_open = False
        self._gate = StartGate(self._settings.starts)
        self._metrics.live_clis.set_function(lambda: self._at_work)
        self._metrics.warm_clis.labels("idle").set_function(lambda: len(self._kept) - len(self._spares))
        self._metrics.warm_clis.labels("spare").set_function(lambda: sum(cli.clearing.done() for cli in self._spares))

    async def __aenter__(self) -> Self:
        self._is_open = self._settings.processes > 0
        self._keeper = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._is_open = False
        self._keeper.cancel()
        await asyncio.wait({self._keeper})
        for cli in list(self._kept):
            self._retire(cli, "closed")
        while self._ending:
            await asyncio.wait(self._ending)

    @property
    def has_free_slot(self) -> bool:
        """Whether one more run could be at work."""
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
        one_at_a_time: bool = False,
    ) -> AsyncGenerator[Process]:
        """Lend a connected CLI to one run. Its `session_id` need not be the one asked for.

        With `resumed` the stored conversation goes on in a new CLI. A CLI is kept only after a run that completed, and
        cleared before another run of the organisation gets it."""
        kind = CliKind.of(spec, model, max_turns, one_at_a_time)
        self._at_work += 1
        try:
            cli, source = await self._take(kind, scope, work, session_id, resumed)
            has_completed = False
            try:
                self._metrics.clis_taken.labels(source).inc()
                self._changed.set()
                cli.org_id = scope.org_id
                cli.runs += 1
                cli.binding.take(work)
                yield cli
                has_completed = True
            finally:
                cli.binding.leave()
                await self._give_back(cli, has_completed)
        finally:
            self._at_work -= 1
            self._changed.set()

    async def _take(
        self, kind: CliKind, scope: Scope, work: RunHandlers, session_id: UUID, resumed: bool
    ) -> tuple[Process, str]:
        """Return a CLI, and where it comes from as a metric's label."""
        if resumed:
            async with self._gate.place(work.rank, scope.org_id):
                return await self._connect(kind, session_id, resumed_by=work), "new"
        if (used := await self._take_kept(kind, scope.org_id)) is not None:
            return used, "used_before"
        self._wanted.append(kind)
        if (spare := await self._take_kept(kind)) is not None:
            return spare, "spare"
        async with self._gate.place(work.rank, scope.org_id):
            # Meanwhile another run may have left its CLI, or a spare have been connected.
            if (used := await self._take_kept(kind, scope.org_id)) is not None:
                return used, "used_before"
            if (spare := await self._take_kept(kind)) is not None:
                return spare, "spare"
            return await self._connect(kind, session_id), "new"

    async def _take_kept(self, kind: CliKind, org_id: UUID | None = None) -> Process | None:
        """Return the kept CLI that was used last of those of this kind and organisation."""
        while found := [cli for cli in self._kept if (cli.kind, cli.org_id) == (kind, org_id)]:
            cli = max(reversed(found), key=lambda one: one.clearing.done())
            self._kept.remove(cli)
            reason: str | None = "run"
            try:
                reason = await asyncio.shield(cli.clearing) or self._retire_reason(cli)
            finally:
                if reason is not None:
                    self._retire(cli, reason)
            if reason is None:
                return cli
        return None

    async def _connect(self, kind: CliKind, session_id: UUID, *, resumed_by: RunHandlers | None = None) -> Process:
        """Return a new CLI; one that is `resumed_by` a run goes on with the conversation that the run has stored."""
        self._trim()
        binding = RunBinding(session_id)
        is_clearable = self._is_open and resumed_by is None
        if resumed_by is not None:
            binding.take(resumed_by)
        options_in = partial(
            agent_options,
            kind,
            binding,
            service=self._service,
            cpu_seconds=(2 if self._is_open else 1) * self._seconds,  # enough for the last run: see _retire_reason
            resumed=resumed_by is not None,
            is_clearable=is_clearable,
        )
        cli = Process(options_in, kind, binding, is_clearable)
        try:
            await cli.connect()
        except BaseException:
            await cli.end(in_order=False)
            raise
        return cli

    async def _give_back(self, cli: Process, has_completed: bool) -> None:
        """Keep the CLI if its run completed and it may serve another; else end it."""
        if not (has_completed and cli.ended_well):
            reason = "run"
        elif not (self._is_open and cli.is_clearable):
            reason = "room"
        else:
            reason = self._retire_reason(cli)
        if reason is None:
            self._add(cli)
        else:
            self._metrics.clis_ended.labels(reason).inc()
            await cli.end(in_order=has_completed)

    def _add(self, cli: Process) -> None:
        cli.idle_since = time.monotonic()
        cli.clearing = asyncio.create_task(self._clear(cli))
        self._kept.append(cli)

    async def _clear(self, cli: Process) -> str | None:
        """Clear a CLI; return why it must not be used, as a metric's label."""
        try:
            await cli.clear()
            return self._retire_reason(cli)
        except Exception as error:  # noqa: BLE001  whatever it was, no run gets this CLI
            log.warning("a CLI could not be cleared", error=type(error).__name__)
            return "uncleared"

    def _retire_reason(self, cli: Process) -> str | None:
        settings = self._settings
        return cli.worn_out(runs=settings.runs, max_mb=settings.max_mb, cpu_seconds=self._seconds)

    def _retire(self, cli: Process, reason: str) -> None:
        """End a CLI that no run has."""
        self._kept = [one for one in self._kept if one is not cli]
        self._metrics.clis_ended.labels(reason).inc()
        in_order = cli.clearing.done() and reason not in ("spoilt", "died", "uncleared")
        cli.clearing.cancel()
        ending = asyncio.create_task(cli.end(in_order), context=contextvars.Context())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    @property
    def _spares(self) -> list[Process]:
        return [cli for cli in self._kept if cli.org_id is None]

    def _trim(self) -> None:
        """End what there is no room for beside the runs at work: the longest idle first, and spares last."""
        room = max(0, self._settings.processes - self._at_work)
        used = [cli for cli in self._kept if cli.org_id is not None]
        surplus = max(0, len(used) - max(0, room - self._settings.spares))
        for cli in [*used[:surplus], *self._spares[room:]]:
            self._retire(cli, "room")

    async def _keep(self) -> None:
        """End what is idle for long or could not be cleared, and connect spares."""
        while True:
            self._changed.clear()
            for cli in list(self._kept):
                failed = cli.clearing.result() if cli.clearing.done() else None
                is_over = cli.org_id is not None and time.monotonic() - cli.idle_since > self._settings.idle_seconds
                if failed is not None or is_over:
                    self._retire(cli, failed or "idle")
                if failed is not None and cli.org_id is None:
                    self._want_none()
            self._trim()
            if (kind := self._next_spare()) is not None:
                try:
                    async with self._gate.place(StartRank.SPARE):
                        self._add(await self._connect(kind, uuid4()))
                    continue
                except Exception as error:  # noqa: BLE001  runs connect their own, and say what is wrong
                    log.warning("no CLI could be connected in advance", error=type(error).__name__)
                    self._want_none()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()

    def _want_none(self) -> None:
        """Connect no spare until a run asks for a CLI: the next one would most likely fail as the last did."""
        self._first = None
        self._wanted.clear()

    def _next_spare(self) -> CliKind | None:
        """Return the kind of the next spare to connect: the last wanted that has none, else the last wanted. A spare of
        a kind that was not wanted lately gives way."""
        wanted = list(self._wanted) or [kind for kind in (self._first,) if kind is not None]
        for cli in self._spares:
            if cli.kind not in wanted:
                self._retire(cli, "room")
        room = min(self._settings.spares, self._settings.processes - self._at_work)
        there = [cli.kind for cli in self._spares]
        if len(there) >= room or not wanted:
            return None
        return next((kind for kind in reversed(wanted) if kind not in there), wanted[-1])
