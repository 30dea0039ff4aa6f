"""A service with documents of known fields and a browser, for bench/page.py and frontend/screenshots.py."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg.types.json import Jsonb

from fieldmark.cli.process import LOCAL_USER
from fieldmark.db.embedded import embedded_postgres
from fieldmark.identity.tokens import LocalTokens
from fieldmark.offline_model.messages import Body
from fieldmark.offline_model.server import OfflineModel, Reply
from fieldmark.testing.script import Script
from processes import service, time_limit, upload

LINES = 50
"""On a page."""

_WIDTH, _HEIGHT, _TOP, _LEFT, _PITCH, _SIZE = 595, 842, 60, 60, 15, 10
_CHARACTER = 0.6 * _SIZE  # Courier
# Without requests to other hosts.
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
_FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


def make_pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """Return a PDF with these lines (ASCII without brackets) in Courier."""
    start = f"BT /F1 {_SIZE} Tf {_PITCH} TL {_LEFT} {_HEIGHT - _TOP} Td"
    texts = [" T* ".join(f"({line}) Tj" for line in lines) for lines in pages]
    return write_pdf([f"{start} {text} ET".encode("ascii") for text in texts], _WIDTH, _HEIGHT)


def write_pdf(streams: Sequence[bytes], width: float, height: float) -> bytes:
    """Return a PDF with a page for each content stream. The font `/F1` is Courier."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding >>"
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", font]
    numbers: list[int] = []
    for stream in streams:
        objects.append(b"<< /Length %d >> stream\n%s\nendstream" % (len(stream), stream))
        page = f"<< /Type /Page /Parent 2 0 R /Contents {len(objects)} 0 R /Resources << /Font << /F1 3 0 R >> >> >>"
        objects.append(page.encode())
        numbers.append(len(objects))
    kids = " ".join(f"{number} 0 R" for number in numbers)
    objects[1] = f"<< /Type /Pages /Count {len(streams)} /MediaBox [0 0 {width} {height}] /Kids [{kids}] >>".encode()
    written, at = bytearray(b"%PDF-1.7\n"), list[int]()
    for number, one in enumerate(objects, 1):
        at.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = len(written)
    written += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    written += b"".join(b"%010d 00000 n \n" % one for one in at)
    written += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(written)


def box_of(line: int, start: int, end: int) -> list[float]:
    """Return the box of characters of a line, in fractions of the page."""
    bottom = _TOP + line * _PITCH
    edges = ((_LEFT + start * _CHARACTER) / _WIDTH, (bottom - _SIZE * 0.8) / _HEIGHT)
    ends = ((_LEFT + end * _CHARACTER) / _WIDTH, (bottom + _SIZE * 0.25) / _HEIGHT)
    return [round(edge, 5) for edge in (*edges, *ends)]


def evidence_of(page: int, box: Sequence[float], quote: str) -> dict[str, Any]:
    known = {"match": "exact", "page": page, "boxes": [list(box)], "quote": quote, "location_count": 1, "claim": None}
    return {"state": "found", **known}


@dataclass
class Site:
    """The service, its database, and a model whose responses `says` sets."""

    home: Path
    address: str
    owner: psycopg.Connection[Any]
    http: httpx.AsyncClient
    says: list[Script] = field(default_factory=list)

    def link(self, address: str = "/") -> str:
        return f"{self.address}{address}#token={LocalTokens(self.home).sign(LOCAL_USER)}"

    async def upload(self, name: str, content: bytes) -> str:
        return await upload(self.http, name, content)

    def extraction(
        self,
        document: str,
        fields: Mapping[str, Any],
        confidences: Mapping[str, float],
        evidence: Mapping[str, Any],
        schema: Mapping[str, Any] | None = None,
    ) -> str:
        """Create an extraction of these fields, completed by an agent."""
        insert = """insert into extractions (org_id, document_id, created_by, schema, status, document_type)
            select org_id, id, created_by, %s, 'completed', 'invoice' from documents where id = %s returning id"""
        row = self.owner.execute(insert, [None if schema is None else Jsonb(schema), document]).fetchone()
        assert row is not None
        save = "select public.save_extraction_fields(%s, %s, %s, %s)"
        self.owner.execute(save, [row[0], Jsonb(fields), Jsonb(confidences), Jsonb(evidence)])
        return str(row[0])


@asynccontextmanager
async def run_site(seconds: float, *, offline: bool = False) -> AsyncIterator[Site]:
    """Run a service until the block ends, at most this many seconds. `offline`: with the offline model."""
    says: list[Script] = []

    async def answer(body: Body) -> Reply:
        return await says[0](body)

    with tempfile.TemporaryDirectory(prefix="fieldmark-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with time_limit(seconds, home):
            with embedded_postgres(home, 18) as server, psycopg.connect(server.owner_url, autocommit=True) as owner:
                owner.execute("alter system set track_commit_timestamp = on")  # takes effect at the next start
            async with OfflineModel(answer) as model:
                with (
                    service(home, "" if offline else model.base_url) as at,
                    psycopg.connect(at.database.owner_url, autocommit=True) as owner,
                ):
                    async with at.client() as http:
                        await http.get("/api/me")  # creates the personal organisation
                        yield Site(home, at.address, owner, http, says)


@asynccontextmanager
async def chromium() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        sys.exit("There is no Chromium here: apt-get install chromium.")
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=path, args=_FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


_AFTER = """({ event, shows }) => {
  window.measured = new Promise((resolve) => {
    let began;
    const channel = new MessageChannel();
    const times = [];
    addEventListener(event, (one) => (began ??= one.timeStamp), { capture: true, once: true });
    channel.port1.onmessage = () => {
      times.push(performance.now() - began);
      if (times.length === shows.length) resolve(times);
      else requestAnimationFrame(look);
    };
    // What is there when a frame begins is painted in it; the message comes when that is done.
    const look = () => {
      if (began !== undefined && shows[times.length]()) channel.port2.postMessage(null);
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
}"""


async def measure_next_event(page: Any, event: str, *shows: str) -> None:
    """From the next event of this name on, measure the time until each of these expressions is true, one after the
    other."""
    functions = ", ".join(f"() => {one}" for one in shows)
    await page.evaluate(f"({_AFTER})({{ event: {json.dumps(event)}, shows: [{functions}] }})")


async def milliseconds_shown(page: Any) -> list[float]:
    """Return the milliseconds from the event to the end of the frame that shows it."""
    return await asyncio.wait_for(page.evaluate("window.measured"), 30)
