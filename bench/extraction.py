"""What an extraction costs and how long it takes: tokens, pace, soak, latency, and beside other programs.

The model is a stand-in in a process of its own. At a real model's pace it takes 1 s to the first token and writes 80
tokens of 4 characters a second. It answers Fieldmark's prompt in one message: 22 fields of a one-page invoice,
quotes for two values that are printed in pieces or more than once, and confidences for two.

    tokens   input and output tokens, price and wall time of a run, beside a raw call with one forced tool, interleaved
    pace     runs at once at the model's pace: the share of that pace that is reached, cold agent processes included
    soak     a batch of two organisations, the model without delay: documents a minute, and what one document costs
    latency  a watched run event by event; the first run of a quiet organisation beside 60 of another
    beside   a scripted extraction beside a bare ClaudeSDKClient and a raw loop: wall, CPU, peak memory

    pip install '.[bench]' && python bench/extraction.py [tokens | pace | soak | latency | beside]

Without a part: all of them, short. Token counts are characters / 4. Ratios compare two things of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import psycopg

from processes import Service, bounded, child, heed_signals, said, service, upload

FIRST_TOKEN_SECONDS = 1.0
CHARACTERS_A_SECOND = 320
PIECE = 8  # characters in one event of the stream
DOLLARS_A_TOKEN = {"input": 2e-6, "output": 10e-6}  # the list price of Sonnet 5
CACHE_READ, CACHE_WRITE = 0.1, 1.25  # times the price of input
EVENTS = {"Accept": "text/event-stream"}
ME = str(Path(__file__))
MODEL = "claude-sonnet-5"
NUMBER = re.compile(r"INV-\d{6}")


# The invoice ---------------------------------------------------------------------------------------------------------

INVOICE = """Northwind Timber Ltd
48 Harbour Road
Bristol BS1 6XG
VAT ID GB 482 1937 55

INVOICE {number}

Invoice date: 12 March 2026            Order: PO-77120
Customer number: C-20417               Due date: 11 April 2026

Bill to:
Aldgate Furniture GmbH
Speicherstrasse 14, 20457 Hamburg

Pos  Description                          Qty   Unit price       Amount
1    Oak boards, planed, 27 mm             40        18.50       740.00
2    Beech dowels, 12 mm, box of 100       15         9.80       147.00
3    Delivery to Hamburg, one pallet        1       213.00       213.00

                                            Subtotal           1,100.00
                                            VAT 19 %             209.00
                                            Total              1,309.00

All amounts are in EUR. Please pay the total of 1,309.00 to the account
below, with the number of the invoice.

IBAN: GB29 NWBK 6016 1331 9268 19
Goods remain our property until they are paid in full. Claims for damage in
transit must reach us within eight days of delivery. Thank you for your order.
"""


def fields_of(number: str) -> dict[str, Any]:
    """Return the 22 values of an invoice."""
    items = [
        {"description": "Oak boards, planed, 27 mm", "quantity": 40, "amount": 740.0},
        {"description": "Beech dowels, 12 mm, box of 100", "quantity": 15, "amount": 147.0},
        {"description": "Delivery to Hamburg, one pallet", "quantity": 1, "amount": 213.0},
    ]
    return {
        "invoice_number": number,
        "invoice_date": "2026-03-12",
        "due_date": "2026-04-11",
        "order_number": "PO-77120",
        "vendor": {"name": "Northwind Timber Ltd", "address": "48 Harbour Road, Bristol BS1 6XG"},
        "customer": {"name": "Aldgate Furniture GmbH", "number": "C-20417"},
        "items": items,
        "subtotal": 1100.0,
        "tax": 209.0,
        "total": 1309.0,
        "currency": "EUR",
        "iban": "GB29 NWBK 6016 1331 9268 19",
    }


def schema_of(value: Any) -> dict[str, Any]:
    """Return a JSON Schema that describes a value."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {name: schema_of(one) for name, one in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": schema_of(value[0])}
    return {"type": "string" if isinstance(value, str) else "number"}


SCHEMA = schema_of(fields_of(""))
CONFIDENCES = {"order_number": 0.8, "vendor.address": 0.85}
EVIDENCE = {
    "vendor.address": {"quote": "48 Harbour Road\nBristol BS1 6XG", "page": 1},
    "total": {"quote": "Total 1,309.00", "page": 1},
}
SUMMARY = "Invoice of Northwind Timber Ltd over 1,309.00 EUR; all fields were found."


