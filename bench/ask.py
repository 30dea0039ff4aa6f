"""Whether questions over receipts and invoices are answered right, and whether each answer's boxes lie on its quotes.

The documents are those of tests/sample_questions.py: files of docs/samples, texts made here, one that cannot be read,
one that gives orders, another organisation's. With a folder of samples there are eleven more and the lines of 92
receipts. Their fields are what a person has read on the pages. The offline rules answer; with `--key` it is Claude, by
the key of ANTHROPIC_API_KEY, for a few dollars.

    pip install '.[bench]' && python bench/ask.py [--samples ../shared/samples] [--key]

Ends with 1 if a source does not say its quote, or another organisation's document is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from fieldmark.db.embedded import running
from fieldmark.grounding.labelled_fields import amount, day
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.server import OfflineModel
from processes import bounded, child, free_port, heed_signals

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import sample_questions
from sample_questions import At, Pages, Question, SampleDocument, faults, instructions, is_grounded, receipt_fields

DEADLINE_SECONDS = 1500
SERVE = ("-c", "from fieldmark.cli import main; main()", "serve")
MOST_RECEIPTS = 100
AT_ONCE = 8

# Documents of a folder of samples ------------------------------------------------------------------------------------

GIN_KEE = "SYARIKAT PERNIAGAAN GIN KEE"
FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "coolblue.pdf": (
        "i2d_coolblue2.pdf",
        "invoice",
        receipt_fields("Coolblue B.V.", "2014-03-29", 4904.94, "EUR", invoice_number="992288600", tax=851.27),
    ),
    "part.pdf": (
        "zf_en16931_teilrechnung.pdf",
        "invoice",
        receipt_fields("Lieferant GmbH", "2018-06-05", 197.65, "EUR", invoice_number="471102", tax=20.16),
    ),
    "credit.pdf": (
        "zf_en16931_gutschrift.pdf",
        "credit_note",
        receipt_fields("Lieferant GmbH", "2018-03-05", 529.87, "EUR", invoice_number="471102", tax=56.87),
    ),
}
SCANS: dict[str, dict[str, Any]] = {
    "000": receipt_fields("BOOK TA .K (TAMAN DAYA) SDN BHD", "2018-12-25", 9, "RM", invoice_number="TD01167104"),
    "020": receipt_fields("SYL ROASTED DELIGHTS SDN. BHD.", "2018-03-06", 54.5, invoice_number="SO00022185"),
    "040": receipt_fields("THREE STOOGES", "2018-03-12", 343.95, "RM", subtotal=295, tax=19.47),
    "060": receipt_fields("BENS INDEPENDENT GROCER SDN. BHD", "2018-03-12", 77.2, tax=3.03),
    "080": receipt_fields("HON HWA HARDWARE TRADING", "2017-09-21", 10.4, "RM", tax=0.59),
    "100": receipt_fields(GIN_KEE, "2017-12-02", 7.42, "RM", invoice_number="CS00011955", tax=0.42),
    "120": receipt_fields(GIN_KEE, "2018-01-13", 6.36, "RM", invoice_number="CS00012727", tax=0.36),
    "140": receipt_fields("RESTORAN WAN SHENG", "2018-03-16", 9.6, "RM", invoice_number="1047523", tax=0.53),
}


def of_samples(samples: Path) -> list[SampleDocument]:
    """Files of the folder, and of its first hundred receipts those without a picture: their lines as a text."""
    found = [SampleDocument(name, (samples / file).read_bytes(), *more) for name, (file, *more) in FILES.items()]
    for number, fields in SCANS.items():
        picture = (samples / f"sroie/img/{number}.jpg").read_bytes()
        found.append(SampleDocument(f"receipt-{number}.jpg", picture, "receipt", fields))
    keys = sorted((samples / "sroie/key").glob("*.json"))[:MOST_RECEIPTS]
    return found + [_written_out(samples, key) for key in keys if key.stem not in SCANS]


def _written_out(samples: Path, key: Path) -> SampleDocument:
    told = json.loads(key.read_text("utf-8"))
    lines = [
        line.split(",", 8)[8]
        for line in (samples / f"sroie/box/{key.stem}.csv").read_text("utf-8", "replace").splitlines()
        if line.count(",") >= 8
    ]
    text = "\n".join(lines) + "\n"
    total, bought = amount(told.get("total", "").removeprefix("RM").strip(" $")), _day(told.get("date", ""))
    fields: dict[str, Any] = {"vendor": {"name": told["company"]}} if told.get("company") else {}
    fields |= {"invoice_date": bought} if bought else {}
    fields |= {} if total is None else {"total": total}
    fields |= {"currency": "RM"} if re.search(r"\bRM", text) else {}
    return SampleDocument(f"receipt-{key.stem}.txt", text.encode(), "receipt", fields)


def _day(printed: str) -> str | None:
    if found := re.fullmatch(r"(20\d\d)(\d\d)(\d\d)", printed):
        return "-".join(found.groups())
    if found := re.fullmatch(r"(\d\d)(\d\d)(20\d\d)", printed):
        return "-".join(reversed(found.groups()))
    told = day(printed)
    return told[0] if told else None


# Questions -----------------------------------------------------------------------------------------------------------

# As people ask them. The rules answer a part of them.
QUESTIONS = (
    Question("Who issued invoice RE1001?", says=("weclapp.com",), at=(At("weclapp.pdf", 1, "weclapp.com"),)),
    Question("Who inspected the house?", says=("Jane Porter",), at=(At("survey.txt", 1, "Jane Porter"),)),
    Question("When is the Azure Interior invoice due?", says=("2023",), at=(At("azure.pdf", 1, "04/04/2023"),)),
    Question("Wann wurde die Rechnung RE1001 ausgestellt?", says=("2022",), at=(At("weclapp.pdf", 1, "26.10.22"),)),
    Question("How much did we pay at Lidl?", "calculation", "7.16", ("EUR",)),
    Question("How much VAT is on the Aldi receipt?", "calculation", "2.12", at=(At("aldi.jpg", 1, "1.21"),)),
    Question("Wie viele Belege von Aldi gibt es?", "calculation", "1"),
    Question("Which was more expensive, the Aldi or the Lidl receipt, and by how much?", "calculation", "17.07"),
    Question("Does the page of RE1001 say what its embedded data says?", "calculation", "0.01", ("963.12", "963.11")),
    Question("What does the survey say about the cellar?", finds_nothing=True),
    Question("What does damaged.pdf say about the price?", finds_nothing=True),
)
OF_SAMPLES = (
    Question(
        "Who is the managing director of Lieferant GmbH?",
        says=("Hans Muster",),
        at=(At("part.pdf", 1, "Hans Muster", (0.40, 0.776)),),
    ),
    Question(
        "When was invoice 1047523 of Restoran Wan Sheng issued?",
        says=("2018",),
        at=(At("receipt-140.jpg", 1, "16-03-2018", (0.30, 0.385)),),
    ),
    Question(
        "What is the total of invoice 471102?",
        says=("197.65", "529.87"),
        at=(At("part.pdf", 3, "197.65"), At("credit.pdf", 2, "529.87")),
    ),
    Question(
        "Wie hoch ist der Gesamtbetrag der Coolblue-Rechnung?",
        says=("4904.94",),
        at=(At("coolblue.pdf", 1, "4904.94"),),
    ),
    Question("How many receipts are from Gin Kee?", "calculation", "9"),
    Question("How many receipts were issued in March 2018?", "calculation", "44"),
    Question("How much did we pay Gin Kee in total?", "calculation", "349.69"),
)
# What is another answer with the samples.
WITH_SAMPLES = {
    "How many invoices are over 1,000?": "2",
    "How many invoices are there?": "6",
    "What is the highest total of the invoices?": "4904.94",
}


def questions(samples: Path | None) -> list[Question]:
    asked = [*sample_questions.QUESTIONS, *QUESTIONS]
    if samples is None:
        return asked
    of_all = [Question(**{**vars(one), "result": WITH_SAMPLES.get(one.message, one.result)}) for one in asked]
    return [*of_all, *OF_SAMPLES]


# Asking --------------------------------------------------------------------------------------------------------------


async def store(http: httpx.AsyncClient, documents: list[SampleDocument]) -> None:
    """Upload documents, have their fields extracted, and wait until all can be found."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(document: SampleDocument) -> None:
        async with gate:
            file = (document.name, document.content)
            stored = (await http.post("/api/documents", files={"file": file})).raise_for_status().json()
            while (await http.get(f"/api/documents/{stored['id']}")).json()["status"] == "reading":
                await asyncio.sleep(0.1)
            if document.fields is not None:
                body = {"document_id": stored["id"], "instructions": instructions(document)}
                run = await http.post("/api/agent/extract", json=body)
                assert run.status_code == 200 and run.json()["status"] == "completed", run.text[:500]

    await asyncio.gather(*map(one, documents))
    while (await http.get("/api/search", params={"q": "anything"})).json()["behind"]:
        await asyncio.sleep(0.1)


