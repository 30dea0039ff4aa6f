"""Makes the pictures of the page that the documentation shows, from docs/samples, with the rules in the model's place.

    pip install '.[bench,browser]' && python frontend/pictures.py docs/pictures

They are of 1280 × 800 points, with a palette of colours, so that each takes at most 150 kB.
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

from page_site import Site, chromium, site

SAMPLES = Path(__file__).parents[1] / "docs" / "samples"
FILES = ["zf_mustang_20221026.pdf", "i2d_AzureInterior.pdf", "sm_lidl_02032020_02_00716.jpg"]
MOST_BYTES = 150_000
DEADLINE_SECONDS = 600


async def extracted(at: Site, name: str) -> str:
    """The id of a document that was read."""
    document = await at.upload(name, (SAMPLES / name).read_bytes())
    answer = await at.http.post("/api/agent/extract", json={"document_id": document})
    answer.raise_for_status()
    return document


async def entered(at: Site, browser: Any, address: str, colours: str) -> Any:
    """A window that shows an address, signed in."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=colours)
    page = await context.new_page()
    await page.goto(at.link(address))
    await page.get_by_role("button", name="Sign in").click()  # a link signs nobody in unasked
    return page


async def keep(page: Any, folder: Path, name: str) -> None:
    """Write what a window shows, once it has come to rest."""
    await page.wait_for_load_state("networkidle")
    await page.wait_for_timeout(1_000)  # what flashes and fades has done so
    shot = Image.open(io.BytesIO(await page.screenshot()))
    target = folder / f"{name}.png"
    shot.convert("RGB").quantize(128).save(target, optimize=True)
    size = target.stat().st_size
    assert size <= MOST_BYTES, f"{target.name} has {size} bytes"
    print(f"{target.name}: {size / 1000:.0f} kB")
    await page.context.close()


async def pictures(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    async with site(DEADLINE_SECONDS, offline=True) as at, chromium() as browser:
        _, invoice, _ = [await extracted(at, name) for name in FILES]

        page = await entered(at, browser, f"/documents/{invoice}?field=total", "light")
        await page.locator("rect[class*=chosen]").first.wait_for(state="attached")
        await page.locator("[data-page] img").first.wait_for()
        await keep(page, folder, "document")

        page = await entered(at, browser, f"/documents/{invoice}?unmapped=true", "dark")
        await page.get_by_role("tab", name="Unmapped").wait_for()
        await page.locator("[data-page] img").first.wait_for()
        await keep(page, folder, "unmapped")

        page = await entered(at, browser, "/review/by-field?path=total", "light")
        await page.get_by_role("textbox").first.wait_for()
        await keep(page, folder, "by-field")

        page = await entered(at, browser, "/ask", "dark")
        await page.get_by_label("Your question").fill("How many invoices are over 100?")
        await page.keyboard.press("Enter")
        source = page.get_by_role("list", name="Sources").get_by_role("button").first
        await source.click()
        await page.get_by_role("complementary", name="Source").locator("rect").first.wait_for(state="attached")
        await keep(page, folder, "ask")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    asyncio.run(pictures(parser.parse_args().folder))