async def upload_invoices(http: httpx.AsyncClient, count: int, start: int = 0) -> dict[str, str]:
    """Upload invoices, eight at a time, and return their ids by number when all are read."""
    gate = asyncio.Semaphore(8)

    async def one(number: str) -> str:
        async with gate:
            return await upload(http, f"{number}.pdf", invoice_pdf(number))

    numbers = [f"INV-{n:06}" for n in range(start, start + count)]
    return dict(zip(numbers, await asyncio.gather(*map(one, numbers)), strict=True))


def invoice_pdf(number: str) -> bytes:
    from page_site import pdf  # not for the processes that are measured

    return pdf([INVOICE.format(number=number).splitlines()])


# The stand-in model --------------------------------------------------------------------------------------------------

DOCUMENT = "Invoice number: 2024-0815\nInvoice date: 2024-03-12\nVendor: Acme Ltd\nTotal: 1,250.00 EUR\n" * 20
FIELDS = {"number": "2024-0815", "date": "2024-03-12", "vendor": {"name": "Acme Ltd"}, "total": 1250.0}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("get_document_text", {}),
    ("identify_document", {"document_type": "invoice", "confidence": 0.9}),
    ("extract_fields", {"fields": FIELDS, "confidences": {"number": 0.9, "total": 0.8}}),
    ("complete_extraction", {}),
]


async def stand_in() -> None:
    """Serve the model. For each line on stdin, which is the pace from now on (`real` or `none`), print all requests
    since the last line: the invoice's number, monotonic times, the body, characters of the answer."""
    from fieldmark.domain.json_values import as_object
    from fieldmark.offline_model.messages import Block, Body, call, text
    from fieldmark.offline_model.messages import said as words
    from fieldmark.offline_model.server import OfflineModel, Reply
    from fieldmark.testing.script import Script, answers_so_far, paced

    scripted = [call(*one) for one in CALLS]
    bare = Script([*[[one] for one in scripted], [text("Done.")]])
    requests: list[dict[str, Any]] = []
    pace = "none"

    def answer_of(body: Body, number: str) -> list[Block]:
        fields = fields_of(number)
        if as_object(body.get("tool_choice")).get("type") == "tool":
            return [call("record_invoice", fields)]
        if answers_so_far(body):
            return [text(SUMMARY)]
        if not number:
            return [*scripted[1:3], call("complete_extraction", {"summary": "Done."})]
        extract = {"document_type": "invoice", "fields": fields, "confidences": CONFIDENCES, "evidence": EVIDENCE}
        return [call("extract_fields", extract), call("complete_extraction", {"summary": SUMMARY})]

    async def answer(body: Body) -> Reply:
        asked, whole = time.monotonic(), json.dumps(body)
        is_bare = "You extract." in json.dumps(body.get("system"))
        number = found[0] if (found := NUMBER.search(whole)) else ""
        request: dict[str, Any] = {"number": number, "is_bare": is_bare, "asked": asked, "body": body}
        requests.append(request)
        if is_bare:
            return await bare(body)
        blocks = answer_of(body, number)
        sent, request["output"] = 0, sum(len(words(block)) for block in blocks)

        async def at_pace(_: str) -> None:
            nonlocal sent
            written = asked + FIRST_TOKEN_SECONDS + sent / CHARACTERS_A_SECOND
            await asyncio.sleep(max(0.0, written - time.monotonic()))
            sent, request["last"] = sent + PIECE, time.monotonic()
            request.setdefault("first", request["last"])

        return paced(at_pace, *blocks, characters=PIECE) if pace == "real" else blocks

    async with OfflineModel(answer, keeps_requests=False) as server:
        print(server.base_url, flush=True)
        while pace := (await asyncio.to_thread(sys.stdin.readline)).strip():
            print(json.dumps(requests), flush=True)
            requests.clear()


class StandIn:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.base_url = said(process)

    def requests(self, pace: str) -> list[dict[str, Any]]:
        """Set the pace, and return the requests since the last call."""
        return json.loads(asked(self._process, pace))


