from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from pagewords import sniff
from pagewords.errors import NoSuchPage, Unreadable
from pagewords.pages import Limits
from pagewords.render import render_page
from pagewords.sandbox import read_file

pytestmark = pytest.mark.anyio
SAMPLE = Path(__file__).parents[2] / "docs" / "samples" / "zf_mustang_20221026.pdf"


def ink_mask(png: bytes) -> Image.Image:
    """White where the page has ink."""
    return Image.open(io.BytesIO(png)).convert("L").point(lambda value: 255 * (value < 160))


@pytest.mark.parametrize("name", ["sample", "text"])
async def test_every_box_contains_ink_and_no_ink_is_outside_boxes(tmp_path: Path, name: str) -> None:
    path = SAMPLE
    if name != "sample":
        path = tmp_path / f"a.{name}"
        path.write_text("Total   19,50 €\n" + "lang " * 60 + "y" * 300)
    reading = await read_file(path, path.name, Limits())
    page = reading.pages[0]
    image = ink_mask(await render_page(path, reading.media_type, 1, Limits(), dpi=100))
    assert image.width == pytest.approx(page.width / 72 * 100, abs=1)
    for word in page.words:
        box = (word.x0 * image.width, word.y0 * image.height, word.x1 * image.width, word.y1 * image.height)
        assert image.crop(tuple(map(round, box))).getbbox(), word
        image.paste(0, tuple(round(side) + grow for side, grow in zip(box, (-1, -1, 2, 2), strict=True)))
    if name != "sample":  # the sample also has lines and a logo
        assert image.getbbox() is None


async def test_only_existing_pages_have_images(tmp_path: Path) -> None:
    assert await render_page(SAMPLE, sniff.PDF, 1, Limits())
    for number in (0, 5, -1):
        with pytest.raises(NoSuchPage, match=f"no page {number}; it has 4"):
            await render_page(SAMPLE, sniff.PDF, number, Limits())
    with pytest.raises(NoSuchPage, match="no page images"):
        await render_page(SAMPLE, "application/x-other", 1, Limits())


async def test_huge_page_is_reduced_and_damaged_image_is_refused(tmp_path: Path) -> None:
    png = Image.open(io.BytesIO(await render_page(SAMPLE, sniff.PDF, 1, Limits(), dpi=100_000)))
    assert png.width * png.height <= 16_000_000
    path = tmp_path / "a.png"
    Image.effect_noise((50, 50), 9).save(path)
    assert await render_page(path, sniff.PNG, 1, Limits(max_pixels=2500))
    with pytest.raises(Unreadable, match="the limit is 0"):
        await render_page(path, sniff.PNG, 1, Limits(max_pixels=2499))
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(Unreadable, match="PNG image is damaged or cut off"):
        await render_page(path, sniff.PNG, 1, Limits())
