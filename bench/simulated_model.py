"""A simulated model at the speed of a real one, the invoice it reads, and timed runs, for bench/extraction.py.  It
takes 1 s to the first token, then writes 80 tokens of 4 characters per second. It answers Fieldmark's requests in one
message, with 22 fields, 2 quotes and 2 confidences."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from processes import child, read_line, time_limit, upload

FIRST_TOKEN_SECONDS, CHARACTERS_A_SECOND = 1.0, 320
CHARACTERS_PER_EVENT = 8  # characters per stream event

INVOICE = """Northwind Timber Ltd
48 Harbour Road
Bristol BS1 6XG                        VAT ID GB 482 1937 55

INVOICE {number}

Invoice date: 12 March 2026            Due date: 11 April 2026
Customer number: C-20417               Order: PO-77120
Bill to: Aldgate Furniture GmbH, Speicherstrasse 14, 20457 Hamburg

Pos  Description                          Qty   Unit price       Amount
1    Oak boards, planed, 27 mm             40        18.50       740.00
2    Beech dowels, 12 mm, box of 100       15         9.80       147.00
3    Delivery to Hamburg, one pallet        1       213.00       213.00
                                            Subtotal           1,100.00
                                            VAT 19 %             209.00
                                            Total              1,309.00

All amounts are in EUR. Please pay the total of 1,309.00 to the account
below, with the number of the invoice. Goods remain our property until they
are paid in full. Claims for damage in transit must reach us within eight days.
IBAN: GB29 NWBK 6016 1331 9268 19
"""
FIELDS = json.loads("""{"invoice_number": "", "invoice_date": "2026-03-12", "due_date": "2026-04-11",
  "vendor": {"name": "Northwind Timber Ltd", "address": "48 Harbour Road, Bristol BS1 6XG"},
  "customer": {"name": "Aldgate Furniture GmbH", "number": "C-20417"}, "order_number": "PO-77120",
  "items": [{"description": "Oak boards, planed, 27 mm", "quantity": 40, "amount": 740.0},
    {"description": "Beech dowels, 12 mm, box of 100", "quantity": 15, "amount": 147.0},
    {"description": "Delivery to Hamburg, one pallet", "quantity": 1, "amount": 213.0}],
  "subtotal": 1100.0, "tax": 209.0, "total": 1309.0, "currency": "EUR", "iban": "GB29 NWBK 6016 1331 9268 19"}""")
UNSURE = {"order_number": 0.8, "vendor.address": 0.85}
# Values that are printed in parts, or more than once.
QUOTES = {"vendor.address": {"quote": "48 Harbour Road\nBristol BS1 6XG"}, "total": {"quote": "Total 1,309.00"}}
SUMMARY = {"summary": "Invoice of Northwind Timber Ltd over 1,309.00 EUR; all fields were found."}


def schema_of(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {"type": "object", "properties": {str(name): schema_of(one) for name, one in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": schema_of(value[0])}
    return {"type": "string" if isinstance(value, str) else "number"}


SCHEMA = schema_of(FIELDS)


def invoices(count: int) -> dict[str, bytes]:
    from page_site import make_pdf  # not imported in measured processes

    numbers = [f"INV-{uuid4().hex[:8]}" for _ in range(count)]
    return {number: make_pdf([INVOICE.format(number=number).splitlines()]) for number in numbers}


async def upload_invoices(http: httpx.AsyncClient, count: int) -> dict[str, str]:
    """Upload invoices, eight at a time, and return the ids of the read documents by number."""
    gate = asyncio.Semaphore(8)

    async def upload_one(number: str, content: bytes) -> tuple[str, str]:
        async with gate:
            return number, await upload(http, f"{number}.pdf", content)

    return dict(await asyncio.gather(*(upload_one(*invoice) for invoice in invoices(count).items())))


async def serve(host: str = "127.0.0.1") -> None:
    """Serve the model at an address of this machine. Each line on stdin sets the pace (`real`, `none`, or seconds of
    an answer) and is answered with all requests since the line before: invoice number, monotonic times, body, and
    characters of the response."""
    from fieldmark.domain.json_values import as_object
    from fieldmark.offline_model.messages import Block, Body, call, text
    from fieldmark.offline_model.messages import block_text as words
    from fieldmark.offline_model.server import OfflineModel, Reply
    from fieldmark.testing.script import count_model_answers, stream_in_steps

    requests: list[dict[str, Any]] = []
    pace = "none"

    def simulated_answer(body: Body, number: str) -> list[Block]:
        fields = {**FIELDS, "invoice_number": number}
        if as_object(body.get("tool_choice")).get("type") == "tool":
            return [call("record_invoice", fields)]
        given = {"document_type": "invoice", "fields": fields, "confidences": UNSURE, "evidence": QUOTES}
        four = [call("get_document_text"), call("identify_document", {"document_type": "invoice"})]
        four += [call("extract_fields", given), call("complete_extraction", SUMMARY)]
        one: list[Block] = [call("extract_fields", given | SUMMARY)]
        messages = [[block] for block in four] if "You extract." in json.dumps(body.get("system")) else [one]
        return [*messages, [text("Done.")]][min(count_model_answers(body), len(messages))]

    async def answer(body: Body) -> Reply:
        asked, found = time.monotonic(), re.search(r"INV-[0-9a-f]{8}", json.dumps(body))
        blocks = simulated_answer(body, number := found[0] if found else "")
        sent, request = 0, {"number": number, "asked": asked, "body": body, "output": sum(map(len, map(words, blocks)))}
        requests.append(request)

        if pace not in ("real", "none"):
            request.pop("body")
            await asyncio.sleep(float(pace))

        async def wait_for_pace(_: str) -> None:
            nonlocal sent
            await asyncio.sleep(asked + FIRST_TOKEN_SECONDS + sent / CHARACTERS_A_SECOND - time.monotonic())
            sent, request["last"] = sent + CHARACTERS_PER_EVENT, time.monotonic()
            request.setdefault("first", request["last"])

        return stream_in_steps(wait_for_pace, *blocks, characters=CHARACTERS_PER_EVENT) if pace == "real" else blocks

    async with OfflineModel(answer, keeps_requests=False, host=host) as server:
        print(server.base_url, flush=True)
        while pace := (await asyncio.to_thread(sys.stdin.readline)).strip():
            print(json.dumps(requests), flush=True)
            requests.clear()


def ask(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin is not None
    print(line, file=process.stdin, flush=True)
    return read_line(process)


class SimulatedModel:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self.base_url = process, read_line(process)

    def requests(self, pace: str) -> list[dict[str, Any]]:
        """Set the pace, and return the requests since the last call."""
        return json.loads(ask(self._process, pace))


@contextlib.contextmanager
def model_and_home(seconds: float) -> Iterator[tuple[Path, SimulatedModel]]:
    """Yield a home for the service, and the model. Ends both with the block, or after this many seconds."""
    with tempfile.TemporaryDirectory(prefix="fieldmark-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with time_limit(seconds, Path(folder)), child(__file__) as process:
            yield Path(folder), SimulatedModel(process)


async def extract_and_time(http: httpx.AsyncClient, document: str) -> dict[str, Any]:
    """Extract a document, stream its events with deltas, and return the monotonic time of the first event of each
    kind."""
    times: dict[str, Any] = {"start": time.monotonic()}
    last: dict[str, Any] = {}
    body, events = {"document_id": document, "schema": SCHEMA}, {"Accept": "text/event-stream"}
    async with http.stream("POST", "/api/agent/extract?deltas=true", json=body, headers=events) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                last = json.loads(line[6:])
                times.setdefault(last["type"], time.monotonic())
    assert last.get("complete"), last
    return {**times, "end": time.monotonic()}


async def extract_all(
    http: httpx.AsyncClient, model: SimulatedModel, documents: dict[str, str], at_once: int = 1
) -> list[dict[str, Any]]:
    """Extract documents, at most `at_once` concurrently. Return for each run its times and the model's request."""
    gate = asyncio.Semaphore(at_once)

    async def extract_one(document: str) -> dict[str, Any]:
        async with gate:
            return await extract_and_time(http, document)

    model.requests("real")
    runs = await asyncio.gather(*map(extract_one, documents.values()))
    requests = {one["number"]: one for one in model.requests("none")}
    return [{**run, **requests[number]} for number, run in zip(documents, runs, strict=True)]


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
