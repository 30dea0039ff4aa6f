"""CLIs that live on between runs, and runs on them, for tests."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil
from claude_agent_sdk import Message
from prometheus_client.parser import text_string_to_metric_families

from desk import Desk, Worked, handlers_of, home_of
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.agents.spec import AgentSpec
from fieldmark.db.pool import Connection
from fieldmark.offline_model.messages import Body
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.engine.options import CliKind, ModelService
from fieldmark.runs.engine.pool import CliPool, PoolSettings
from fieldmark.runs.engine.process import Process
from fieldmark.runs.run import Runner
from fieldmark.telemetry.metrics import Metrics
from fieldmark.tools.toolset import Action, ToolResult
from living import clis

MODEL = "claude-sonnet-5"


async def _no_call(conn: Connection, value: Any) -> ToolResult:
    """What another agent's tools do on an extraction's run: nothing is asked of them."""
    raise AssertionError(value)


@dataclass(frozen=True)
class Kept:
    """What keeps them, and the model they ask."""

    model: OfflineModel
    pool: CliPool
    metrics: Metrics
    max_turns: int
    seconds: int

    async def work(self, desk: Desk, run_id: UUID | None = None, **columns: Any) -> Worked:
        """A run from its queueing to its end, and what the model was sent meanwhile."""
        run_id = run_id or await desk.run(**columns)
        before = len(self.model.requests)
        limits = {"max_turns": self.max_turns, "seconds": self.seconds}
        await Runner(desk.database, self.pool, model=MODEL, metrics=self.metrics, **limits).execute(run_id)
        return Worked(desk, run_id, self.model.requests[before:])

    async def talk(self, desk: Desk, prompt: str, *, spec: AgentSpec = EXTRACTION, **options: Any) -> Talk:
        """A conversation with a CLI as a run has it, without the run."""
        before = len(self.model.requests)
        async with self.acquired(desk, spec=spec, **options) as client:
            messages = [message async for message in client.converse(prompt)]
        return Talk(messages, self.model.requests[before:])

    @asynccontextmanager
    async def acquired(self, desk: Desk, *, spec: AgentSpec = EXTRACTION, **options: Any) -> AsyncIterator[Process]:
        """A CLI as a run has it."""
        desk = await desk.beside()
        context = await desk.context()
        declared = spec.toolset.bind(**dict.fromkeys(spec.toolset.tools, Action(_no_call)))
        tools = spec.create_tools(context) if spec is EXTRACTION else declared
        _, work = handlers_of(desk, tools, context)
        chosen = {"model": MODEL, "max_turns": self.max_turns, "session_id": uuid4(), **options}
        async with self.pool.acquire(spec, desk.scope, work, **chosen) as client:
            yield client

    def counted(self) -> dict[tuple[str, ...], float]:
        """{(name, label …): value} of what is told of CLIs."""
        families = text_string_to_metric_families(self.metrics.text().decode())
        samples = [sample for family in families for sample in family.samples]
        return {
            (sample.name.removeprefix("fieldmark_"), *sample.labels.values()): sample.value
            for sample in samples
            if "clis" in sample.name and not sample.name.endswith("_created")
        }

    @property
    def taken(self) -> dict[str, float]:
        """How often a run got a CLI from where, of the sources that gave one at all."""
        return {key[1]: count for key, count in self.counted().items() if key[0] == "clis_taken_total" and count}

    @property
    def ended(self) -> dict[str, float]:
        """How many CLIs ended, by reason."""
        return {key[1]: count for key, count in self.counted().items() if key[0] == "clis_ended_total" and count}


@dataclass(frozen=True)
class Talk:
    messages: list[Message]
    requests: list[Body]


@asynccontextmanager
async def kept(answer: Any, *, seconds: int = 300, max_turns: int = 50, **chosen: Any) -> AsyncIterator[Kept]:
    """Up to three CLIs that live on, none of them in advance, if `chosen` says nothing else."""
    metrics = Metrics()
    async with OfflineModel(answer) as model:
        service = ModelService(model.base_url, "test-key", None)
        pool = CliPool(
            service,
            seconds=seconds,
            settings=PoolSettings(**{"processes": 3, "spares": 0, **chosen}),
            first=CliKind.of(EXTRACTION, MODEL, max_turns),
            metrics=metrics,
        )
        async with pool:
            yield Kept(model, pool, metrics, max_turns, seconds)


def the_cli() -> psutil.Process:
    """The only one alive."""
    (found,) = clis()
    return found


def lies_in(cli: psutil.Process) -> str:
    """All that is written in its folder."""
    found: list[str] = []
    for folder, _, names in os.walk(home_of(cli)):  # it passes over what is gone meanwhile
        for path in (Path(folder, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    found.append(f"{path}\n{path.read_text(errors='replace')}")
    return "\n".join(found)


def prefix(request: Body) -> str:
    """What comes first in a request, as it is sent: tools, then the system's prompt."""
    return json.dumps([request["tools"], request["system"]], ensure_ascii=False)


def in_folder(folder: Path, spec: AgentSpec = EXTRACTION) -> None:
    """Copy an agent's texts."""
    for path in spec.briefs.glob("*.md"):
        (folder / path.name).write_text(path.read_text())
