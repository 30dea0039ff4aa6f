"""Measures the web UI in Chromium: how long a user waits, and whether scrolling is smooth with much content.

The service, its Postgres and a scripted model run as in production. Times are measured in the page: from the event's
timestamp to the end of the frame that shows the result. Commit times come from Postgres (track_commit_timestamp).
Scrolling is compared with a blank page with as many plain rows.

    pip install '.[bench,browser]' && python bench/page.py [--parts clicks,inbox,commits,loads,scroll,table]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Sequence
from typing import Any

from fieldmark.offline_model.messages import call
from fieldmark.testing.script import Script
from page_site import (
    LINES,
    Site,
    box_of,
    chromium,
    evidence_of,
    make_pdf,
    measure_next_event,
    milliseconds_shown,
    run_site,
)
from processes import restore_signals
from tables import COLUMNS, insert

DEADLINE_SECONDS = 1200
FIELDS, PAGES, DOCUMENTS, RECORDS = 2_000, 500, 10_000, 10_000
CLICKS, REVIEWED, LOADS = 60, 25, 10
WRITES = 20
SCROLLED_SECONDS = 5
SECONDS_BETWEEN_DECISIONS = 0.6  # seconds between two decisions

IDENTIFIED = call("identify_document", {"document_type": "list", "confidence": 0.9})
COMPLETE = call("complete_extraction", {"summary": "All of it."})

# Reported by the browser's performance observers, from the first byte on.
OBSERVERS = """
window.seen = { lcp: 0, cls: 0, tasks: [] };
const observe = (type, take) =>
  new PerformanceObserver((list) => list.getEntries().forEach(take)).observe({ type, buffered: true });