async def ask_all(http: httpx.AsyncClient, wanted: list[Question]) -> int:
    """Ask, check each answer and each source, and return how many sources are wrong."""
    pages, right, sources, grounded, took = Pages(http), 0, 0, 0, list[float]()
    for question in wanted:
        begun = time.perf_counter()
        answer = await http.post("/api/agent/ask", json={"message": question.message})
        took.append(time.perf_counter() - begun)
        result = answer.raise_for_status().json()["result"]
        wrong = await faults(pages, question, result) if result else ["no result"]
        found = [await is_grounded(pages, source) for source in (result or {"sources": []})["sources"]]
        sources, grounded, right = sources + len(found), grounded + sum(found), right + (not wrong)
        said = " ".join(str((result or {}).get("answer")).split())[:150]
        print(f"  {'WRONG' if wrong else 'right'} {took[-1] * 1000:5.0f} ms  {question.message} → {said}", flush=True)
        print(*(f"        {one}" for one in wrong), sep="\n" if wrong else "", end="\n" if wrong else "")
    print(
        f"{right} of {len(wanted)} right; {grounded} of {sources} sources say their quote; an answer took "
        f"{statistics.median(took) * 1000:.0f} ms by the median, {max(took) * 1000:.0f} ms at most"
    )
    return sources - grounded


