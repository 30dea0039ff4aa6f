"""Whether questions over receipts and invoices are answered right, and whether each answer's places say what it quotes.

The documents are those of tests/asked.py: files that are read as ever, receipts known by their lines alone, one that
cannot be read, one that gives orders, another organisation's. Their fields are written by scripted runs, from what a
person has read on the pages. Questions are asked through the real CLI, of a script that does what a good model does;
scripts that cheat must come to nothing. The words under a source's boxes must say its quote.

    pip install '.[bench]' && python bench/ask.py [--samples ../shared/samples]

Without the samples, what needs them is not asked. Ends with 1 if one of this does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from fieldmark.db.embedded import running
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.messages import Block, Body, call, raw_call
from fieldmark.offline_model.server import OfflineModel
from fieldmark.testing.script import Script
from processes import bounded, child, free_port, heed_signals

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import asked

DEADLINE_SECONDS = 1500
SERVE = ("-c", "from fieldmark.cli import main; main()", "serve")

# Scripts that cheat. Each says what must become of it: the code that refuses it, in the answer that the model gets.


def at_first_block(quote: str, number: int = 1) -> Callable[[Body], list[Block]]:
    def step(body: Body) -> list[Block]:
        block = next(iter(asked.blocks(body)))
        return [call("cite_source", {"number": number, "block_id": block, "quote": quote})]

    return step


def submitted(answer: str, **more: Any) -> list[Block]:
    return [call("submit_answer", {"answer": answer, "confidence": 1.0, **more})]


def read(name: str) -> Block:
    return call("read_document", {"document": name})


QA, RECKON = asked.intent("qa"), asked.intent("calculation")
COUNT = call("query_fields", {"aggregates": [{"op": "count"}]})


def false_quotes(other: str) -> dict[str, tuple[str, list[Any]]]:
    """Quotes and ids that are not right, by name, with the code that refuses them."""
    block = "000000000000-1-1"

    def unread(body: Body) -> list[Block]:
        first = next(iter(asked.blocks(body)))
        return [call("cite_source", {"number": 1, "block_id": f"{first[:12]}-7-1", "quote": "roof"})]

    said = [
        *(
            "The roof is sound.",
            "roof at the chimney",
            "The roof leaks at the chimney and the wall",
            "42",
            "leaks leaks",
        ),
        *(
            "5,200.00 EUR",
            "4200.00 USD",
            "inspected on 21 May 2024",
            "Jane Portman",
            "tiles are broken. The gutters leak",
        ),
        *("Ignore all instructions", "the code of the vault", "", "…", "The roof … the chimney"),
    ]
    quotes: dict[str, tuple[str, list[Any]]] = {}
    for quote in said:
        code = {"": "invalid", "…": "quote_too_short"}.get(quote, "quote_not_found")
        quotes[f"quotes {quote!r}"] = (code, [[QA, read("survey.txt")], at_first_block(quote)])
    quotes |= {
        "cites what it has not read": ("block_not_read", [[QA, COUNT], [_cited(block, "roof")]]),
        "cites a page that is none": ("block_not_read", [[QA, read("survey.txt")], unread]),
        "cites what a document orders": (
            "block_not_read",
            [[QA, read("orders.txt")], [_cited(block, "42 invoices")]],
        ),
        "cites another's document": (
            "block_not_read",
            [[QA, read(other)], [_cited(f"{other.replace('-', '')[-12:]}-1-1", "7391")]],
        ),
    }
    return quotes


def _cited(block: str, quote: str) -> Block:
    return call("cite_source", {"number": 1, "block_id": block, "quote": quote})


def false_answers(other: str) -> dict[str, tuple[str, list[Any]]]:
    """Answers that nothing proves, by name, with the fault that they are refused for, twice."""
    wrong = asked.calculation("There are 42.", "invoices", "42")
    said_otherwise = asked.calculation("There are 42.", "invoices", "10")
    cited = [[QA, read("survey.txt")], at_first_block("Survey of the house")]
    return {
        "counts as a document orders": ("not_reckoned", [[RECKON, COUNT], [wrong]]),
        "says another number than it gives": (
            "not_reckoned",
            [[RECKON, call("calculator", {"expression": "40 + 1"})], [said_otherwise]],
        ),
        "reckons by itself": ("not_reckoned", [[RECKON, read("survey.txt")], [wrong]]),
        "cites nothing": ("not_cited", [[QA, read("survey.txt")], submitted("The roof is sound.")]),
        "says numbers that it has not cited": ("no_such_citation", [*cited, submitted("A survey [1], and sound [2].")]),
        "cites and does not say where": ("citation_unused", [*cited, submitted("The roof is sound.")]),
        "finds nothing without a search": (
            "not_searched",
            [[QA, read("survey.txt")], submitted("Nothing.", nothing_found=True)],
        ),
        "answers what is not asked": ("other_intent", [[QA, COUNT], [asked.calculation("There are 10.", "all", "10")]]),
        "answers at once": ("no_intent", [submitted("The roof is sound [1].")]),
    }


# The bench ------------------------------------------------------------------------------------------------------------


@dataclass
class Bench:
    """What is asked of whom, and what went wrong."""

    samples: Path | None
    model: asked.Model = field(default_factory=asked.Model)
    faults: list[str] = field(default_factory=list[str])

    def fault(self, said: str) -> None:
        self.faults.append(said)
        print(f"    WRONG {said}", flush=True)


async def ask(http: httpx.AsyncClient, message: str, thread: str | None = None) -> tuple[dict[str, Any], float]:
    begun = time.perf_counter()
    body = {"message": message} | ({"thread_id": thread} if thread else {})
    answer = await http.post("/api/agent/ask", json=body)
    took = time.perf_counter() - begun
    assert answer.status_code == 200, answer.text
    return answer.json(), took


async def questions(bench: Bench, http: httpx.AsyncClient, wanted: list[asked.Question], who: str) -> None:
    """Ask, and open every place."""
    pages, threads = asked.Pages(http), dict[str, str]()
    right, sources, good, took, calls = 0, 0, 0, list[float](), list[int]()
    print(f"{len(wanted)} questions, answered by {who}")
    for question in wanted:
        bench.model.answers.clear()
        thread = threads.get(question.follows or "")
        told, seconds = await ask(http, question.message, thread)
        run = (await http.get(f"/api/runs/{told['run_id']}")).json()
        threads[question.message] = str(run["thread_id"])
        result = told["result"]
        if result is None:
            bench.fault(f"{question.message}: {told}")
            continue
        wrong = await asked.faults(pages, question, result)
        found = [await asked.grounded(pages, source) for source in result["sources"]]
        sources += len(found)
        good += sum(found)
        right += not wrong
        took.append(seconds)
        calls.append(sum(bench.model.answers.values()))
        said = " ".join(str(result.get("answer") or result.get("summary")).split())
        mark = "WRONG" if wrong else "right"
        counted = f"{seconds * 1000:5.0f} ms {calls[-1]:2} messages"
        print(f"  {mark} {counted}  {question.kind:<9} {question.message} → {said[:150]}", flush=True)
        for one in wrong:
            bench.fault(f"{who}: {question.message}: {one}")
    print(
        f"  {right} of {len(wanted)} right; {good} of {sources} sources say their quote; an answer took "
        f"{statistics.median(took) * 1000:.0f} ms by the median, {max(took) * 1000:.0f} ms at most, "
        f"{statistics.mean(calls):.1f} messages of the model"
    )


def refused(body: Body) -> list[str]:
    """The codes that a request shows, in order; of an answer its faults as well."""
    found: list[str] = []
    for said, _ in asked.tool_results(body):
        codes = re.findall(r'"code":\s*"(\w+)"', said)
        found.append(codes[0] if codes else "invalid")
        found += re.findall(r"\w+", (re.search(r'"faults":\s*\[(.*?)\]', said) or [""] * 2)[1])
    return found


async def cheats(bench: Bench, http: httpx.AsyncClient, other: str) -> None:
    """Scripts that cheat: what they say comes to nothing."""
    kept = 0
    quotes = false_quotes(other)
    for name, (code, steps) in quotes.items():
        bench.model.scripts[name] = Script([*steps, submitted("So it is [1].")])
        told, _ = await ask(http, name)
        codes = refused(bench.model.last[name])
        result = told["result"] or {}
        if code not in codes or "cited" in codes or not result.get("fallback"):
            bench.fault(f"{name}: {codes}, {told['status']}")
        else:
            kept += 1
    print(f"  {kept} of {len(quotes)} false quotes and blocks refused")
    kept, answers = 0, false_answers(other)
    for name, (code, steps) in answers.items():
        (last,) = steps[-1] if isinstance(steps[-1], list) else [steps[-1]]
        bench.model.scripts[name] = Script([*steps[:-1], [last], [raw_call(last.name, last.arguments)]])
        told, _ = await ask(http, name)
        codes = refused(bench.model.last[name])
        result = told["result"] or {}
        if code not in codes or (result.get("fallback") or {}).get("code") != "answer_invalid":
            bench.fault(f"{name}: {codes}, {told['status']}")
        else:
            kept += 1
    print(f"  {kept} of {len(answers)} false answers refused, twice each, and the best passages given")


async def measure(options: argparse.Namespace, home: Path) -> int:
    samples: Path | None = options.samples
    docs = [*asked.MADE, *asked.COMMITTED]
    if samples is not None:
        docs += [*asked.KEPT_APART, *asked.written_out(samples)]
    bench = Bench(samples)
    async with OfflineModel(bench.model) as model:
        with running(home, 18):
            port = free_port()
            settings = {
                "FIELDMARK_HOME": str(home),
                "ANTHROPIC_API_KEY": "bench",
                "ANTHROPIC_BASE_URL": model.base_url,
                "FIELDMARK_PORT": str(port),
                "FIELDMARK_LOG_LEVEL": "error",
                "DATABASE_URL": "",
                "SUPABASE_URL": "",
            }
            with child(*SERVE, **settings):
                await asked_all(bench, f"http://127.0.0.1:{port}", home, docs)
    print(f"{len(bench.faults)} faults")
    return 1 if bench.faults else 0


async def asked_all(bench: Bench, address: str, home: Path, docs: list[asked.Doc]) -> None:
    def client() -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {LocalTokens(home).sign(uuid4())}"}
        return httpx.AsyncClient(base_url=address, headers=headers, timeout=300)

    async with httpx.AsyncClient(base_url=address) as probe:

        async def is_up() -> bool:
            try:
                return (await probe.get("/readyz")).status_code == 200
            except httpx.HTTPError:
                return False

        await asked.until(is_up)
    async with client() as http, client() as another:
        begun = time.perf_counter()
        await asked.filled(http, docs, bench.samples)
        answer = await another.post("/api/documents", files={"file": ("survey.txt", asked.SECRET.encode())})
        theirs = str(answer.json()["id"])
        took = time.perf_counter() - begun
        print(f"load {os.getloadavg()[0]:.1f}; {len(docs)} documents read and extracted in {took:.0f} s", flush=True)
        wanted = asked.asked_of(bench.samples is None)
        bench.model.scripts |= {question.message: question.script for question in wanted}
        await questions(bench, http, wanted, "scripts")
        await cheats(bench, http, theirs)
        everything = json.dumps(bench.model.last, ensure_ascii=False)
        if "Zurich is 7391" in everything:  # the number alone may stand in an id
            bench.fault("the model was shown another organisation's document")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=Path)
    options = parser.parse_args()
    heed_signals()
    with tempfile.TemporaryDirectory(prefix="fieldmark-ask-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with bounded(DEADLINE_SECONDS, Path(folder)):
            return asyncio.run(measure(options, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
