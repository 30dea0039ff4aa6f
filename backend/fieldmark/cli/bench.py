"""`fieldmark bench`: how many documents an hour this machine extracts, what limits it, and what to add."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import typer

from fieldmark.cli.files import print_json
from fieldmark.cli.process import CANNOT_WORK, LOCAL_USER, exit_with, read_settings, run
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import out, steps
from fieldmark.settings import Settings, processor_count

_WARM_UP: Final = 4
_COMMITS: Final = 20
_COMMITS_OF_A_DOCUMENT: Final = 50  # docs/performance.md
_BUSY: Final = 0.85  # of the processors, or of the concurrent runs: at its limit
_ENDED: Final = ("completed", "failed", "cancelled")
# Everything of the user's service is left out: the test has a home and a database of its own.
_LEFT_OUT: Final = (
    *("database_url", "database_direct_url", "database_owner_url", "supabase_url", "supabase_secret_key"),
    *("supabase_publishable_key", "supabase_jwt_secret", "files_url", "otel_endpoint"),
)
_MODEL: Final = ("anthropic_api_key", "anthropic_auth_token", "anthropic_base_url")


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What a load test found. `limit` is `cpu`, `runs_at_once` or `database`. With a model that takes `answer_seconds`,
    the machine would extract `expected_per_hour` documents."""

    documents: int
    seconds: float
    per_hour: int
    processors: int
    busy_processors: float | None
    runs_at_once: int
    busy_runs: float
    commit_ms: float
    limit: str
    answer_seconds: float
    expected_per_hour: int
    expected_limit: str