async def measure(options: argparse.Namespace, home: Path) -> int:
    documents = sample_questions.documents()
    if options.samples is not None:
        documents += of_samples(options.samples)
    async with contextlib.AsyncExitStack() as stack:
        port = free_port()
        settings = {
            "FIELDMARK_HOME": str(home),
            "FIELDMARK_PORT": str(port),
            "FIELDMARK_LOG_LEVEL": "error",
            "DATABASE_URL": "",
            "SUPABASE_URL": "",
        }
        model: OfflineModel | None = None
        if not options.key:
            model = await stack.enter_async_context(OfflineModel(sample_questions.answer))
            settings |= {"ANTHROPIC_API_KEY": "bench", "ANTHROPIC_BASE_URL": model.base_url}
        stack.enter_context(running(home, 18))
        stack.enter_context(child(*SERVE, **settings))

        def client() -> httpx.AsyncClient:
            headers = {"Authorization": f"Bearer {LocalTokens(home).sign(uuid4())}"}
            return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=300)

        http, other = await stack.enter_async_context(client()), await stack.enter_async_context(client())
        await until_ready(http)
        begun = time.perf_counter()
        await store(http, documents)
        await store(other, [SampleDocument("survey.txt", sample_questions.SECRET.encode())])
        took = time.perf_counter() - begun
        print(
            f"load {os.getloadavg()[0]:.1f}; {len(documents)} documents read and extracted in {took:.0f} s", flush=True
        )
        wrong = await ask_all(http, questions(options.samples))
        if model is not None and "Zurich is 7391" in json.dumps(model.requests, ensure_ascii=False):
            print("WRONG: the model was shown another organisation's document")
            wrong += 1
    return 1 if wrong else 0


async def until_ready(http: httpx.AsyncClient) -> None:
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if (await http.get("/readyz")).status_code == 200:
                return
        await asyncio.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=Path)
    parser.add_argument("--key", action="store_true", help="let Claude answer, with the key of ANTHROPIC_API_KEY")
    options = parser.parse_args()
    heed_signals()
    with tempfile.TemporaryDirectory(prefix="fieldmark-ask-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with bounded(DEADLINE_SECONDS, Path(folder)):
            return asyncio.run(measure(options, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
