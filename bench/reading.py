"""Measures pages per second of PDFs with text on one core: our reader with and without its sandbox, and pdfplumber."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pdfplumber
import pypdfium2

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "backend"))

from pagewords.pages import Limits  # noqa: E402
from pagewords.pdf import Pdf  # noqa: E402
from pagewords.sandbox import read_file  # noqa: E402


def write_pdf(pages: int, path: Path) -> int:
    """Write a PDF with at least `pages` pages and return the number of its pages."""
    whole = pypdfium2.PdfDocument.new()
    samples = [pypdfium2.PdfDocument(sample) for sample in sorted((ROOT / "docs" / "samples").glob("*.pdf"))]
    while len(whole) < pages:
        for sample in samples:
            whole.import_pages(sample)
    whole.save(path)
    count = len(whole)
    for document in (*samples, whole):
        document.close()
    return count


def read_with_fieldmark(path: Path) -> int:
    pdf = Pdf(path.read_bytes(), Limits())
    return sum(len(page.words) for number in range(1, pdf.page_count + 1) if (page := pdf.read_page(number)))


def read_in_sandbox(path: Path) -> int:
    return sum(len(page.words) for page in asyncio.run(read_file(path, path.name, Limits())).pages)


def read_with_pdfplumber(path: Path) -> int:
    words = 0
    with pdfplumber.open(path) as pdf:
        for page in pdf.pages:
            page.extract_text()
            words += len(page.extract_words())
            page.close()
    return words


def pages_per_second(reader: Callable[[Path], int], path: Path, pages: int, times: int) -> float:
    """Return pages per second: the best of `times` attempts."""
    best, words = 0.0, 0
    for _ in range(times):
        started = time.perf_counter()
        words = reader(path)
        best = max(best, pages / (time.perf_counter() - started))
    print(f"{reader.__name__.removeprefix('with_').replace('_', ' '):16} {best:8.1f} pages/s  ({words:,} words)")
    return best


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pages", type=int, default=300)
    given = arguments.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # inherited by the sandbox process: one core for both
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "repeated.pdf"
        pages = write_pdf(given.pages, path)
        print(f"{pages} pages, {path.stat().st_size / 2**20:.1f} MiB, one core")
        ours = pages_per_second(read_with_fieldmark, path, pages, 3)
        sandboxed = pages_per_second(read_in_sandbox, path, pages, 3)
        other = pages_per_second(read_with_pdfplumber, path, pages, 1)
    print(f"ours / pdfplumber: {ours / other:.1f}, in the sandbox: {sandboxed / other:.1f}")


if __name__ == "__main__":
    main()
