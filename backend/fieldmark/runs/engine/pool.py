"""The pool of CLI processes. Lends a CLI that the organisation used before, a spare, or a new one."""

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
from fieldmark.runs.engine.process import CliProcess
from fieldmark.runs.engine.start_gate import StartGate, StartRank
from fieldmark.telemetry.metrics import Metrics

log = structlog.get_logger()

MAINTENANCE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Limits of the pool. `processes` is the total number of CLIs, including those in use; `spares` of them are
    connected in advance, and replaced when they are used if `replaces_spares`. With 0 processes, each CLI ends with its
    run. `starts` limits concurrent starts. A CLI is ended after `runs` runs, after `idle_seconds` without a run, or
    above `max_mb` of memory. `busy` is the number of runs that the processors serve well, without those that wait for
    the model."""

    processes: int = 0
    spares: int = 0
    replaces_spares: bool = True
    runs: int = 50
    idle_seconds: float = 300
    max_mb: int = 400
    starts: int = field(default_factory=lambda: os.cpu_count() or 1)
    busy: int = field(default_factory=lambda: (os.cpu_count() or 1) + 1)


@dataclass(eq=False, slots=True)
class _Lease:
    """A run that has a CLI, or waits for one."""

    rank: StartRank
    cli: CliProcess | None = None

    @property
    def waits_for_model(self) -> bool:
        return self.cli is not None and self.cli.binding.waits_for_model


class CliPool:
    """Lends CLIs to runs, and reuses them while the pool is open. A worker has one pool.

    `seconds` is the time limit of a run. `initial_kind` is the kind of the first spares, before any run has requested a
    CLI. `max_active` is the number of runs that the worker executes at a time. `second` is the service of the agents
    that use the second model."""

    def __init__(
        self,
        service: ModelService,
        *,
        seconds: int,
        settings: PoolSettings | None = None,
        initial_kind: CliKind | None = None,
        metrics: Metrics | None = None,
        max_active: int = 1,
        second: ModelService | None = None,
    ) -> None:
        self._service = service
        self._second = second
        self._seconds = seconds
        self._settings = settings or PoolSettings()
        self._metrics = metrics or Metrics()
        self._max_active = max_active
        self._leases: list[_Lease] = []
        self._available: list[CliProcess] = []  # in order of idle time, longest first; spares have no organisation
        self._initial_kind = initial_kind
        # The kinds that runs requested most recently without finding a used CLI.
        self._requested: deque[CliKind] = deque(maxlen=2 * self._settings.spares * self._settings.replaces_spares)
        self._ending: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._is_open = False
        self._gate = StartGate(self._settings.starts)
        self._metrics.live_clis.set_function(lambda: self._active)
        self._metrics.warm_clis.labels("idle").set_function(lambda: len(self._available) - len(self._spares))
        self._metrics.warm_clis.labels("spare").set_function(lambda: sum(cli.clearing.done() for cli in self._spares))

    async def __aenter__(self) -> Self:
        self._is_open = self._settings.processes > 0
        self._maintenance = asyncio.create_task(self._maintain())
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._is_open = False
        self._maintenance.cancel()
        await asyncio.wait({self._maintenance})
        for cli in list(self._available):
            self._retire(cli, "closed")
        while self._ending:
            await asyncio.wait(self._ending)

    @property
    def _active(self) -> int:
        return len(self._leases)

    @property
    def background_slots(self) -> int:
        """How many background runs may be executed now: as many as the processors serve beside the interactive runs,
        but at least one, and another for each that waits for the model.

        More would not be faster: a CLI that rests between its runs needs more processor time for each."""
        busy = sum(one.rank is StartRank.INTERACTIVE and not one.waits_for_model for one in self._leases)
        waiting = sum(one.rank is StartRank.BACKGROUND and one.waits_for_model for one in self._leases)
        return waiting + max(1, self._settings.busy - busy)

    @property
    def has_free_slot(self) -> bool:
        """Whether another run could be executed now."""
        return self._active < self._max_active

    @asynccontextmanager
    async def acquire(
        self,
        spec: AgentSpec,
        scope: Scope,
        handlers: RunHandlers,
        *,
        model: str,
        max_turns: int,
        session_id: UUID,
        resumed: bool = False,
        one_at_a_time: bool = False,
    ) -> AsyncGenerator[CliProcess]:
        """Lend a connected CLI to one run. A reused CLI has another `session_id` than the requested one.

        With `resumed`, a new CLI continues the stored conversation. A CLI is reused only if its run completed, only by
        the same organisation, and only after its conversation was cleared."""
        kind = CliKind.of(spec, model, max_turns, one_at_a_time)
        if not self._settings.replaces_spares:
            self._initial_kind = None
        lease = _Lease(handlers.rank)
        self._leases.append(lease)
        try:
            cli, source = await self._acquire(kind, scope, handlers, session_id, resumed)
            has_completed = False
            try:
                self._metrics.clis_taken.labels(source).inc()
                self._changed.set()
                cli.org_id = scope.org_id
                cli.runs += 1
                cli.binding.attach(handlers)
                cli.binding.hear()
                lease.cli = cli
                yield cli
                has_completed = True
            finally:
                lease.cli = None
                cli.binding.detach()
                await self._return(cli, has_completed)
        finally:
            self._leases.remove(lease)
            self._changed.set()

    async def _acquire(
        self, kind: CliKind, scope: Scope, handlers: RunHandlers, session_id: UUID, resumed: bool
    ) -> tuple[CliProcess, str]:
        """Return a CLI, and its source as a metric label."""
        if resumed:
            async with self._gate.slot(handlers.rank, scope.org_id):
                cli = self._make(kind, session_id, resumed_by=handlers)
                await self._connect(cli)
                return cli, "new"
        if (used := await self._take_available(kind, scope.org_id)) is not None:
            return used, "used_before"
        self._requested.append(kind)
        if (spare := await self._take_available(kind)) is not None:
            return spare, "spare"
        async with self._gate.slot(handlers.rank, scope.org_id):
            # While this run waited, another run may have returned its CLI, or a spare may have been connected.
            if (used := await self._take_available(kind, scope.org_id)) is not None:
                return used, "used_before"
            if (spare := await self._take_available(kind)) is not None:
                return spare, "spare"
            cli = self._make(kind, session_id)
            await self._connect(cli)
            return cli, "new"

    async def _take_available(self, kind: CliKind, org_id: UUID | None = None) -> CliProcess | None:
        """Return the most recently used available CLI of this kind and organisation. Without an organisation, return a
        spare."""
        while found := [cli for cli in self._available if (cli.kind, cli.org_id) == (kind, org_id)]:
            cli = max(reversed(found), key=lambda one: one.clearing.done())
            self._available.remove(cli)
            reason: str | None = "run"
            try:
                reason = await asyncio.shield(cli.clearing) or self._retire_reason(cli)
            finally:
                if reason is not None:
                    self._retire(cli, reason)
            if reason is None:
                return cli
        return None

    def _make(self, kind: CliKind, session_id: UUID, *, resumed_by: RunHandlers | None = None) -> CliProcess:
        """Return a new CLI to connect. With `resumed_by`, it continues the stored conversation of that run."""
        self._trim()
        binding = RunBinding(session_id)
        is_clearable = self._is_open and resumed_by is None
        if resumed_by is not None:
            binding.attach(resumed_by)
        options_in = partial(
            agent_options,
            kind,
            binding,
            service=self._second or self._service if kind.uses_second_model else self._service,
            cpu_seconds=(2 if self._is_open else 1) * self._seconds,  # enough for its last run: see _retire_reason
            resumed=resumed_by is not None,
            is_clearable=is_clearable,
        )
        return CliProcess(options_in, kind, binding, is_clearable)

    async def _connect(self, cli: CliProcess) -> None:
        try:
            await cli.connect()
        except BaseException:
            await cli.end(gracefully=False)
            raise

    async def _return(self, cli: CliProcess, has_completed: bool) -> None:
        """Keep the CLI for reuse if its run completed, otherwise end it."""
        if not (has_completed and cli.has_completed):
            reason = "run"
        elif not (self._is_open and cli.is_clearable):
            reason = "room"
        else:
            reason = self._retire_reason(cli)
        if reason is None:
            self._add(cli)
        else:
            self._metrics.clis_ended.labels(reason).inc()
            await cli.end(gracefully=has_completed)

    def _add(self, cli: CliProcess, *, is_connected: bool = True) -> None:
        cli.idle_since = time.monotonic()
        cli.clearing = asyncio.create_task(self._clear(cli, is_connected))
        self._available.append(cli)

    async def _clear(self, cli: CliProcess, is_connected: bool) -> str | None:
        """Connect a CLI, and clear its conversation. Return the reason if it can't be used, as a metric label."""
        try:
            if not is_connected:
                await cli.connect()
            await cli.clear()
            return self._retire_reason(cli)
        except Exception as error:  # noqa: BLE001  after any error the CLI is not used; runs report their own errors
            log.warning("a CLI could not be prepared for a run", error=type(error).__name__)
            return "uncleared"

    def _retire_reason(self, cli: CliProcess) -> str | None:
        settings = self._settings
        return cli.retire_reason(runs=settings.runs, max_mb=settings.max_mb, cpu_seconds=self._seconds)

    def _retire(self, cli: CliProcess, reason: str) -> None:
        """End an available CLI, in the background."""
        self._available = [one for one in self._available if one is not cli]
        self._metrics.clis_ended.labels(reason).inc()
        gracefully = cli.clearing.done() and reason not in ("tainted", "died", "uncleared")
        cli.clearing.cancel()
        ending = asyncio.create_task(self._end(cli, gracefully), context=contextvars.Context())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _end(self, cli: CliProcess, gracefully: bool) -> None:
        await asyncio.wait({cli.clearing})  # it may have been connecting
        await cli.end(gracefully)

    @property
    def _spares(self) -> list[CliProcess]:
        return [cli for cli in self._available if cli.org_id is None]

    def _trim(self) -> None:
        """End CLIs above the limit: those that are idle the longest first, spares last."""
        room = max(0, self._settings.processes - self._active)
        used = [cli for cli in self._available if cli.org_id is not None]
        surplus = max(0, len(used) - max(0, room - self._settings.spares))
        for cli in [*used[:surplus], *self._spares[room:]]:
            self._retire(cli, "room")

    async def _maintain(self) -> None:
        """Repeatedly end CLIs that are idle too long or could not be cleared, and connect spares."""
        while True:
            self._changed.clear()
            for cli in list(self._available):
                failed = cli.clearing.result() if cli.clearing.done() else None
                is_expired = cli.org_id is not None and time.monotonic() - cli.idle_since > self._settings.idle_seconds
                if failed is not None or is_expired:
                    self._retire(cli, failed or "idle")
                if failed is not None and cli.org_id is None:
                    self._stop_adding_spares()
            self._trim()
            if (kind := self._next_spare()) is not None:
                async with self._gate.slot(StartRank.SPARE):
                    # Available at once: a run waits for it rather than starting another CLI beside it.
                    self._add(cli := self._make(kind, uuid4()), is_connected=False)
                    await asyncio.wait({cli.clearing})
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MAINTENANCE_SECONDS):
                    await self._changed.wait()

    def _stop_adding_spares(self) -> None:
        """Connect no spare until a run requests a CLI: another spare would probably fail as well."""
        self._initial_kind = None
        self._requested.clear()

    def _next_spare(self) -> CliKind | None:
        """Return the kind of the next spare to connect: the most recently requested kind without a spare, else the most
        recently requested. End spares of kinds that were not requested recently."""
        requested = list(self._requested) or [kind for kind in (self._initial_kind,) if kind is not None]
        for cli in self._spares:
            if cli.kind not in requested:
                self._retire(cli, "room")
        room = min(self._settings.spares, self._settings.processes - self._active)
        existing = [cli.kind for cli in self._spares]
        if len(existing) >= room or not requested:
            return None
        return next((kind for kind in reversed(requested) if kind not in existing), requested[-1])
