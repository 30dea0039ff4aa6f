"""The exercise: how many keys, how much time, and which errors are caught when documents are gone through in Review.

Each document has ten fields whose true values are known. A share of them was read wrong, in ways that evidence shows
(the value stands nowhere, the confidence is low, a rule is broken) and in one that it does not: another value of the
same page was taken, with its evidence. A scripted keyboard goes through Review as a careful person would: it knows the
truth, presses Enter where the value is right, writes it where it is not, and sees nothing that Review does not show.

    pip install '.[bench,browser]' && python bench/review.py [--documents 20] [--wrong 0.15] [--seed 1]

Ends with 1 where an error was missed that the evidence of its own field shows.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from page_site import NOT_FOUND, Site, box_of, chromium, found, pdf, site
from processes import heed_signals

DEADLINE_SECONDS = 500
TEXTS = ("number", "vendor", "customer", "iban", "order")
AMOUNTS = ("net", "tax", "shipping", "discount", "total")
SHOWN = ("stands nowhere", "low confidence", "breaks a rule")
UNSEEN = "another value of the page"
# The kinds of a right value that is asked about all the same.
DOUBTED = "right, but unsure"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in TEXTS},
        **{name: {"type": "number", "minimum": 0} for name in AMOUNTS},
    },
}


@dataclass
class Paper:
    """One document: what is true, what was read, and how each of those that are wrong is wrong."""

    lines: list[str]
    truth: dict[str, Any]
    fields: dict[str, Any] = field(default_factory=dict)
    confidences: dict[str, float] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)


def a_paper(number: int, wrong: float, chance: random.Random) -> Paper:
    truth: dict[str, Any] = {name: f"{name[:3].upper()}-{number}{chance.randrange(1000, 9999)}" for name in TEXTS}
    truth |= {name: chance.randrange(100, 99_999) + 0.25 for name in AMOUNTS}
    lines = [f"{name}: {value}" for name, value in truth.items()]
    paper = Paper(lines, truth)
    for line, (name, value) in enumerate(truth.items()):
        paper.fields[name], paper.confidences[name] = value, 0.95
        paper.evidence[name] = printed(line, name, value)
        if chance.random() < wrong:
            make_wrong(paper, name, chance)
        elif chance.random() < wrong:
            paper.kinds[name] = DOUBTED
            paper.confidences[name] = 0.3
    return paper


def printed(line: int, name: str, value: Any) -> dict[str, Any]:
    start = len(name) + 2
    return found(1, box_of(line, start, start + len(str(value))), str(value))


def make_wrong(paper: Paper, name: str, chance: random.Random) -> None:
    kinds = [*SHOWN, UNSEEN] if name in AMOUNTS else [SHOWN[0], SHOWN[1], UNSEEN]
    kind = chance.choice(kinds)
    value = paper.truth[name]
    if kind == UNSEEN or kind == "low confidence":
        # What stands beside it on the page was taken.
        others = [one for one in (AMOUNTS if name in AMOUNTS else TEXTS) if one != name]
        other = chance.choice(others)
        value = paper.truth[other]
        paper.evidence[name] = printed(list(paper.truth).index(other), other, value)
        paper.confidences[name] = 0.3 if kind == "low confidence" else 0.95
    elif kind == "breaks a rule":
        value = -value
    else:
        value = value + 1000 if name in AMOUNTS else f"{value}X"
        paper.evidence[name] = NOT_FOUND
    paper.fields[name] = value
    paper.kinds[name] = kind


@dataclass
class Done:
    """What the keyboard did."""

    settled: int = 0
    keys: int = 0
    corrected: int = 0
    keys_beside: int = 0
    """Of the corrected ones, beside the letters of the value."""
    seconds: float = 0.0
    shown: Counter[str] = field(default_factory=Counter)


async def go_through(page: Any, there: Site, papers: dict[str, Paper]) -> Done:
    """Until nothing is left to check."""
    done = Done()
    card = page.get_by_role("region", name="To check")
    empty = page.get_by_role("heading", name="Nothing to check")
    await card.or_(empty).first.wait_for()
    before = ""
    began = time.perf_counter()
    while True:
        # What is shown now: another one than was just decided. (Asked in the page: a poll would be what is timed.)
        state = await page.evaluate(NEXT, before)
        if state is None:
            break
        before = state["key"]
        paper = papers[state["document"]]
        path, truth = state["path"], paper.truth[state["path"]]
        done.shown[paper.kinds.get(path, "right, and asked about")] += 1
        written = str(truth)
        if state["text"] == written:
            await page.keyboard.press("Enter")
            done.keys += 1
        else:
            await page.keyboard.type(written)  # all of what stands there is marked
            await page.keyboard.press("Enter")
            done.keys += 1
            done.keys_beside += 1
            done.corrected += 1
        done.settled += 1
    done.seconds = time.perf_counter() - began
    # (Review goes on at once, and writes meanwhile.)
    locked = 0
    while locked < sum(done.shown.values()) and time.perf_counter() < began + done.seconds + 30:
        row = there.owner.execute("select count(*) from extractions, jsonb_object_keys(locks)").fetchone()
        locked = 0 if row is None else row[0]
        await asyncio.sleep(0.1)
    return done


# The value that is asked about, as soon as it is another than `before` (the same one again: it could not be written),
# marked and ready to be written over; null when there is none.
NEXT = """(before) => new Promise((resolve, reject) => {
  const began = performance.now();
  const look = () => {
    const input = document.querySelector('main section input[aria-label^="Value of "]');
    const link = document.querySelector('main a[href*="extraction="]');
    const path = input?.getAttribute('aria-label').slice('Value of '.length);
    const id = link?.href.split('/documents/')[1].split('?')[0];
    const key = `${id} ${path}`;
    const isAnother = key !== before || performance.now() - began > 3000;
    const isReady = input && link && isAnother && document.activeElement === input;
    if (isReady) resolve({ key, path, document: id, text: input.value });
    else if (document.querySelector('main h2')?.textContent === 'Nothing to check') resolve(null);
    else if (performance.now() - began > 20000) reject(new Error(`nothing came behind ${before}`));
    else requestAnimationFrame(look);
  };
  look();
})"""


async def main(documents: int, wrong: float, seed: int) -> int:
    chance = random.Random(seed)
    papers: dict[str, Paper] = {}
    extractions: dict[str, str] = {}
    async with site(DEADLINE_SECONDS) as there, chromium() as browser:
        for number in range(documents):
            paper = a_paper(number, wrong, chance)
            document = await there.upload(f"paper-{number}.pdf", pdf([paper.lines]))
            papers[document] = paper
            known = (paper.fields, paper.confidences, paper.evidence)
            extractions[document] = there.extraction(document, *known, SCHEMA)
        page = await (await browser.new_context(viewport={"width": 1440, "height": 900})).new_page()
        await page.goto(there.link("/review"))
        done = await go_through(page, there, papers)
        right = 0
        caught: Counter[str] = Counter()
        missed: Counter[str] = Counter()
        for document, paper in papers.items():
            now = (await there.http.get(f"/api/extractions/{extractions[document]}")).json()["extracted_fields"]
            for name, truth in paper.truth.items():
                right += now[name] == truth
                kind = paper.kinds.get(name)
                if kind in (*SHOWN, UNSEEN):
                    (caught if now[name] == truth else missed)[kind] += 1
    print(f"{documents} documents of {len(TEXTS) + len(AMOUNTS)} fields; {(caught + missed).total()} wrong")
    kinds = ", ".join(f"{number} {kind}" for kind, number in done.shown.most_common())
    print(f"asked about: {done.settled} ({kinds})")
    print(f"keys per settled field, beside a value's letters: {done.keys / done.settled:.2f}")
    print(f"keys per corrected field, beside its letters: {done.keys_beside / done.corrected:.2f} ({done.corrected})")
    print(f"fields a minute, if the person took no time: {done.settled / done.seconds * 60:.0f}")
    for kind in (*SHOWN, UNSEEN):
        print(f"    {kind:26} caught {caught[kind]:3}   missed {missed[kind]:3}")
    print(f"right in the end: {right} of {documents * 10}")
    return int(any(missed[kind] for kind in SHOWN[:2]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--wrong", type=float, default=0.15)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    heed_signals()
    sys.exit(asyncio.run(main(given.documents, given.wrong, given.seed)))