def asked(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return said(process)


@contextmanager
def stage(seconds: float) -> Iterator[tuple[Path, StandIn]]:
    """A home for the service, and the model. All is gone afterwards, or after so many seconds."""
    with tempfile.TemporaryDirectory(prefix="fieldmark-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with bounded(seconds, Path(folder)), child(ME, "model") as process:
            yield Path(folder), StandIn(process)


# Runs ----------------------------------------------------------------------------------------------------------------


def extract_request(document: str, **more: Any) -> dict[str, Any]:
    return {"document_id": document, "schema": SCHEMA, **more}


async def watch(
    http: httpx.AsyncClient, document: str, schema: dict[str, Any] | None = SCHEMA, *, deltas: bool = True
) -> dict[str, float]:
    """Extract a document, watched with deltas, and return when what came: monotonic times."""
    times = {"start": time.monotonic()}
    last: dict[str, Any] = {}
    body = {"document_id": document} if schema is None else extract_request(document)
    async with http.stream("POST", f"/api/agent/extract?deltas={deltas}", json=body, headers=EVENTS) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                now, last = time.monotonic(), json.loads(line[6:])
                times.setdefault("first_event", now)
                if last["type"] in ("preview", "changed"):
                    times.setdefault(last["type"], now)
    assert last.get("complete"), last
    return {**times, "end": time.monotonic()}


def percentile(values: Sequence[float], share: float = 0.5) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def both(values: Sequence[float]) -> str:
    """The p50 and the p95 of seconds."""
    return f"{percentile(values):.2f} ({percentile(values, 0.95):.2f})"


def table(title: str, *rows: Sequence[object]) -> None:
    print(f"\n{title}")
    widths = [max(len(str(row[at])) for row in rows if at < len(row)) for at in range(max(map(len, rows)))]
    for row in rows:
        print("   ", "  ".join(str(one).ljust(widths[at]) for at, one in enumerate(row)).rstrip())
    sys.stdout.flush()


# Tokens --------------------------------------------------------------------------------------------------------------


def blocks_of(body: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """Return the blocks of a request, in the order of the cache: what each is, its text, whether `cache_control` is on
    it."""
    found = [(tool["name"].rsplit("__", 1)[-1], tool, "tool ") for tool in body["tools"]]
    for name, content in [
        ("system prompt", body.get("system", [])),
        *(("", one["content"]) for one in body["messages"]),
    ]:
        found += [(name, one, "") for one in ([{"text": content}] if isinstance(content, str) else content)]
    blocks: list[tuple[str, str, bool]] = []
    for name, block, kind in found:
        rest = {key: value for key, value in block.items() if key != "cache_control"}
        text = rest["text"] if "text" in rest else json.dumps(rest, ensure_ascii=False)
        blocks.append((kind + (name or _part(text)), text, "cache_control" in block))
    return blocks


def _part(text: str) -> str:
    signs = {
        "system-reminder": "the CLI's reminder",
        "command": "the CLI's notes",
        " begins]": "document",
        "<schema>": "task and schema",
    }
    return next((part for sign, part in signs.items() if sign in text), "other")


def input_dollars(body: dict[str, Any], cached: set[str]) -> float:
    """Return the price of a request's input. `cached` holds the prefixes that the cache has; this one's are added."""
    digest, read, written, length = hashlib.sha256(), 0, 0, 0
    new: set[str] = set()
    for _, text, is_marked in blocks_of(body):
        digest.update(text.encode() + b"\0")
        length += len(text)
        if digest.hexdigest() in cached:
            read = length
        if is_marked:
            written = length
            new.add(digest.hexdigest())
    cached |= new
    written = max(written, read)
    weighed = CACHE_READ * read + CACHE_WRITE * (written - read) + length - written
    return weighed / 4 * DOLLARS_A_TOKEN["input"]


async def raw_call(client: Any, number: str) -> float:
    """Extract with one forced tool over the invoice's text, and return the seconds it took."""
    started = time.monotonic()
    async with client.messages.stream(
        model=MODEL,
        max_tokens=4096,
        tools=[{"name": "record_invoice", "description": "Record the fields of the invoice.", "input_schema": SCHEMA}],
        tool_choice={"type": "tool", "name": "record_invoice"},
        messages=[
            {"role": "user", "content": f"Extract the fields of this invoice.\n\n{INVOICE.format(number=number)}"}
        ],
    ) as stream:
        answer = await stream.get_final_message()
    assert answer.content[0].input == fields_of(number)
    return time.monotonic() - started


async def tokens(runs: int) -> None:
    from anthropic import AsyncAnthropic

    with stage(600) as (home, model), service(home, model.base_url) as at:
        walls: dict[str, list[float]] = {"ours": [], "raw": []}
        async with at.client() as http, AsyncAnthropic(base_url=model.base_url, api_key="bench") as raw:
            documents = await upload_invoices(http, runs + 1)
            model.requests("real")
            for number, document in documents.items():
                times = await watch(http, document)
                walls["ours"].append(times["end"] - times["start"])
                walls["raw"].append(await raw_call(raw, number))
        requests = model.requests("none")
    figures: dict[str, list[float]] = {}
    for name in ("ours", "raw"):
        mine = [one for one in requests if (one["body"]["tool_choice"]["type"] == "tool") == (name == "raw")]
        size = sum(len(text) for one in mine for _, text, _ in blocks_of(one["body"])) / 4 / len(documents)
        output = sum(one["output"] for one in mine) / 4 / len(documents)
        cached: set[str] = set()
        inputs = [input_dollars(one["body"], cached) for one in mine]
        last = sum(inputs[-len(mine) // len(documents) :]) + output * DOLLARS_A_TOKEN["output"]
        cold = inputs[0] + output * DOLLARS_A_TOKEN["output"]
        wall = statistics.median(walls[name][1:])  # the first warms up
        figures[name] = [size, output, cold, last, wall, len(mine) / len(documents)]
    labels = (
        "input tokens",
        "output tokens",
        "dollars, nothing cached",
        "dollars, prefix cached",
        "wall s",
        "requests",
    )
    goals = ("3 ×", "1.6 ×", "", "2 ×", "1.4 ×", "1")
    table(
        f"tokens: {runs} runs beside raw calls with one forced tool, interleaved",
        ("", "Fieldmark", "raw call", "ratio", "goal"),
        *(
            (label, f"{ours:.4g}", f"{raw:.4g}", f"{ours / raw:.2f} ×", goal)
            for label, ours, raw, goal in zip(labels, figures["ours"], figures["raw"], goals, strict=True)
        ),
    )
    body = next(one["body"] for one in reversed(requests) if one["body"]["tool_choice"]["type"] != "tool")
    parts: dict[str, int] = {}
    for part, text, _ in blocks_of(body):
        parts[part] = parts.get(part, 0) + len(text)
    tools = sum(size for part, size in parts.items() if part.startswith("tool "))
    marked = [at for at, (_, _, is_marked) in enumerate(blocks_of(body)) if is_marked]
    sizes = [sum(len(text) for _, text, _ in blocks_of(body)[: at + 1]) // 4 for at in marked]
    where = ", ".join(f"{blocks_of(body)[at][0]} ({size})" for at, size in zip(marked, sizes, strict=True))
    table(
        "the first request of a run, in tokens",
        ("tools", tools // 4),
        *((part, size // 4) for part, size in parts.items()),
        ("cache_control after (tokens so far)", where),
        ("max_tokens", body["max_tokens"]),
        ("effort, thinking", f"{body.get('output_config')}, {body.get('thinking')}"),
    )


# Pace ----------------------------------------------------------------------------------------------------------------


async def pace(at_once: Sequence[int], documents: int) -> None:
    from fieldmark.settings import agents_that_fit

    rows: list[tuple[object, ...]] = []
    with stage(1500) as (home, model):
        for many in at_once:
            live = str(max(many, agents_that_fit()))
            with service(home, model.base_url, FIELDMARK_MAX_LIVE_AGENTS=live) as at:
                rows.append(await _paced(at, model, many, min(documents, 8 * many)))
    table(
        "pace: runs at the model's pace, each watched with deltas; agent processes cold at the start",
        ("at once", "runs", "runs/min", "model's", "share", "goal", "of rounds", "model asked s", "last byte → end s"),
        *rows,
    )
    print("    share: of so many models at work without a break. of rounds: of what full rounds of runs allow.")
    print("    seconds: p50 (p95).")


async def _paced(at: Service, model: StandIn, many: int, count: int) -> tuple[object, ...]:
    gate = asyncio.Semaphore(many)

    async def one(document: str) -> dict[str, float]:
        async with gate:
            return await watch(http, document)

    async with at.client(uuid4()) as http:
        documents = await upload_invoices(http, count)
        model.requests("real")
        started = time.monotonic()
        runs = dict(zip(documents, await asyncio.gather(*map(one, documents.values())), strict=True))
        took = time.monotonic() - started
    requests = {one["number"]: one for one in model.requests("none")}
    seconds = statistics.mean(one["last"] - one["asked"] for one in requests.values())
    return (
        many,
        count,
        f"{count / took * 60:.1f}",
        f"{many / seconds * 60:.1f}",
        f"{count / took / (many / seconds):.2f}",
        "0.75" if many == 24 else "",
        f"{-(-count // many) * seconds / took:.2f}",
        both([requests[number]["asked"] - run["start"] for number, run in runs.items()]),
        both([run["end"] - requests[number]["last"] for number, run in runs.items()]),
    )


# Soak ----------------------------------------------------------------------------------------------------------------


class Counters:
    """What Postgres has done so far: commits, bytes of WAL, bytes of each table."""

    def __init__(self, owner: psycopg.Connection[Any]) -> None:
        self.at = time.monotonic()
        row = owner.execute(
            """select xact_commit, pg_current_wal_lsn() - '0/0'::pg_lsn from pg_stat_database
               where datname = current_database()"""
        ).fetchone()
        assert row is not None
        self.commits, self.wal = float(row[0]), float(row[1])
        self.tables: dict[str, int] = dict(
            owner.execute(
                """select c.relname, pg_total_relation_size(c.oid) from pg_class as c
                   join pg_namespace as n on n.oid = c.relnamespace
                   where c.relkind = 'r' and n.nspname in ('public', 'private', 'queue')"""
            ).fetchall()
        )


def postmaster(home: Path) -> psutil.Process:
    return psutil.Process(int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0]))


def held_by(at: Service) -> list[str]:
    """Return the number, memory (PSS) and descriptors of the service, its CLIs, its other children, and Postgres."""
    root, database = psutil.Process(at.process.pid), postmaster(at.home)
    groups: dict[str, list[psutil.Process]] = {"clis": [], "readers": []}
    for child_process in root.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            groups["clis" if "--output-format" in child_process.cmdline() else "readers"].append(child_process)
    cells: list[str] = []
    for group in ([root], *groups.values(), [database, *database.children(recursive=True)]):
        memory = descriptors = 0
        for one in group:
            with contextlib.suppress(psutil.Error):
                memory += one.memory_full_info().pss
                descriptors += one.num_fds()
        cells.append(f"{len(group)}: {memory / 1e6:.0f} MB, {descriptors}")
    return cells


async def soak(documents: int) -> None:
    with stage(2400) as (home, model):
        with service(home, model.base_url) as at, psycopg.connect(at.owner_url) as owner:
            # One transaction, so that looking commits nothing.
            owner.execute("set stats_fetch_consistency = none; set idle_in_transaction_session_timeout = 0")
            await _soak(at, owner, documents)
            requests = len(model.requests("none"))
        print(f"    requests to the model: {requests / documents:.2f} a document")


async def _soak(at: Service, owner: psycopg.Connection[Any], documents: int) -> None:
    async with at.client(uuid4()) as one, at.client(uuid4()) as other:
        for http in (one, other):
            await http.get("/api/me")  # creates its organisation
        reading = min(documents, 100)
        started = time.monotonic()
        await upload_invoices(one, reading, start=900_000)
        read = reading / (time.monotonic() - started)
        await asyncio.sleep(12)  # backends report what they did after ten idle seconds
        idle = [Counters(owner)]
        await asyncio.sleep(10)
        idle.append(Counters(owner))
        rest = idle[1].at - idle[0].at
        commits, wal = (idle[1].commits - idle[0].commits) / rest, (idle[1].wal - idle[0].wal) / rest
        memory = [["start", *held_by(at)]]
        before = Counters(owner)
        gate = asyncio.Semaphore(8)

        async def batch(http: httpx.AsyncClient, number: str) -> None:
            async with gate:
                file = {"file": (f"{number}.pdf", invoice_pdf(number))}
                document = (await http.post("/api/documents", files=file)).raise_for_status().json()["id"]
                body = extract_request(document, background=True, wait=False)
                (await http.post("/api/agent/extract", json=body)).raise_for_status()

        posting = asyncio.gather(*(batch((one, other)[n % 2], f"INV-{n:06}") for n in range(documents)))
        while (done := _ended(owner)) < documents:
            if done >= documents / 2 and len(memory) == 1:
                memory.append(["middle", *held_by(at)])
            await asyncio.sleep(0.2)
        took = time.monotonic() - before.at
        await posting
        memory.append(["end", *held_by(at)])
        await asyncio.sleep(12)
        after = Counters(owner)
    assert _ended(owner, "completed") == documents, "some runs did not complete"
    grown = {name: (size - before.tables[name]) / documents for name, size in after.tables.items()}
    largest = sorted(grown, key=lambda name: -grown[name])[:5]
    spent = after.at - before.at
    table(
        f"soak: {documents} documents of two organisations, uploaded and extracted in the background, no delay",
        ("", "figure", "goal"),
        ("documents/min", f"{documents / took * 60:.0f}", "200"),
        ("documents read/s, nothing else at work", f"{read:.1f}", "12"),
        ("commits a document", f"{(after.commits - before.commits - commits * spent) / documents:.1f}", "25"),
        ("WAL a document, kB", f"{(after.wal - before.wal - wal * spent) / documents / 1000:.0f}", "100"),
        ("on disk a document, kB", f"{sum(grown.values()) / 1000:.1f}", "35"),
        *((f"    {name}", f"{grown[name] / 1000:.1f}") for name in largest),
        ("idle service: commits/s, WAL bytes/s", f"{commits:.1f}, {wal:.0f}", "3"),
    )
    table("number: memory, descriptors", ("", "service", "CLIs", "readers", "Postgres"), *memory)


def _ended(owner: psycopg.Connection[Any], *statuses: str) -> int:
    wanted = list(statuses or ("completed", "failed", "cancelled"))
    row = owner.execute("select count(*) from public.runs where status = any(%s)", [wanted]).fetchone()
    assert row is not None
    return row[0]


# Latency -------------------------------------------------------------------------------------------------------------


async def latency(runs: int, loud_runs: int) -> None:
    with stage(1200) as (home, model):
        with service(home, model.base_url) as at:
            async with at.client(uuid4()) as http:
                alone = await _first_run(http, model)
                documents = await upload_invoices(http, runs)
                times = {number: await watch(http, document) for number, document in documents.items()}
            requests = {one["number"]: one for one in model.requests("none")}
        for number, one in times.items():
            one |= {"asked": requests[number]["asked"], "token": requests[number]["first"]}
            one |= {"last": requests[number]["last"]}
        spans = {
            "request → first event": ("start", "first_event"),
            "request → model asked": ("start", "asked"),
            "model's first token → first field shown": ("token", "preview"),
            "model's last byte → fields stored": ("last", "changed"),
            "model's last byte → end": ("last", "end"),
        }
        table(
            f"latency: {runs} watched runs, one after another, at the model's pace; p50 (p95) s",
            *((name, both([one[b] - one[a] for one in times.values()])) for name, (a, b) in spans.items()),
        )
        with service(home, model.base_url) as at:  # agent processes are cold again
            async with at.client(uuid4()) as loud, at.client(uuid4()) as quiet:
                await quiet.get("/api/me")
                for document in (await upload_invoices(loud, loud_runs)).values():
                    body = extract_request(document, wait=False)
                    (await loud.post("/api/agent/extract", json=body)).raise_for_status()
                beside_others = await _first_run(quiet, model)
    table(
        f"latency: the first run of a quiet organisation, beside {loud_runs} that another has just started; s",
        ("", "alone", f"beside {loud_runs}", "goal"),
        *(
            (name, f"{alone[name]:.2f}", f"{beside_others[name]:.2f}", "2" if name == "model asked" else "")
            for name in alone
        ),
    )


async def _first_run(http: httpx.AsyncClient, model: StandIn) -> dict[str, float]:
    model.requests("real")
    started = time.monotonic()
    document = (await upload_invoices(http, 1, start=900_000)).popitem()[1]
    read = time.monotonic() - started
    run = await watch(http, document)
    request = next(one for one in model.requests("real") if one["number"] == "INV-900000")
    return {
        "upload → read": read,
        "first event": run["first_event"] - run["start"],
        "model asked": request["asked"] - run["start"],
        "end": run["end"] - run["start"],
    }


# Beside other programs -----------------------------------------------------------------------------------------------


PROMPT = "Extract the fields of the document."
RESULTS = {
    "get_document_text": DOCUMENT,
    "identify_document": "The document type is now 'invoice'.",
    "extract_fields": f"Stored, version 1: {json.dumps(FIELDS)}",
    "complete_extraction": "The extraction is completed. Version 1.",
}


def definitions() -> list[dict[str, Any]]:
    from fieldmark.agents.registry import AGENTS

    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in AGENTS["extraction"].toolset.tools.values()
    ]


async def bare_request(base_url: str) -> None:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, SdkMcpTool, create_sdk_mcp_server

    def handler(name: str) -> Callable[[dict[str, Any]], Any]:
        async def handle(_: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": RESULTS.get(name, "")}]}

        return handle

    tools = [SdkMcpTool(d["name"], d["description"], d["input_schema"], handler(d["name"])) for d in definitions()]
    options = ClaudeAgentOptions(
        system_prompt="You extract.",
        mcp_servers={"fieldmark": create_sdk_mcp_server("fieldmark", tools=tools)},
        allowed_tools=[f"mcp__fieldmark__{tool.name}" for tool in tools],
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
    result = None
    async with ClaudeSDKClient(options) as client:
        await client.query(PROMPT)
        async for message in client.receive_response():
            if isinstance(message, ResultMessage):
                result = message
    assert result is not None and result.result == "Done.", result


async def raw_request(client: Any) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]
    while True:
        async with client.messages.stream(
            model=MODEL, max_tokens=4096, system="You extract.", tools=definitions(), messages=messages
        ) as stream:
            answer = await stream.get_final_message()
        uses = [block for block in answer.content if block.type == "tool_use"]
        if not uses:
            assert answer.content[0].text == "Done."
            return
        messages.append({"role": "assistant", "content": [block.model_dump() for block in answer.content]})
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": RESULTS.get(use.name, "")} for use in uses]
        messages.append({"role": "user", "content": results})


async def together(count: int, request: Callable[[], Any]) -> tuple[float, float]:
    """Make so many requests at once, and return how long all took, and one of them."""

    async def timed() -> float:
        started = time.perf_counter()
        await request()
        return time.perf_counter() - started

    started = time.perf_counter()
    each = await asyncio.gather(*(timed() for _ in range(count)))
    return time.perf_counter() - started, statistics.median(each)


async def on_demand(request: Callable[[], Any]) -> None:
    """Make as many requests at once as each line on stdin says, and print how long they took."""
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(*await together(int(line), request), flush=True)


async def bare(base_url: str) -> None:
    await on_demand(lambda: bare_request(base_url))


async def raw(base_url: str) -> None:
    from anthropic import AsyncAnthropic

    async with AsyncAnthropic(base_url=base_url, api_key="bench") as client:
        await on_demand(lambda: raw_request(client))


class Watched:
    """CPU and peak memory of a process with all its children, dead ones included."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self.peak = 0
        self.watching = threading.Event()
        threading.Thread(target=self._sample, daemon=True).start()

    def _sum(self, figure: Callable[[psutil.Process], float]) -> float:
        total = 0.0
        for process in (self._root, *self._root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += figure(process)
        return total

    def cpu(self) -> float:
        return self._sum(lambda process: sum(process.cpu_times()[:4]))

    def _sample(self) -> None:
        while self.watching.wait():
            self.peak = max(self.peak, self._sum(lambda process: process.memory_full_info().pss))
            time.sleep(0.05)


async def beside(runs: int, at_once: int = 1) -> None:
    with (
        stage(900) as (home, model),
        service(home, model.base_url, FIELDMARK_MAX_TURNS="20") as at,
        child(ME, "bare", model.base_url) as bare_process,
        child(ME, "raw", model.base_url) as raw_process,
    ):
        assert said(bare_process) == said(raw_process) == "ready"
        postgres = Watched(postmaster(home).pid)
        async with at.client() as http:
            document = await upload(http, "a.txt", DOCUMENT.encode())
            subjects: dict[str, tuple[Watched, Callable[[], Any]]] = {
                "Fieldmark": (
                    Watched(at.process.pid),
                    lambda: together(at_once, lambda: watch(http, document, None, deltas=False)),
                ),
                "bare ClaudeSDKClient": (Watched(bare_process.pid), lambda: elsewhere(bare_process, at_once)),
                "raw loop": (Watched(raw_process.pid), lambda: elsewhere(raw_process, at_once)),
            }
            figures: dict[str, list[tuple[float, ...]]] = {name: [] for name in subjects}
            for _ in range(runs + 1):  # the first warms up
                for name, (watched, make) in subjects.items():
                    before, before_postgres = watched.cpu(), postgres.cpu()
                    watched.watching.set()
                    wall, single = await make()
                    await asyncio.sleep(0.15)  # the CLI's goodbye belongs to the CPU of its run
                    watched.watching.clear()
                    figures[name].append((wall, watched.cpu() - before, single, postgres.cpu() - before_postgres))
        requests = model.requests("none")
    base, rows = "bare ClaudeSDKClient", list[Sequence[object]]()
    middle = {
        name: [statistics.median(column) for column in zip(*all_[1:], strict=True)] for name, all_ in figures.items()
    }
    for name, (watched, _) in subjects.items():
        mine = [one for one in requests if one["is_bare"] == (name != "Fieldmark")]
        times = (runs + 1) * at_once * (1 if name == "Fieldmark" else 2)
        size = sum(len(text) for one in mine for _, text, _ in blocks_of(one["body"])) / 4 / times
        wall, cpu, single, _ = middle[name]
        ratios = [wall / middle[base][0], cpu / middle[base][1], watched.peak / subjects[base][0].peak]
        cells = [f"{wall:.2f} s", f"{single:.2f} s", f"{cpu:.2f} s", f"{watched.peak / 1e6:.0f} MB"]
        rows.append((name, *cells, *(f"{one:.2f} ×" for one in ratios), f"{len(mine) / times:.1f}", f"{size:,.0f}"))
    table(
        f"beside: {runs} times {at_once} scripted extractions at once each, interleaved; medians, × of {base}",
        ("", "wall", "one of them", "CPU", "peak", "wall ×", "CPU ×", "peak ×", "requests", "input tokens"),
        *rows,
    )
    print(f"    Fieldmark's Postgres besides: CPU {middle['Fieldmark'][3]:.2f} s. Goal: wall 0.25 × (one at once).")


async def elsewhere(process: subprocess.Popen[str], at_once: int) -> tuple[float, float]:
    wall, single = map(float, asked(process, str(at_once)).split())
    return wall, single


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["tokens", "pace", "soak", "latency", "beside"])
    parser.add_argument("--runs", type=int, help="of tokens, latency and beside")
    parser.add_argument("--documents", type=int, help="of pace (at most 8 rounds) and soak")
    parser.add_argument("--at-once", type=int, nargs="+", help="of pace and beside")
    given = parser.parse_args()
    is_short = given.part is None
    at_once = given.at_once or ([8, 24] if is_short else [1, 8, 24])
    parts: dict[str, Callable[[], Any]] = {
        "tokens": lambda: tokens(given.runs or (3 if is_short else 10)),
        "pace": lambda: pace(at_once, given.documents or 40),
        "soak": lambda: soak(given.documents or (60 if is_short else 300)),
        "latency": lambda: latency(given.runs or (5 if is_short else 20), 60),
        "beside": lambda: beside(given.runs or (5 if is_short else 20), (given.at_once or [1])[0]),
    }
    for part in parts if is_short else [given.part]:
        asyncio.run(parts[part]())


if __name__ == "__main__":
    heed_signals()
    if sys.argv[1:2] == ["model"]:
        asyncio.run(stand_in())
    elif sys.argv[1:2] in (["bare"], ["raw"]):
        asyncio.run({"bare": bare, "raw": raw}[sys.argv[1]](sys.argv[2]))
    else:
        main()
