"""Measures cost and duration of extractions, with a simulated model as fast as a real one (bench/simulated_model.py).

    pip install '.[bench]' && python bench/extraction.py [tokens | pace | soak | latency | compare | remote]

    tokens   tokens, price and duration of a run, interleaved with plain API calls that force one tool
    pace     many concurrent runs: throughput relative to the model's speed, with cold agent processes at the start
    soak     a batch of two organisations without model delay: documents per minute, and resources per document
    latency  times of the events of one run; the first run of an organisation while another has 60 runs
    compare  an extraction interleaved with a plain ClaudeSDKClient and a plain loop: duration, CPU, peak memory
    remote   statements and round trips to a database 2 ms away, and durations, without model delay

The default is a short run of all parts. Token counts are characters / 4.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import psutil
import psycopg

from delayed_database import delayed_database
from processes import (
    ProcessTreeUsage,
    Service,
    child,
    cpu_by_process,
    postmaster,
    read_line,
    restore_signals,
    service,
)
from simulated_model import (
    FIELDS,
    INVOICE,
    SCHEMA,
    SimulatedModel,
    ask,
    extract_all,
    extract_and_time,
    invoices,
    model_and_home,
    upload_invoices,
)

INPUT_DOLLARS, OUTPUT_DOLLARS = 2e-6, 10e-6  # per token, list price of Sonnet 5
CACHE_READ, CACHE_WRITE = 0.1, 1.25  # factors of the input price
MODEL = "claude-sonnet-5"


def duration_percentiles(runs: Sequence[dict[str, Any]], start: str, end: str) -> str:
    """Return the p50 and p95 of the seconds between two times of each run."""
    seconds = sorted(run[end] - run[start] for run in runs)
    return f"{statistics.median(seconds):.2f} ({seconds[int(len(seconds) * 0.95)]:.2f})"


def print_table(title: str, *rows: Sequence[object]) -> None:
    print(f"\n{title}")
    widths = [max(len(str(row[at])) for row in rows if at < len(row)) for at in range(max(map(len, rows)))]
    for row in rows:
        print("   ", "  ".join(str(one).ljust(widths[at]) for at, one in enumerate(row)).rstrip(), flush=True)


def request_blocks(body: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """Return name, text and presence of `cache_control` of each block of a request, in cache order."""
    found = [(tool["name"].rsplit("__", 1)[-1], tool) for tool in body["tools"]]
    contents = [("system", body.get("system", [])), *(("message", one["content"]) for one in body["messages"])]
    for name, content in contents:
        found += [(name, one) for one in ([{"text": content}] if isinstance(content, str) else content)]
    signs = {"system-reminder": "reminder", "command": "notes", " begins]": "document", "<schema>": "task and schema"}
    blocks: list[tuple[str, str, bool]] = []
    for name, block in found:
        rest = {key: value for key, value in block.items() if key != "cache_control"}
        text = rest["text"] if "text" in rest else json.dumps(rest, ensure_ascii=False)
        part = next((part for sign, part in signs.items() if sign in text), name) if name == "message" else name
        blocks.append((part, text, "cache_control" in block))
    return blocks


def count_tokens(body: dict[str, Any]) -> float:
    return sum(len(text) for _, text, _ in request_blocks(body)) / 4


def input_dollars(body: dict[str, Any], cached: set[str]) -> float:
    """Return the price of a request's input. `cached` holds the cached prefixes; this request's are added."""
    digest, read, written, length, new = hashlib.sha256(), 0, 0, 0, set[str]()
    for _, text, is_marked in request_blocks(body):
        digest.update(text.encode() + b"\0")
        length += len(text)
        if digest.hexdigest() in cached:
            read = length
        if is_marked:
            written = length
            new.add(digest.hexdigest())
    cached |= new
    written = max(written, read)
    return (CACHE_READ * read + CACHE_WRITE * (written - read) + length - written) / 4 * INPUT_DOLLARS


def run_costs(runs: Sequence[dict[str, Any]]) -> list[float]:
    """Return the input and output tokens of the last run, the dollars of the first and last run, and the median seconds
    of all but the first."""
    cached = set[str]()
    dollars = [input_dollars(run["body"], cached) + run["output"] / 4 * OUTPUT_DOLLARS for run in runs]
    wall = statistics.median(run["end"] - run["start"] for run in runs[1:])
    return [count_tokens(runs[-1]["body"]), runs[-1]["output"] / 4, dollars[0], dollars[-1], wall]


async def measure_tokens(runs: int) -> None:
    tool = {"name": "record_invoice", "description": "Record the fields of the invoice.", "input_schema": SCHEMA}
    raw = {"model": MODEL, "max_tokens": 4096, "stream": True, "tools": [tool]}
    raw |= {"tool_choice": {"type": "tool", "name": "record_invoice"}}
    ours, others = list[dict[str, Any]](), list[dict[str, Any]]()
    with model_and_home(600) as (home, model), service(home, model.base_url) as at:
        async with at.client() as http, httpx.AsyncClient(timeout=60) as client:
            for number, document in (await upload_invoices(http, runs + 1)).items():
                ours += await extract_all(http, model, {number: document})
                model.requests("real")
                words = f"Extract the fields of this invoice.\n\n{INVOICE.format(number=number)}"
                start, body = time.monotonic(), {**raw, "messages": [{"role": "user", "content": words}]}
                (await client.post(f"{model.base_url}/v1/messages", json=body)).raise_for_status()
                others.append({"start": start, "end": time.monotonic(), **model.requests("none")[0]})
    labels = ("input tokens", "output tokens", "dollars, nothing cached", "dollars, prefix cached", "wall s")
    rows = zip(labels, run_costs(ours), run_costs(others), ("≤ 3", "≤ 1.6", "", "≤ 2", "≤ 1.4"), strict=True)
    print_table(
        f"tokens: {runs} runs at the model's pace, interleaved with raw calls that force one tool",
        ("", "Fieldmark", "raw call", "ratio", "goal"),
        *((label, f"{one:.4g}", f"{other:.4g}", f"{one / other:.2f}", goal) for label, one, other, goal in rows),
    )
    body, so_far, parts = ours[-1]["body"], 0, list[Sequence[object]]()
    for part, text, is_marked in request_blocks(body):
        so_far += len(text)
        parts.append((part, len(text) // 4, so_far // 4, "cache_control" if is_marked else ""))
    print_table("the first request of a run, in tokens", ("block", "tokens", "so far", ""), *parts)
    print(f"    max_tokens {body['max_tokens']}, {body.get('output_config')}, thinking {body.get('thinking')}")


async def measure_pace(at_once: Sequence[int], documents: int) -> None:
    from fieldmark.settings import default_max_live_agents

    rows = list[Sequence[object]]()
    with model_and_home(1500) as (home, model):
        for many in at_once:
            with service(
                home, model.base_url, FIELDMARK_MAX_LIVE_AGENTS=str(max(many, default_max_live_agents()))
            ) as at:
                async with at.client(uuid4()) as http:
                    uploaded = await upload_invoices(http, min(documents, 8 * many))
                    watched = ProcessTreeUsage(at.process.pid)
                    before = watched.cpu()
                    runs = await extract_all(http, model, uploaded, many)
                    cpu = (watched.cpu() - before) / len(runs)
            seconds = statistics.mean(run["last"] - run["asked"] for run in runs)
            rate = len(runs) / (max(run["end"] for run in runs) - min(run["start"] for run in runs))
            rounds = -(-len(runs) // many) * many / len(runs)
            goal = "≥ 0.75" if many == 24 else ""
            figures = [f"{rate * 60:.1f}", f"{many / seconds * 60:.1f}", f"{rate * seconds / many:.2f}", goal]
            late = (
                f"{cpu:.2f}",
                duration_percentiles(runs, "start", "asked"),
                duration_percentiles(runs, "last", "end"),
            )
            rows.append((many, len(runs), *figures, f"{rate * seconds / many * rounds:.2f}", *late))
    names = ("at once", "runs", "per min", "model's", "share", "goal", "of rounds", "CPU s", "asked", "last byte → end")
    print_table("pace: watched runs at the model's pace, agent processes cold at the start; s: p50 (p95)", names, *rows)
    print("    share: of that many models that never pause; of rounds: of that many that pause until a round is full")


def database_counters(owner: psycopg.Connection[Any]) -> tuple[float, float, float, dict[str, int]]:
    """Return the time, the commits and WAL bytes so far, and the size of each table with its indexes."""
    commits, wal = owner.execute(
        """select xact_commit, pg_current_wal_lsn() - '0/0'::pg_lsn from pg_stat_database
           where datname = current_database()"""
    ).fetchall()[0]
    sizes = owner.execute(
        """select c.relname, pg_total_relation_size(c.oid) from pg_class as c join pg_namespace as n
           on n.oid = c.relnamespace where c.relkind = 'r' and n.nspname in ('public', 'private', 'queue')"""
    ).fetchall()
    return time.monotonic(), float(commits), float(wal), dict(sizes)


def resource_usage(at: Service) -> list[str]:
    """Return process count, memory (PSS) and descriptors of the service, its CLIs, its other children, and Postgres."""
    root, database = psutil.Process(at.process.pid), postmaster(at.home)
    groups = {"service": [root], "clis": [], "readers": [], "postgres": [database, *database.children(recursive=True)]}
    for one in root.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            groups["clis" if "--output-format" in one.cmdline() else "readers"].append(one)
    cells: list[str] = []
    for group in groups.values():
        memory = descriptors = 0
        for one in group:
            with contextlib.suppress(psutil.Error):
                memory, descriptors = memory + one.memory_full_info().pss, descriptors + one.num_fds()
        cells.append(f"{len(group)}: {memory / 1e6:.0f} MB, {descriptors}")
    return cells


def vacuum_full(owner: psycopg.Connection[Any]) -> None:
    owner.commit()
    owner.autocommit = True
    owner.execute("vacuum full")
    owner.autocommit = False


def count_runs(owner: psycopg.Connection[Any], *statuses: str) -> int:
    return owner.execute("select count(*) from runs where status = any(%s)", [list(statuses)]).fetchall()[0][0]


async def measure_soak(documents: int) -> None:
    with contextlib.ExitStack() as stack:
        home, model = stack.enter_context(model_and_home(2400))
        at = stack.enter_context(service(home, model.base_url))
        owner = stack.enter_context(psycopg.connect(at.database.owner_url))
        # One transaction, so that measuring adds no commits.
        owner.execute("set stats_fetch_consistency = none; set search_path = public")
        async with at.client(uuid4()) as one, at.client(uuid4()) as other:
            for http in (one, other):
                await http.get("/api/me")  # creates its organisation
            start, count = time.monotonic(), min(documents, 100)
            await upload_invoices(one, count)
            reading = count / (time.monotonic() - start)
            vacuum_full(owner)
            await asyncio.sleep(12)  # backends report their statistics after ten idle seconds
            idle = database_counters(owner)
            await asyncio.sleep(10)
            before, gate, cpu_before = database_counters(owner), asyncio.Semaphore(8), cpu_by_process(at)
            memory = [["start", *resource_usage(at)]]

            async def post(http: httpx.AsyncClient, number: str, content: bytes) -> None:
                async with gate:
                    added = await http.post("/api/documents", files={"file": (f"{number}.pdf", content)})
                    body = {"document_id": added.raise_for_status().json()["id"], "schema": SCHEMA}
                    body |= {"background": True, "wait": False}
                    (await http.post("/api/agent/extract", json=body)).raise_for_status()

            made = enumerate(invoices(documents).items())
            posting = asyncio.gather(*(post((one, other)[n % 2], *invoice) for n, invoice in made))
            while (ended := count_runs(owner, "completed", "failed", "cancelled")) < documents:
                if ended >= documents / 2 and len(memory) == 1:
                    memory.append(["middle", *resource_usage(at)])
                if posting.done():
                    posting.result()  # a request that failed
                await asyncio.sleep(0.2)
            took, cpu = time.monotonic() - before[0], cpu_by_process(at)
            memory.append(["end", *resource_usage(at)])
            await posting
            await asyncio.sleep(12)
        after = database_counters(owner)
        assert count_runs(owner, "completed") == documents, "some runs did not complete"
        requests = len(model.requests("none")) / documents
        vacuum_full(owner)
        packed = (sum(database_counters(owner)[3].values()) - sum(before[3].values())) / documents / 1000
    rest = [(before[at] - idle[at]) / (before[0] - idle[0]) for at in (1, 2)]
    commits, wal = [(after[at] - before[at] - rest[at - 1] * (after[0] - before[0])) / documents for at in (1, 2)]
    used = {name: (cpu[name] - cpu_before[name]) / documents * 1000 for name in cpu}
    grown = {name: (size - before[3][name]) / documents / 1000 for name, size in after[3].items()}
    print_table(
        f"soak: {documents} documents of two organisations, extracted in the background by a model without delay",
        ("", "figure", "goal"),
        ("documents/min", f"{documents / took * 60:.0f}", "≥ 200"),
        ("CPU a document, ms", f"{sum(used.values()):.0f}", "≤ 180"),
        *((f"    {name}", f"{used[name]:.0f}") for name in used),
        (f"documents read/s ({count}, before)", f"{reading:.1f}", "≥ 12"),
        ("commits a document", f"{commits:.1f}", ""),
        ("WAL a document, kB", f"{wal / 1000:.0f}", "≤ 100"),
        ("on disk a document, kB; after VACUUM FULL", f"{sum(grown.values()):.1f}; {packed:.1f}", "≤ 35"),
        *((f"    {name}", f"{grown[name]:.1f}") for name in sorted(grown, key=lambda name: -grown[name])[:5]),
        ("requests to the model a document", f"{requests:.2f}", "1"),
        ("commits/s, idle", f"{rest[0]:.1f}", "≤ 3"),
    )
    print_table("number: memory, descriptors", ("", "service", "CLIs", "readers", "Postgres"), *memory)


async def time_first_run(http: httpx.AsyncClient, model: SimulatedModel) -> list[float]:
    """Return the seconds until a new organisation's first document is ready, and its run has an event, requests the
    model, and ends."""
    await http.get("/api/me")  # creates the organisation
    start = time.monotonic()
    documents = await upload_invoices(http, 1)
    read = time.monotonic() - start
    (run,) = await extract_all(http, model, documents)
    return [read, *(run[event] - run["start"] for event in ("run", "asked", "end"))]


async def measure_latency(runs: int, loud_runs: int) -> None:
    with model_and_home(1200) as (home, model):
        with service(home, model.base_url) as at:
            async with at.client(uuid4()) as http:
                alone = await time_first_run(http, model)
                watched = await extract_all(http, model, await upload_invoices(http, runs))
        print_table(
            f"latency: {runs} watched runs, one after another, at the model's pace; p50 (p95) s",
            ("request → first event", duration_percentiles(watched, "start", "run")),
            ("request → model asked", duration_percentiles(watched, "start", "asked")),
            ("model's first token → first field shown", duration_percentiles(watched, "first", "preview")),
            ("model's last byte → fields stored", duration_percentiles(watched, "last", "changed")),
            ("model's last byte → end", duration_percentiles(watched, "last", "end")),
        )
        busy = list[list[float]]()
        for _ in range(3):
            with service(home, model.base_url) as at:  # agent processes are cold again
                async with at.client(uuid4()) as loud, at.client(uuid4()) as quiet:
                    documents = await upload_invoices(loud, loud_runs)
                    model.requests("real")
                    for document in documents.values():
                        body = {"document_id": document, "schema": SCHEMA, "wait": False}
                        (await loud.post("/api/agent/extract", json=body)).raise_for_status()
                    busy.append(await time_first_run(quiet, model))
    names, goals = ("upload → read", "first event", "model asked", "end"), ("", "", "≤ 2", "")
    cells = [(f"{statistics.median(times):.2f}", f"{max(times):.2f}") for times in zip(*busy, strict=True)]
    print_table(
        f"latency: the first run of a quiet organisation, beside {loud_runs} that another has just started; s",
        ("", "alone", "beside, median of 3", "worst", "goal"),
        *((name, f"{a:.2f}", *b, goal) for name, a, b, goal in zip(names, alone, cells, goals, strict=True)),
    )


async def measure_remote(runs: int) -> None:
    """Measure uploads, and extractions in the background and watched, one after another."""
    from fieldmark.agents.registry import agent_rows
    from fieldmark.db.embedded import embedded_postgres
    from fieldmark.db.migrate import migrate

    async with contextlib.AsyncExitStack() as stack:
        home, model = stack.enter_context(model_and_home(900))
        local = stack.enter_context(embedded_postgres(home, 18))
        await migrate(local.owner_url, app_password=local.app_password, agents=agent_rows())
        port = urlsplit(local.app_url).port
        assert port is not None
        database = stack.enter_context(delayed_database(port, 0.001))
        url = local.app_url.replace(f":{port}/", f":{database.port}/")
        at = stack.enter_context(service(home, model.base_url, DATABASE_URL=url))
        http = await stack.enter_async_context(at.client(uuid4()))
        # Polled directly, so that waiting adds no statements.
        owner = stack.enter_context(psycopg.connect(local.owner_url, autocommit=True))
        figures: dict[str, list[tuple[float, float, float]]] = {}
        idle = 0.0, 0.0

        async def wait_until(table: str, status: str, row_id: str) -> None:
            query = f"select status = %s from public.{table} where id = %s"
            while owner.execute(query.encode(), (status, row_id)).fetchall() != [(True,)]:
                await asyncio.sleep(0.01)

        async def post_document() -> str:
            ((number, content),) = invoices(1).items()
            answer = await http.post("/api/documents", files={"file": (f"{number}.pdf", content)})
            return answer.raise_for_status().json()["id"]

        async def upload_and_wait() -> str:
            await wait_until("documents", "ready", document := await post_document())
            return document

        async def upload_and_extract() -> None:
            body = {"document_id": await post_document(), "schema": SCHEMA, "background": True, "wait": False}
            answer = await http.post("/api/agent/extract", json=body)
            await wait_until("runs", "completed", answer.raise_for_status().json()["run_id"])

        async def measure(name: str, work: Callable[[], Awaitable[Any]]) -> Any:
            before = time.monotonic(), database.statements, database.trips
            found = await work()
            took = time.monotonic() - before[0]
            await asyncio.sleep(1)  # for what is written after the last event
            idle_statements, idle_trips = ((took + 1) * rate for rate in idle)
            counts = database.statements - before[1] - idle_statements, database.trips - before[2] - idle_trips
            figures.setdefault(name, []).append((took, *counts))
            return found

        for number in range(runs + 2):  # the first two are not counted
            if number == 2:
                start, before = time.monotonic(), (database.statements, database.trips)
                await asyncio.sleep(20)
                took = time.monotonic() - start
                idle = (database.statements - before[0]) / took, (database.trips - before[1]) / took
            await measure("upload and extraction in the background", upload_and_extract)
            document = await measure("upload", upload_and_wait)
            await measure("watched extraction", partial(extract_and_time, http, document))
    rows = [list(map(statistics.median, zip(*found[2:], strict=True))) for found in figures.values()]
    print_table(
        f"remote: {runs} runs, a database 2 ms away, no model delay; medians. Idle: {idle[0]:.1f} statements/s",
        ("", "s", "statements", "round trips"),
        *((name, f"{row[0]:.2f}", *(f"{one:.0f}" for one in row[1:])) for name, row in zip(figures, rows, strict=True)),
    )


PROMPT = "Extract the fields of the document."
RESULTS = {
    "get_document_text": INVOICE,
    "identify_document": "The document type is now 'invoice'.",
    "extract_fields": f"Stored, version 1: {json.dumps(FIELDS)}",
    "complete_extraction": "The extraction is completed. Version 1.",
}
"""What the tools answer without a database."""


def tool_definitions() -> list[dict[str, Any]]:
    from fieldmark.agents.registry import AGENTS

    tools = AGENTS["extraction"].toolset.tools.values()
    return [{"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in tools]


async def sdk_request(base_url: str) -> None:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, SdkMcpTool, create_sdk_mcp_server

    def tool(definition: dict[str, Any]) -> SdkMcpTool[Any]:
        async def handle(_: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": RESULTS[definition["name"]]}]}

        return SdkMcpTool(**definition, handler=handle)

    tools = [tool(definition) for definition in tool_definitions()]
    options = ClaudeAgentOptions(
        system_prompt="You extract.",
        mcp_servers={"fieldmark": create_sdk_mcp_server("fieldmark", tools=tools)},
        allowed_tools=[f"mcp__fieldmark__{one.name}" for one in tools],
        tools=[],
        setting_sources=[],
        model=MODEL,
        env={
            "ANTHROPIC_BASE_URL": base_url,
            "ANTHROPIC_API_KEY": "bench",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
    )
    async with ClaudeSDKClient(options) as client:
        await client.query(PROMPT)
        results = [one async for one in client.receive_response() if isinstance(one, ResultMessage)]
    assert results[-1].result == "Done.", results


async def run_plain_tool_loop(client: httpx.AsyncClient, base_url: str) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]
    body = {
        "model": MODEL,
        "max_tokens": 4096,
        "system": "You extract.",
        "tools": tool_definitions(),
        "messages": messages,
    }
    while True:
        answer = (await client.post(f"{base_url}/v1/messages", json=body)).raise_for_status().json()
        messages.append({"role": "assistant", "content": answer["content"]})
        uses = [block for block in answer["content"] if block["type"] == "tool_use"]
        if not uses:
            return
        results = [{"type": "tool_result", "tool_use_id": one["id"], "content": RESULTS[one["name"]]} for one in uses]
        messages.append({"role": "user", "content": results})


async def measure_concurrent(count: int, request: Callable[[], Awaitable[object]]) -> float:
    start = time.monotonic()
    await asyncio.gather(*(request() for _ in range(count)))
    return time.monotonic() - start


async def measure_on_demand(request: Callable[[], Awaitable[object]]) -> None:
    """For each line on stdin, make that many concurrent requests and print the seconds."""
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(await measure_concurrent(int(line), request), flush=True)


async def compare(runs: int, at_once: int) -> None:
    with contextlib.ExitStack() as stack:
        home, model = stack.enter_context(model_and_home(900))
        at = stack.enter_context(service(home, model.base_url))
        children = [stack.enter_context(child(__file__, name, model.base_url)) for name in ("bare", "raw")]
        assert [read_line(one) for one in children] == ["ready", "ready"]
        watched = [ProcessTreeUsage(process.pid) for process in (at.process, *children)]
        postgres, figures = ProcessTreeUsage(postmaster(home).pid), [list[Sequence[float]]() for _ in watched]
        async with at.client() as http:
            document = (await upload_invoices(http, 1)).popitem()[1]
            for _ in range(runs + 1):
                for which, subject in enumerate(watched):
                    before, before_postgres = subject.cpu(), postgres.cpu()
                    subject.watching.set()
                    if which:
                        wall = float(ask(children[which - 1], str(at_once)))
                    else:
                        wall = await measure_concurrent(at_once, lambda: extract_and_time(http, document))
                    await asyncio.sleep(0.15)  # the end of the CLI belongs to the CPU time of its run
                    subject.watching.clear()
                    made = model.requests("none")
                    sizes = [len(made) / at_once, sum(count_tokens(one["body"]) for one in made) / at_once]
                    figures[which].append((wall, subject.cpu() - before, *sizes, postgres.cpu() - before_postgres))
    medians = [[statistics.median(column) for column in zip(*rows[1:], strict=True)] for rows in figures]
    base, rows = [*medians[1][:2], watched[1].peak], list[Sequence[object]]()
    for name, (wall, cpu, made, size, _), subject in zip(
        ("Fieldmark", "bare client", "raw loop"), medians, watched, strict=True
    ):
        ratios = [f"{one / other:.2f} ×" for one, other in zip((wall, cpu, subject.peak), base, strict=True)]
        rows.append(
            (
                name,
                f"{wall:.2f} s",
                f"{cpu:.2f} s",
                f"{subject.peak / 1e6:.0f} MB",
                *ratios,
                f"{made:.0f}",
                f"{size:,.0f}",
            )
        )
    print_table(
        f"beside: {runs} times {at_once} at once, interleaved, medians; × of a bare ClaudeSDKClient for each",
        ("", "wall", "CPU", "peak", "wall", "CPU", "peak", "requests", "input tokens"),
        *rows,
    )
    print(f"    Fieldmark's Postgres takes {medians[0][4]:.2f} s of CPU besides. Goal, one at once: wall 0.25 ×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["tokens", "pace", "soak", "latency", "compare", "remote"])
    parser.add_argument("--runs", type=int, help="of tokens, latency, remote, beside")
    parser.add_argument("--documents", type=int, help="of soak, pace (at most 8 rounds)")
    parser.add_argument("--at-once", type=int, nargs="+", help="of pace, beside")
    given = parser.parse_args()
    is_long = given.part is not None
    runs, documents = given.runs or (20 if is_long else 5), given.documents
    parts: dict[str, Callable[[], Any]] = {
        "tokens": lambda: measure_tokens(runs),
        "pace": lambda: measure_pace(given.at_once or ([1, 8, 24] if is_long else [8, 24]), documents or 40),
        "soak": lambda: measure_soak(documents or (300 if is_long else 60)),
        "latency": lambda: measure_latency(runs, 60),
        "remote": lambda: measure_remote(runs),
        "compare": lambda: compare(runs, (given.at_once or [1])[0]),
    }
    for part in [given.part] if is_long else parts:
        asyncio.run(parts[part]())


if __name__ == "__main__":
    restore_signals()
    match sys.argv[1:]:
        case ["bare", base_url]:
            asyncio.run(measure_on_demand(lambda: sdk_request(base_url)))
        case ["raw", base_url]:
            client = httpx.AsyncClient(timeout=60)
            asyncio.run(measure_on_demand(lambda: run_plain_tool_loop(client, base_url)))
        case _:
            main()
