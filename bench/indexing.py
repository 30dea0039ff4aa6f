"""Whether indexing keeps up with reading: the time that a document takes to be read, and then to be indexed.

A PDF of many pages (those of docs/samples, again and again) is read as the service reads it, in its sealed process, and
kept; then it is indexed by the service's own function. Both in one run, in turn, in an organisation that has more with
each document. Reading a text layer is the fastest that there is: OCR takes a second a page.

    pip install '.[bench]' && python bench/indexing.py [--pages 100] [--documents 10]

Ends with 1 if indexing takes longer than reading.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from uuid import uuid4

from fieldmark.db.embedded import running
from fieldmark.db.migrate import migrate
from fieldmark.db.pool import Database
from fieldmark.documents.reading.pages import Limits
from fieldmark.documents.reading.sandbox import read_file
from fieldmark.files import LocalFiles
from fieldmark.services import search
from fieldmark.services.documents import DocumentService
from fieldmark.services.organisations import enter
from processes import bounded, heed_signals
from reading import repeated

DEADLINE_SECONDS = 1200


async def measure(options: argparse.Namespace, home: Path) -> int:
    path = home / "repeated.pdf"
    pages = repeated(options.pages, path)
    with running(home, 18) as server:
        await migrate(server.owner_url, app_password=server.app_password)
        async with Database(server.app_url, size=2) as database:
            scope = await enter(database, uuid4())
            service = DocumentService(database, LocalFiles(home / "originals"), Limits())
            await read_file(path, path.name, Limits())  # whatever is loaded once has been loaded
            ratios: list[float] = []
            for _ in range(options.documents):
                document = await service.upload(scope, path, path.name)
                began = time.perf_counter()
                await service.read(document.id)
                reading = time.perf_counter() - began
                began = time.perf_counter()
                await search.index(database, document.id)
                indexing = time.perf_counter() - began
                ratios.append(indexing / reading)
                print(f"{pages} pages: read in {reading:.2f} s, indexed in {indexing:.2f} s", flush=True)
    median = statistics.median(ratios)
    print(f"indexing / reading: {median:.2f} by the median, {max(ratios):.2f} at most")
    return 1 if median > 1 else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--documents", type=int, default=10)
    options = parser.parse_args()
    heed_signals()
    with tempfile.TemporaryDirectory(prefix="fieldmark-indexing-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with bounded(DEADLINE_SECONDS, Path(folder)):
            return asyncio.run(measure(options, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
