"""How many of the true values of photographed receipts our own OCR finds, in each of the four directions.

    python bench/photographs.py ../shared/samples [--misses]

The folder holds photographs with their truth: `*.jpg` with `*.truth.json`, and `sroie/img/NNN.jpg` with
`sroie/key/NNN.json`. Each is read as it is and turned by 90°, 180° and 270°, through the sandbox. A value is found if
grounding finds it on the page, as it would for the model that claims it; `text` counts those whose letters and digits
stand in the page's text one after the other. What no receipt prints (a count of items, a currency in words) is left
out. The truth is not used for anything else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageOps

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "backend"))

from fieldmark.documents.reading.pages import DocumentContent, Limits  # noqa: E402
from fieldmark.documents.reading.sandbox import read_file  # noqa: E402
from fieldmark.grounding import DocumentIndex, PageWords  # noqa: E402

LIMITS = Limits(seconds=600, patience=100)
NOT_PRINTED = frozenset({"num_items", "currency"})
DIRECTIONS = (0, 90, 180, 270)


def photographs(folder: Path) -> list[tuple[Path, dict[str, str]]]:
    """Each photograph with its true values."""
    found = [(path, path.with_suffix(".truth.json")) for path in sorted(folder.glob("*.jpg"))]
    receipts = folder / "sroie"
    found += [(path, receipts / "key" / f"{path.stem}.json") for path in sorted(receipts.glob("img/*.jpg"))]
    told = [(path, json.loads(truth.read_text())) for path, truth in found]
    return [(path, {name: str(v) for name, v in truth.items() if name not in NOT_PRINTED}) for path, truth in told]


def turned(path: Path, angle: int, folder: Path) -> Path:
    """The photograph as it is seen, turned to the left, as a file of its own without loss."""
    if angle == 0:
        return path
    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image)
        turn = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)[angle // 90]
        assert turn is not None
        result = folder / f"{path.stem}.{angle}.png"
        upright.transpose(turn).save(result, compress_level=1)
    return result


def letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def found_in(content: DocumentContent, values: dict[str, str]) -> tuple[set[str], set[str]]:
    """The names of the values that grounding finds, and of those that the text has."""
    index = DocumentIndex(
        [PageWords(page.number, [[w.text, w.x0, w.y0, w.x1, w.y1] for w in page.words]) for page in content.pages]
    )
    text = letters(" ".join(page.text for page in content.pages))
    grounded = {name for name, value in values.items() if index.find(value, label=(name,)) is not None}
    return grounded, {name for name, value in values.items() if letters(value) in text}


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--misses", action="store_true", help="name what was not found, and show the page")
    options = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for angle in DIRECTIONS:
            total = grounded = spelled = 0
            for path, values in photographs(options.samples):
                content = await read_file(turned(path, angle, Path(folder)), "photograph", LIMITS)
                found, in_text = found_in(content, values)
                total, grounded, spelled = total + len(values), grounded + len(found), spelled + len(in_text)
                if options.misses:
                    for name in values.keys() - found:
                        print(f"{path.name} {angle}°: {name} {values[name]!r}")
            print(f"{angle:3}°: {grounded} of {total} found ({grounded / total:.1%}), {spelled} in the text")
            missed += grounded < 0.97 * total
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
