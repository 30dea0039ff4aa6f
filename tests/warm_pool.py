"""A pool of warm CLI processes, and runs that use them."""

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

from child_processes import cli_processes
from extraction_case import ExtractionCase, FinishedRun, home_folder, run_handlers
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.agents.spec import AgentSpec
from fieldmark.db.pool import Connection
from fieldmark.offline_model.messages import Body
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.engine.options import CliKind, ModelService
from fieldmark.runs.engine.pool import CliPool, PoolSettings
from fieldmark.runs.engine.process import CliProcess
from fieldmark.runs.run import Runner
from fieldmark.telemetry.metrics import Metrics
from fieldmark.tools.toolset import Action, RunTools, ToolResult

MODEL = "claude-sonnet-5"


async def _no_call(conn: Connection, value: Any) -> ToolResult:
    """A tool body that must not be called."""
    raise AssertionError(value)


@dataclass(frozen=True)
class WarmPool:
    """A CLI pool, its metrics, and the model its CLIs use."""

    model: OfflineModel
    pool: CliPool
    metrics: Metrics
    max_turns: int
    seconds: int

    async def execute_run(self, case: ExtractionCase, run_id: UUID | None = None, **columns: Any) -> FinishedRun:
        """Execute a run to its end with a CLI of the pool."""
        run_id = run_id or await case.queue_run(**columns)
        before = len(self.model.requests)
        limits = {"max_turns": self.max_turns, "seconds": self.seconds}
        await Runner(case.database, self.pool, model=MODEL, metrics=self.metrics, **limits).execute(run_id)
        return FinishedRun(case, run_id, self.model.requests[before:])

    async def talk(self, case: ExtractionCase, prompt: str, *, spec: AgentSpec = EXTRACTION, **options: Any) -> CliTalk:
        """Send a prompt to a CLI of the pool, without a run."""
        before = len(self.model.requests)
        async with self.acquire(case, spec=spec, **options) as client:
            messages = [message async for message in client.converse(prompt)]
        return CliTalk(messages, self.model.requests[before:])

    @asynccontextmanager
    async def acquire(
        self, case: ExtractionCase, *, spec: AgentSpec = EXTRACTION, **options: Any
    ) -> AsyncIterator[CliProcess]:
        """Acquire a CLI from the pool, as a run does."""
        case = await case.another_extraction()
        context = await case.context()
        declared = RunTools(spec.toolset.tools, dict.fromkeys(spec.toolset.tools, Action(_no_call)))
        tools = spec.create_tools(context) if spec is EXTRACTION else declared
        _, work = run_handlers(case, tools, context)
        chosen = {"model": MODEL, "max_turns": self.max_turns, "session_id": uuid4(), **options}
        async with self.pool.acquire(spec, case.scope, work, **chosen) as client:
            yield client

    def cli_metrics(self) -> dict[tuple[str, ...], float]:
        """Return the CLI metrics as {(name, label …): value}."""
        families = text_string_to_metric_families(self.metrics.text().decode())
        samples = [sample for family in families for sample in family.samples]
        return {
            (sample.name.removeprefix("fieldmark_"), *sample.labels.values()): sample.value
            for sample in samples
            if "clis" in sample.name and not sample.name.endswith("_created")
        }

    @property
    def cli_sources(self) -> dict[str, float]:
        """Number of acquired CLIs by source; sources with 0 are left out."""
        return {key[1]: count for key, count in self.cli_metrics().items() if key[0] == "clis_taken_total" and count}

    @property
    def end_reasons(self) -> dict[str, float]:
        """Number of ended CLIs by reason."""
        return {key[1]: count for key, count in self.cli_metrics().items() if key[0] == "clis_ended_total" and count}


@dataclass(frozen=True)
class CliTalk:
    messages: list[Message]
    requests: list[Body]


@asynccontextmanager
async def warm_pool(
    answer: Any, *, seconds: int = 300, max_turns: int = 50, **pool_settings: Any
) -> AsyncIterator[WarmPool]:
    """Open a pool of up to 3 CLIs without spares; `pool_settings` overrides fields of PoolSettings."""
    metrics = Metrics()
    async with OfflineModel(answer) as model:
        service = ModelService(model.base_url, "test-key", None)
        pool = CliPool(
            service,
            seconds=seconds,
            settings=PoolSettings(**{"processes": 3, "spares": 0, **pool_settings}),
            initial_kind=CliKind.of(EXTRACTION, MODEL, max_turns),
            metrics=metrics,
        )
        async with pool:
            yield WarmPool(model, pool, metrics, max_turns, seconds)


def only_cli() -> psutil.Process:
    (found,) = cli_processes()
    return found


def text_in_home(cli: psutil.Process) -> str:
    """Return the text of all files in the CLI's home folder."""
    found: list[str] = []
    for folder, _, names in os.walk(home_folder(cli)):  # files may disappear meanwhile
        for path in (Path(folder, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    found.append(f"{path}\n{path.read_text(errors='replace')}")
    return "\n".join(found)


def request_prefix(request: Body) -> str:
    """Return the part of a request that prompt caching covers: the tools and the system prompt."""
    return json.dumps([request["tools"], request["system"]], ensure_ascii=False)


def copy_briefs(folder: Path, spec: AgentSpec = EXTRACTION) -> None:
    """Copy an agent's prompt files to a folder."""
    for path in spec.briefs.glob("*.md"):
        (folder / path.name).write_text(path.read_text())