@command(without_user=True)
def bench(
    target: Target,
    documents: Annotated[int, typer.Option(min=5, max=10_000, help="Number of documents.")] = 40,
    answer_seconds: Annotated[
        float, typer.Option(min=0.1, max=600, help="How long your model takes for a document, to calculate with.")
    ] = 15,
    with_model: Annotated[
        bool, typer.Option("--with-model", help="Use the configured model (costs money), not the offline one.")
    ] = False,
) -> None:
    """Extract sample documents in a temporary database, and say how many this machine extracts in an hour, what limits
    it, and what to add."""
    settings = read_settings("error")
    if with_model and settings.offline:
        exit_with("--with-model needs a model: set ANTHROPIC_API_KEY.", CANNOT_WORK)
    left_out = _LEFT_OUT if with_model else _LEFT_OUT + _MODEL
    with tempfile.TemporaryDirectory(prefix="fieldmark-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # Postgres runs as a user of its own
        changes: dict[str, Any] = {"home": Path(folder), **dict.fromkeys(left_out)}
        found = run(_measure(settings.model_copy(update=changes), documents, answer_seconds))
    if not print_json(target, asdict(found)):
        _show(found)


async def _measure(settings: Settings, documents: int, answer_seconds: float) -> BenchResult:
    from fieldmark.cli.own_service import open_own_service
    from fieldmark.services.stacks import SAMPLE_FILES

    samples = sorted(SAMPLE_FILES.glob("*.pdf"))
    async with open_own_service(settings, LOCAL_USER, "extract") as (own, working):
        headers = {"Authorization": f"Bearer {own.token}"}
        async with (
            httpx.AsyncClient(transport=own.transport, base_url="http://bench", headers=headers, timeout=120) as http,
            working(),
        ):
            gate = asyncio.Semaphore(8)

            async def start(number: int) -> None:
                sample = samples[number % len(samples)]
                content = sample.read_bytes() + f"\n% {number}\n".encode()  # no two files are the same
                async with gate:
                    files = {"file": (f"{number}-{sample.name}", content)}
                    added = (await http.post("/api/documents", files=files)).raise_for_status().json()
                    body = {"document_id": added["id"], "wait": False}
                    (await http.post("/api/agent/extract", json=body)).raise_for_status()

            await asyncio.gather(*map(start, range(_WARM_UP)))
            await _ended_runs(http, _WARM_UP)
            steps().print(f"Extracting {documents} documents…")
            began, busy = time.monotonic(), _busy_seconds()
            await asyncio.gather(*map(start, range(_WARM_UP, _WARM_UP + documents)))
            runs = (await _ended_runs(http, _WARM_UP + documents))[:documents]
            seconds, after = time.monotonic() - began, _busy_seconds()
            commit_ms = await _commit_ms(http)
    if failed := [one for one in runs if one["status"] != "completed"]:
        exit_with(f"{len(failed)} of {documents} runs failed, the first with {failed[0]['error_code']}.", CANNOT_WORK)
    busy_processors = None if busy is None or after is None else (after - busy) / seconds
    in_runs = sum(_seconds(one) for one in runs)
    return _judge(settings, documents, seconds, busy_processors, in_runs, commit_ms, answer_seconds)


def _judge(
    settings: Settings,
    documents: int,
    seconds: float,
    busy_processors: float | None,
    in_runs: float,
    commit_ms: float,
    answer_seconds: float,
) -> BenchResult:
    processors, at_once = processor_count(), settings.max_live_agents
    per_hour = documents / seconds * 3600
    # A model's answer comes on top of what a run takes here; runs that wait for it use no processor.
    by_runs = at_once * 3600 / (answer_seconds + seconds / documents)
    by_database = 3600 * 1000 / (_COMMITS_OF_A_DOCUMENT * commit_ms) * settings.pool_size
    if busy_processors is not None and busy_processors >= _BUSY * processors:
        limit = "cpu"
    elif in_runs >= _BUSY * at_once * seconds:
        limit = "runs_at_once"
    else:
        limit = "database"
    expected, expected_limit = min((per_hour, limit), (by_runs, "runs_at_once"), (by_database, "database"))
    return BenchResult(
        documents=documents,
        seconds=round(seconds, 1),
        per_hour=round(per_hour),
        processors=processors,
        busy_processors=None if busy_processors is None else round(busy_processors, 1),
        runs_at_once=at_once,
        busy_runs=round(in_runs / seconds, 1),
        commit_ms=round(commit_ms, 1),
        limit=limit,
        answer_seconds=answer_seconds,
        expected_per_hour=round(expected),
        expected_limit=expected_limit,
    )


_ADVICE: Final = {
    "cpu": "The processors are the limit: add cores, or workers on other machines (docs/scale.md).",
    "runs_at_once": "The number of concurrent runs is the limit: raise FIELDMARK_MAX_LIVE_AGENTS (300 MB of memory "
    "each), or add workers on other machines (docs/scale.md).",
    "database": "Waiting for the database or its disk is the limit: put Postgres on a faster disk or its own machine.",
}


def _show(found: BenchResult) -> None:
    busy = "" if found.busy_processors is None else f"{found.busy_processors} of {found.processors} processors busy "
    lines = (
        f"{found.documents} documents in {found.seconds} s: {found.per_hour:,} an hour if the model answers at once.",
        f"  {busy}(with all programs of this machine), {found.busy_runs} of {found.runs_at_once} runs at once, "
        f"{found.commit_ms} ms for a write with its commit.",
        f"  {_ADVICE[found.limit]}",
        f"With a model that takes {found.answer_seconds:g} s for a document: {found.expected_per_hour:,} an hour.",
        f"  {_ADVICE[found.expected_limit]}",
    )
    for line in lines:
        out.print(line, soft_wrap=True)


async def _ended_runs(http: httpx.AsyncClient, count: int) -> list[dict[str, Any]]:
    """Wait until all of `count` runs have ended, and return them, newest first."""
    while True:
        runs: list[dict[str, Any]] = []
        before: str | None = None
        while True:
            query = {"limit": "200", **({} if before is None else {"before": before})}
            page = (await http.get("/api/runs", params=query)).raise_for_status().json()
            runs, before = runs + page["items"], page["next"]
            if before is None:
                break
        if len(runs) == count and all(one["status"] in _ENDED for one in runs):
            return runs
        await asyncio.sleep(0.2)


async def _commit_ms(http: httpx.AsyncClient) -> float:
    """Return the median milliseconds of a small request that writes."""
    times: list[float] = []
    for number in range(_COMMITS):
        began = time.monotonic()
        (await http.post("/api/tags", json={"name": f"bench {number}"})).raise_for_status()
        times.append(time.monotonic() - began)
    return statistics.median(times) * 1000


def _seconds(one: dict[str, Any]) -> float:
    return (datetime.fromisoformat(one["finished_at"]) - datetime.fromisoformat(one["started_at"])).total_seconds()


def _busy_seconds() -> float | None:
    """Return the processor seconds that this machine has used so far, with all its programs. None: not on Linux."""
    try:
        fields = [int(one) for one in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, _steal = fields
    return (user + nice + system + irq + softirq) / 100