observe('largest-contentful-paint', (one) => (seen.lcp = one.startTime));
observe('layout-shift', (one) => { if (!one.hadRecentInput) seen.cls += one.value; });
observe('longtask', (one) => seen.tasks.push(one.duration));
"""

# When each row was first painted with its stored value, in milliseconds since 1970.
RECORD_PAINTED_ROWS = """() => {
  window.painted = {};
  const channel = new MessageChannel();
  channel.port1.onmessage = ({ data }) => {
    const at = performance.timeOrigin + performance.now();
    for (const path of data) window.painted[path] ??= at;
  };
  const look = () => {
    const rows = document.querySelectorAll('[role=treeitem][data-stored=true]');
    const fresh = [...rows].map((row) => row.dataset.path).filter((path) => !(path in window.painted));
    if (fresh.length > 0) channel.port2.postMessage(fresh);
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""

SCROLL = """({ element, pixels, seconds }) => new Promise((resolve) => {
  const frames = [];
  let last;
  const began = performance.now();
  const step = (now) => {
    if (last !== undefined) frames.push(now - last);
    last = now;
    element.scrollTop += pixels;
    const isDone = now - began > seconds * 1000;
    if (isDone) resolve({ frames, to: element.scrollTop });
    else requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""

SHOW_PLAIN_ROWS = """({ rows, height }) => {
  document.body.style.margin = 0;
  const box = document.createElement('div');
  box.style = 'height: 700px; overflow: auto; position: relative';
  for (let n = 0; n < rows; n += 1) {
    const row = document.createElement('div');
    row.style.height = `${height}px`;
    row.textContent = `Row ${n}, and some words of it`;
    box.append(row);
  }
  document.body.append(box);
  return box.scrollHeight;
}"""


def print_percentiles(what: str, milliseconds: Sequence[float]) -> None:
    ordered = sorted(milliseconds)
    p95 = ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]
    print(
        f"{what:46} p50 {statistics.median(ordered):7.1f} ms   p95 {p95:7.1f} ms   max {ordered[-1]:7.1f} ms   "
        f"n={len(ordered)}",
        flush=True,
    )


async def open_signed_in(browser: Any, site: Site, address: str) -> Any:
    """Open an address in a new window, signed in, with an empty cache."""
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    page = await context.new_page()
    await page.add_init_script(OBSERVERS)
    await page.goto(site.link(address))
    await page.get_by_role("button", name="Sign in").click()  # a link signs in only after a click
    return page


async def create_large_document(site: Site) -> str:
    """Create a document with 2,000 fields on 40 pages."""
    texts = [[f"Item {page * LINES + n:04d}  {page * LINES + n}.50 EUR" for n in range(LINES)] for page in range(40)]
    document = await site.upload("large.pdf", make_pdf(texts))
    fields: dict[str, Any] = {}
    evidence: dict[str, Any] = {}
    for at in range(FIELDS):
        page, line = divmod(at, LINES)
        fields[f"item {at:04d}"] = at + 0.5
        evidence[f"item {at:04d}"] = evidence_of(page + 1, box_of(line, 11, 11 + len(f"{at}.50")), f"{at}.50")
    site.extraction(document, fields, dict.fromkeys(fields, 0.9), evidence)
    return document


async def measure_clicks(browser: Any, site: Site, document: str) -> None:
    page = await open_signed_in(browser, site, f"/documents/{document}")
    tree = page.get_by_role("tree")
    await tree.wait_for()
    near: list[float] = []
    far: list[float] = []
    for n in range(CLICKS):
        # Half of them on the visible page, the others anywhere.
        if n % 2:
            await tree.evaluate(f"one => one.scrollTop = one.scrollHeight * {(n * 37 % 100) / 100}")
        await page.wait_for_timeout(700)
        rows = page.locator("[role=treeitem]:not([aria-selected=true])")
        row = rows.nth(await rows.count() // 2 + n % 3)
        path = await row.get_attribute("data-path")
        chosen = f"""document.querySelector('[data-path="{path}"][class*=chosen]')"""
        box = f"{chosen}?.getBoundingClientRect()"
        isin = f"(() => {{ const box = {box}; return box && box.top > 0 && box.bottom < innerHeight; }})()"
        await measure_next_event(page, "click", isin)
        await row.click()
        (far if n % 2 else near).append((await milliseconds_shown(page))[0])
    print_percentiles("click on a field → its box, near by", near)
    print_percentiles("click on a field → its box, on any page", far)
    await page.context.close()


async def create_uncertain_document(site: Site, n: int) -> None:
    """Create a document with one value of low confidence."""
    document = await site.upload(f"inbox-{n}.pdf", make_pdf([["Invoice 17", f"Total: {n}.50 EUR", "Net: 10.00 EUR"]]))
    evidence = {"total": evidence_of(1, box_of(1, 7, 7 + len(f"{n}.50")), f"{n}.50")}
    site.extraction(document, {"total": n + 0.5}, {"total": 0.3}, evidence)


async def measure_inbox(browser: Any, site: Site) -> None:
    for n in range(REVIEWED):
        await create_uncertain_document(site, n)
    page = await open_signed_in(browser, site, "/inbox")
    await page.get_by_role("region", name="Review Total").get_by_role("button").first.wait_for()
    cards: list[float] = []
    pictures: list[float] = []
    link = "document.querySelector('main a[href*=\"field=\"]')"
    for _ in range(REVIEWED - 1):
        await page.wait_for_timeout(SECONDS_BETWEEN_DECISIONS * 1000)
        before = await page.evaluate(f"{link}.href")
        picture = "document.querySelector('[data-page=\"1\"] img')"
        drawn = f"{picture}?.complete && {picture}.naturalWidth > 0"
        await measure_next_event(page, "keydown", f"{link} && {link}.href !== '{before}'", drawn)
        await page.keyboard.press("Enter")
        for waited, one in zip((cards, pictures), await milliseconds_shown(page), strict=True):
            waited.append(one)
    print_percentiles("Enter in the inbox → the next question", cards)
    print_percentiles("                   → with the picture of its page", pictures)
    await page.context.close()


async def measure_commit_to_paint(browser: Any, site: Site) -> None:
    waited: list[float] = []
    for turn in range(4):
        names = [f"line {n:02d}" for n in range(WRITES)]
        text = "\n".join(f"{name}: {n}.75" for n, name in enumerate(names))
        document = await site.upload(f"written-{turn}.txt", text.encode())
        page = await open_signed_in(browser, site, f"/documents/{document}")
        await page.get_by_role("button", name="Extract").wait_for()
        await page.evaluate(f"({RECORD_PAINTED_ROWS})()")
        each = [
            [call("update_field", {"path": name, "value": n + 0.75, "confidence": 0.9})] for n, name in enumerate(names)
        ]
        site.says[:] = [Script([[IDENTIFIED], *each, [COMPLETE]])]
        await page.get_by_role("button", name="Extract").click()
        await page.get_by_role("menuitem", name="Extract all fields").click()
        await page.locator("[data-phase=complete]").wait_for(timeout=60_000)
        await page.wait_for_timeout(1000)
        painted = await page.evaluate("window.painted")
        rows = site.owner.execute(
            """select j.path[1], extract(epoch from pg_xact_commit_timestamp(j.xmin)) * 1000
               from extraction_journal as j join extractions as e on e.id = j.extraction_id
               where e.document_id = %s and j.path[1] like 'line %%'""",
            [document],
        ).fetchall()
        assert len(rows) == WRITES, rows
        if turn:  # the first round warms up
            waited += [painted[name] - float(at) for name, at in rows]
        await page.context.close()
    print_percentiles("commit of a field → its row", waited)


async def measure_loads(browser: Any, site: Site, document: str) -> None:
    await create_uncertain_document(site, REVIEWED)
    for what, address, running_site in (
        ("the list", "/documents", "[role=rowgroup] a"),
        ("a document of 2,000 fields", f"/documents/{document}", "[data-page] img"),
        ("the inbox", "/inbox", "main section button"),
    ):
        paints: list[float] = []
        shifts: list[float] = []
        tasks: list[float] = []
        for _ in range(LOADS):
            page = await open_signed_in(browser, site, address)
            await page.locator(running_site).first.wait_for()
            await page.wait_for_timeout(1500)
            seen = await page.evaluate("seen")
            paints.append(seen["lcp"])
            shifts.append(seen["cls"])
            tasks.append(max(seen["tasks"], default=0))
            await page.context.close()
        print_percentiles(f"cold load of {what}: LCP", paints)
        print(f"    CLS at most {max(shifts):.4f}; longest task {max(tasks):.0f} ms", flush=True)


async def measure_table(browser: Any, site: Site) -> None:
    row = site.owner.execute("select id from organisations").fetchone()
    assert row is not None
    site.owner.execute("set session_replication_role = replica")
    insert(site.owner, row[0], 1, RECORDS, COLUMNS)
    site.owner.execute("set session_replication_role = origin")
    site.owner.execute("vacuum analyze")
    waited: list[float] = []
    for turn in range(LOADS + 2):
        page = await open_signed_in(browser, site, f"/tables/{row[0]}")
        await page.locator("[role=gridcell][aria-colindex='3']", has_text="value").first.wait_for()
        if turn > 1:  # the first rounds warm up the service
            waited.append(await page.evaluate("performance.now()"))
        await page.context.close()
    print_percentiles(f"cold load of {RECORDS:,} records: sign-in to first rows", waited)


async def measure_scroll(browser: Any, site: Site, large: str) -> None:
    texts = [[f"Page {page}, line {n}" for n in range(LINES)] for page in range(1, PAGES + 1)]
    long = await site.upload("long.pdf", make_pdf(texts))
    fill = """insert into documents (id, org_id, created_by, created_at, filename, storage_path, media_type, byte_size,
            status, page_count)
        select new.id, org_id, created_by, created_at - n * interval '1 second', 'row ' || n,
            concat_ws('/', org_id, new.id, 'long.pdf'), media_type, 9, 'ready', 1
        from documents, (select n, gen_random_uuid() as id from generate_series(1, %s) as n) as new
        where documents.id = %s"""
    site.owner.execute(fill, [DOCUMENTS, long])
    for what, address, selector, rows, height, pixels in (
        (f"{FIELDS:,} fields", f"/documents/{large}", "[role=tree]", FIELDS, 32, 200),
        (f"{PAGES} pages", f"/documents/{long}", "[role=region][aria-label=Document]", PAGES, 1200, 120),
        (f"{DOCUMENTS:,} documents", "/documents", "[role=table]", DOCUMENTS, 40, 200),
    ):
        plain = await (await browser.new_context(viewport={"width": 1440, "height": 900})).new_page()
        await plain.evaluate(SHOW_PLAIN_ROWS, {"rows": rows, "height": height})
        # A blank page with as many rows, then the web UI, so that other load affects both.
        baseline = await frame_times(plain, "body > div", pixels)
        await plain.context.close()
        page = await open_signed_in(browser, site, address)
        await page.locator(selector).wait_for()
        await page.wait_for_timeout(2000)
        ours = await frame_times(page, selector, pixels)
        await page.context.close()
        print(
            f"scrolling {what:18} {format_frames(ours)}\n          {'plain rows':18} {format_frames(baseline)}   "
            f"mean frame {statistics.mean(ours) / statistics.mean(baseline):.2f} x",
            flush=True,
        )


async def frame_times(page: Any, selector: str, pixels: int) -> list[float]:
    element = await page.query_selector(selector)
    asked = {"element": element, "pixels": pixels, "seconds": SCROLLED_SECONDS}
    answer = await page.evaluate(SCROLL, asked)
    assert answer["to"] > 0, answer
    return answer["frames"]


def format_frames(frames: Sequence[float]) -> str:
    slow = sum(one > 50 for one in frames) / len(frames)
    return f"{slow:6.1%} of {len(frames)} frames over 50 ms, the longest {max(frames):.0f} ms"


async def main(parts: Sequence[str]) -> None:
    async with run_site(DEADLINE_SECONDS) as running_site, chromium() as browser:
        large = await create_large_document(running_site)
        if "clicks" in parts:
            await measure_clicks(browser, running_site, large)
        if "commits" in parts:
            await measure_commit_to_paint(browser, running_site)
        if "inbox" in parts:
            await measure_inbox(browser, running_site)
        if "scroll" in parts:
            await measure_scroll(browser, running_site, large)
        if "table" in parts:
            await measure_table(browser, running_site)
        if "loads" in parts:
            await measure_loads(browser, running_site, large)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="clicks,commits,inbox,scroll,table,loads")
    options = parser.parse_args()
    restore_signals()
    asyncio.run(main(options.parts.split(",")))
