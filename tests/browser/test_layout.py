"""The main screens fit in four widths and at a zoom of 200 %: no page scrolls sideways, no control is cut off, and none
covers another.

Boxes are compared instead of pixels, which depend on the fonts of a machine.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from browser.window import playwright
from library_rows import LibraryDocument, insert_documents

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.full]

NAME = "Invoices of all our branches in November"
WIDTHS = {1440: 900, 1024: 768, 768: 1024, 720: 450, 390: 844}  # 720: a zoom of 200 %
SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "number" if name in ("net", "total") else "string"} for name in
                   ("vendor", "number", "date", "net", "total", "currency")},
    "required": ["vendor"],
}  # fmt: skip
# Returns what is wrong with the boxes of what can be clicked, and of titles. What a box scrolls out of view is skipped.
FAULTS = """() => {
  const faults = [];
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) faults.push(`scrolls sideways: ${root.scrollWidth} of ${innerWidth} pixels`);
  const clips = (one) => getComputedStyle(one).overflow !== 'visible';
  const visible = (one) => {
    let { left, top, right, bottom } = one.getBoundingClientRect();
    for (let at = one.parentElement; at !== null; at = at.parentElement) {
      if (!clips(at)) continue;
      const box = at.getBoundingClientRect();
      [left, top] = [Math.max(left, box.left), Math.max(top, box.top)];
      [right, bottom] = [Math.min(right, box.right), Math.min(bottom, box.bottom)];
    }
    return { left, top, right, bottom };
  };
  const scroller = (one) => {
    for (let at = one.parentElement; at !== null; at = at.parentElement)
      if (/auto|scroll/.test(getComputedStyle(at).overflowX)) return at;
    return null;
  };
  const name = (one) => `${one.tagName} ${(one.ariaLabel ?? one.innerText ?? '').trim().slice(0, 40)}`;
  const controls = [...document.querySelectorAll('button, a[href], input, select, textarea, h1, h2')].filter(
    (one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: true })
      && one.closest('.sr-only, [aria-hidden]') === null);
  // Text that a frame cuts off without an ellipsis. Grids, tabs and, on narrow windows, tables scroll sideways.
  const textsOf = (one) => [...one.querySelectorAll('*')].filter((inner) =>
    [...inner.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== '')
      && inner.checkVisibility({ visibilityProperty: true }) && inner.closest('.sr-only') === null);
  const visibleIn = (inner, frame) => {
    let { right } = inner.getBoundingClientRect();
    for (let at = inner.parentElement; at !== null && at !== frame; at = at.parentElement)
      if (clips(at)) right = Math.min(right, at.getBoundingClientRect().right);
    return right;
  };
  const wide = '[role=grid], [role=treegrid], [role=tablist], pre, input, textarea, ' +
    (innerWidth < 1024 ? '[class*=overflow-x-auto]' : '[class*=overflow-x-auto]:not([role=region])');
  for (const one of document.querySelectorAll('body *')) {
    if (!clips(one) || one.scrollWidth <= one.clientWidth + 1 || one.clientWidth < 2) continue;
    if (getComputedStyle(one).textOverflow === 'ellipsis' || one.closest(wide) !== null) continue;
    if (one.closest('.sr-only') !== null) continue;
    const end = one.getBoundingClientRect().left + one.clientWidth + 1;
    const cut = textsOf(one).find((inner) => visibleIn(inner, one) > end);
    if (cut !== undefined) faults.push(`${name(cut)} is text that is cut off`);
  }
  const shown = [];
  for (const one of controls) {
    const box = one.getBoundingClientRect();
    const seen = visible(one);
    if (box.width < 2 || box.height < 2) continue;
    if ((box.right > innerWidth + 1 || box.left < -1) && scroller(one) === null) faults.push(`${name(one)} is cut off`);
    const isWhole = seen.right - seen.left >= box.width - 1 && seen.bottom - seen.top >= box.height - 1;
    if (isWhole && box.bottom <= innerHeight && box.right <= innerWidth) shown.push([one, box]);
  }
  for (const [one, box] of shown) {
    if (!one.matches('button, a[href], input, select, textarea')) continue;
    const at = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    if (at === null || one.contains(at) || at.contains(one) || at.closest('label')?.contains(one)) continue;
    if (scroller(one)?.contains(at)) continue; // what sticks covers what is scrolled below it
    faults.push(`${name(one)} is covered by ${name(at)}`);
  }
  return faults;
}"""


@pytest.fixture
async def addresses(serve, clone):
    async with serve(with_worker=False) as server:
        schema = (await server.http.post("/api/schemas", json={"name": NAME, "schema": SCHEMA})).json()
        rows = [
            {"vendor": "Halden Paper & Print", "number": f"BW-{number}", "date": "2026-11-18", "net": 1000.5 * number,
             "total": 1190.6 * number, "currency": "EUR"} for number in range(1, 40)
        ]  # fmt: skip
        documents = [
            LibraryDocument(
                fields,
                filename=f"{fields['number']}.pdf",
                schema_revid=UUID(schema["schema_revid"]),
                unverified=frozenset(("total",)),
            )
            for fields in rows
        ]
        insert_documents(clone.owner_url, server.scope, documents)
        table = f"/tables/{schema['id']}"
        yield (
            server,
            {
                "home": "/",
                "inbox": "/inbox",
                "tables": "/tables",
                "table": table,
                "groups": f"{table}?group=vendor",
                "quality": f"/quality/{schema['id']}",
                "documents": "/documents",
                "document": f"/documents/{documents[0].id}",
                "ask": "/ask",
                "schemas": f"/schemas/{schema['id']}",
                "runs": "/runs",
                "settings": "/settings",
                "approvals": "/settings?part=approvals",
                "sources": "/settings?part=sources",
            },
        )


async def test_main_screens_fit_in_four_widths_and_at_200_percent(addresses, browsing):
    server, screens = addresses
    async with browsing(server) as window:
        page = window.page
        await window.open()
        found = {}
        for screen, address in screens.items():
            await page.goto(f"{server.base_url}{address}")
            await page.get_by_role("heading").first.wait_for()
            await page.wait_for_load_state("networkidle")
            for width, height in WIDTHS.items():
                await page.set_viewport_size({"width": width, "height": height})
                await page.wait_for_timeout(150)  # what is measured is drawn again
                if faults := await page.evaluate(FAULTS):
                    found[f"{screen} {width}"] = faults
                if screen == "document" and width == 720:
                    await playwright.expect(page.locator("[data-page='1']")).to_be_in_viewport(ratio=0.2)
                    await playwright.expect(page.get_by_role("treeitem").first).to_be_in_viewport()
        assert found == {}
        # The check finds each of these faults.
        for style, fault in (
            ({"position": "absolute", "left": "0px", "width": "3000px"}, "scrolls sideways"),
            ({"position": "fixed", "left": "-20px", "top": "0px"}, "is cut off"),
            ({"position": "fixed", "inset": "0px"}, "is covered by"),
            ({"width": "10px", "overflow": "hidden"}, "is text that is cut off"),
        ):
            await page.evaluate(
                """style => {
                  const one = document.body.appendChild(document.createElement('button'));
                  const text = one.appendChild(document.createElement('span'));
                  text.textContent = 'in the way';
                  text.style.whiteSpace = 'nowrap';
                  Object.assign(one.style, style);
                }""",
                style,
            )
            assert fault in " ".join(await page.evaluate(FAULTS))
            await page.evaluate("document.body.lastChild.remove()")
