"""Takes the screenshots in the documentation, of docs/samples in demo mode.

    pip install '.[bench,browser]' && python frontend/screenshots.py docs/pictures

They are 1280 × 800 pixels with a colour palette, at most 200 kB each.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from pathlib import Path
from typing import Any

from PIL import Image

sys.path.append(str(Path(__file__).parents[1] / "bench"))

from page_site import Site, chromium, run_site

SAMPLES = Path(__file__).parents[1] / "docs" / "samples"
FILES = ["zf_mustang_20221026.pdf", "i2d_AzureInterior.pdf", "sm_lidl_02032020_02_00716.jpg"]
COLUMNS = [
    {"name": "invoice_number"},
    {"name": "invoice_date", "type": "date"},
    {"name": "subtotal", "type": "number"},
    {"name": "tax", "type": "number"},
    {"name": "total", "type": "number"},
    {"name": "currency", "type": "currency"},
]
MAX_BYTES = 200_000
DEADLINE_SECONDS = 600


async def extract_sample(at: Site, name: str) -> str:
    document = await at.upload(name, (SAMPLES / name).read_bytes())
    answer = await at.http.post("/api/agent/extract", json={"document_id": document})
    answer.raise_for_status()
    return document


async def fill_stack(at: Site, name: str, documents: list[str]) -> str:
    stack = {"name": name, "document_ids": documents, "columns": COLUMNS}
    stack_id = (await at.http.post("/api/stacks", json=stack)).raise_for_status().json()["id"]
    (await at.http.post("/api/agent/stack", json={"stack_id": stack_id, "approval": "auto"})).raise_for_status()
    return stack_id


async def open_page(at: Site, browser: Any, address: str, colours: str) -> Any:
    context = await browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=colours)
    page = await context.new_page()
    await page.goto(at.link(address))
    await page.get_by_role("button", name="Sign in").click()  # a link signs in only after a click
    return page


async def save_screenshot(page: Any, folder: Path, name: str) -> None:
    await page.wait_for_load_state("networkidle")
    await page.wait_for_timeout(1_000)  # animations have ended
    shot = Image.open(io.BytesIO(await page.screenshot()))
    target = folder / f"{name}.png"
    shot.convert("RGB").quantize(256).save(target, optimize=True)
    size = target.stat().st_size
    assert size <= MAX_BYTES, f"{target.name} has {size} bytes"
    print(f"{target.name}: {size / 1000:.0f} kB")
    await page.context.close()


async def take_screenshots(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    async with run_site(DEADLINE_SECONDS, offline=True) as at, chromium() as browser:
        documents = [await extract_sample(at, name) for name in FILES]
        invoice = documents[1]

        page = await open_page(at, browser, f"/documents/{invoice}?field=total", "light")
        await page.locator("rect[class*=chosen]").first.wait_for(state="attached")
        await page.locator("[data-page] img").first.wait_for()
        await save_screenshot(page, folder, "document")

        page = await open_page(at, browser, f"/documents/{invoice}?unmapped=true", "dark")
        await page.get_by_role("tab", name="Unmapped").wait_for()
        await page.locator("[data-page] img").first.wait_for()
        await save_screenshot(page, folder, "unmapped")

        stack = await fill_stack(at, "Invoices", documents)
        page = await open_page(at, browser, f"/tables/{stack}", "light")
        await page.get_by_role("row", name=FILES[1]).get_by_text("279.84").click()
        await page.get_by_role("complementary").locator("img").first.wait_for()
        await save_screenshot(page, folder, "stack")

        page = await open_page(at, browser, "/inbox", "light")
        await page.locator("[data-page] img").first.wait_for()
        await save_screenshot(page, folder, "inbox")

        page = await open_page(at, browser, "/ask", "dark")
        await page.get_by_label("Your question").fill("How many invoices are over 100?")
        await page.keyboard.press("Enter")
        source = page.get_by_role("list", name="Sources").get_by_role("button").first
        await source.click()
        await page.get_by_role("complementary", name="Source").locator("rect").first.wait_for(state="attached")
        await save_screenshot(page, folder, "ask")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    asyncio.run(take_screenshots(parser.parse_args().folder))
