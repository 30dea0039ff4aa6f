"""Reading in subprocesses: scans, limits, what happens when a process ends, and answers that are refused."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from pathlib import Path

import psutil
import pytest
from generated_files import encode, image_object, make_pdf, text_at, text_image
from PIL import Image, ImageDraw

from child_processes import forkservers, is_alive, reader_processes
from extraction_case import until
from fieldmark.documents.reading import sandbox
from fieldmark.documents.reading.answers import Reading, parse_page
from fieldmark.documents.reading.pages import MIB, Limits, Page
from fieldmark.documents.reading.pictures import MAX_PICTURES
from fieldmark.documents.reading.readers import PLAIN
from fieldmark.documents.reading.sandbox import read_file
from fieldmark.domain.reading_warnings import WarningCode
from fieldmark.errors import Damaged, OverLimit, Unavailable
from fieldmark.isolation import users
from running_server import PATIENCE

pytestmark = pytest.mark.anyio


def saved(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def readers() -> list[psutil.Process]:
    return reader_processes(os.getpid())


TEXT = "Total: 19,50 €"
LENIENT = Limits(seconds=600)
"""For recognising text, which takes a slow machine longer than a document is given."""
WARNING: dict[str, object] = {"code": "unread_lines", "page": 1, "count": 2, "excerpt": ""}


async def test_a_page_with_text_is_read_and_a_scanned_one_recognised(tmp_path: Path) -> None:
    scan = text_image(["Invoice No: 4711", "Total  19.50"])
    out = io.BytesIO()
    scan.save(out, "PDF", resolution=150)
    import pypdfium2

    both = pypdfium2.PdfDocument.new()
    for source in (make_pdf([text_at("First page", 50, 700)]), out.getvalue(), make_pdf([""])):
        with pypdfium2.PdfDocument(source) as part:
            both.import_pages(part)
    both.save(tmp_path / "both.pdf")
    both.close()
    done: list[int] = []

    async def on_page(number: int, total: int) -> None:
        assert total == 3
        done.append(number)

    reading = await read_file(tmp_path / "both.pdf", "both.pdf", LENIENT, on_page)
    assert [(page.number, page.engine) for page in reading.pages] == [(1, "pdf"), (2, "rapidocr"), (3, "pdf")]
    assert done == [1, 2, 3]
    first, second, third = reading.pages
    assert (first.text, third.text) == ("First page", "")
    lines = [line.strip() for line in second.text.splitlines() if line.strip()]
    assert lines[0] == "Invoice No: 4711"
    assert lines[1].split("  ")[0] == "Total" and lines[1].split("  ")[-1].strip() == "19.50"
    # Boxes are parts of the page: those of the second row stand where it was drawn.
    total = next(word for word in second.words if word.text == "Total")
    assert total.confidence is not None and 0.5 < total.confidence <= 1
    assert abs(total.x0 * scan.width - 40) < 20 and 120 < total.y0 * scan.height < total.y1 * scan.height < 190


async def test_a_picture_on_a_page_with_text_is_recognised_and_merged(tmp_path: Path) -> None:
    scan = image_object(text_image(["Invoice No: 4711", "Total  19.50", "Paid in full"]))
    stamp = text_at("DRAFT", 150, 560, size=100) + text_at("Received 2024-05-12", 50, 400)
    repeated = text_at("Paid", 66, 637, size=22)  # as visible text in the place where the picture has it, too
    data = make_pdf(
        [f"q 495 0 0 220 50 550 cm /I1 Do Q 1 1 0 rg {stamp} 0 g {repeated}"], resources="/XObject << /I1 1000 0 R >>",
        extra=[scan], catalog="",
    )  # fmt: skip
    (page,) = (await read_file(saved(tmp_path, "a.pdf", data), "a.pdf", LENIENT)).pages
    text = [" ".join(line.split()) for line in page.text.splitlines() if line.strip()]
    assert "Invoice No: 4711" in text and "Received 2024-05-12" in text and page.engine == "pdf"
    assert page.text.split().count("Paid") == 1 and page.text.split().count("DRAFT") == 1
    (total,) = [word for word in page.words if word.text == "19.50"]
    # Its box is where the picture shows it: 540 of 900 pixels from its left, 130 of 400 from its top.
    assert total.x0 == pytest.approx((50 + 495 * 0.6) / 595, abs=0.02) and total.confidence
    assert total.y0 == pytest.approx((842 - 770 + 220 * 0.33) / 842, abs=0.02)


async def test_style_sheets_are_evaluated_in_the_sandbox(tmp_path: Path) -> None:
    sheet = ".a > p:nth-child(2n of .off):not(:lang(de)) {font-size: 0} @media (width > 1px) {i {opacity: 0}}"
    html = f"<style>{sheet}</style><div class=a><p class=off>one<p class=off>secret</p><i>4711</i></div>"
    mail = f"From: a@example.com\nContent-Type: text/html\n\n{html}"
    for name, content in (("a.html", f"<html>{html}"), ("a.eml", mail)):
        (page,) = (await read_file(saved(tmp_path, name, content.encode()), name, Limits())).pages
        assert page.text.endswith("one") and (page.hidden_words, page.hidden_excerpt) == (2, "secret 4711")


async def test_a_scan_is_read_whichever_way_it_lies_and_its_boxes_stay_where_its_words_are(tmp_path: Path) -> None:
    upright = text_image(["Invoice No: 4711", "Total  19.50", "Thank you for coming"])
    frames = [upright.rotate(angle, expand=True) for angle in (0, 90, 180, 270)]
    data = encode(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    pages = (await read_file(saved(tmp_path, "turned.tiff", data), "turned.tiff", LENIENT)).pages
    assert {page.text for page in pages} == {pages[0].text} and pages[0].text.split()[:3] == ["Invoice", "No:", "4711"]
    boxes = [next(word for word in page.words if word.text == "19.50") for page in pages]
    for box, left, top in zip(boxes, (0.6, 0.325, 0.285, 0.525), (0.325, 0.285, 0.525, 0.6), strict=True):
        assert (box.x0, box.y0) == pytest.approx((left, top), abs=0.04)


async def test_lines_that_ocr_cannot_read_give_a_warning(tmp_path: Path) -> None:
    page = text_image(["Invoice No: 4711", "Total  19.50"])
    strange = page.copy()
    draw = ImageDraw.Draw(strange)
    for at in range(40, 860, 40):  # no letters of any script
        draw.arc((at, 230, at + 25, 265), at, at + 250, fill="black", width=5)
        draw.line((at + 12, 230, at + (at % 30), 265), fill="black", width=5)
    picture_only = Image.effect_mandelbrot((900, 400), (-2, -1, 1, 1), 60).convert("RGB")
    data = encode(
        page, "TIFF", save_all=True, append_images=[strange, picture_only, Image.new("RGB", (900, 400), "white")]
    )
    reading = await read_file(saved(tmp_path, "odd.tiff", data), "odd.tiff", LENIENT)
    codes = {warning.page: warning.code for warning in reading.warnings}
    assert codes.keys() == {2, 3} and codes[3] is WarningCode.NOTHING_READ
    assert codes[2] in (WarningCode.UNREAD_LINES, WarningCode.UNCERTAIN_TEXT)


async def test_name_like_an_attack_is_only_a_name_and_no_one_else_needs_to_reach_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path, "stored", TEXT.encode())
    os.chmod(path, 0o600)  # noqa: PTH101
    os.chmod(tmp_path, 0o700)  # noqa: PTH101
    name = "../../x'; import os; os._exit(3) #\"\n\ud800.txt"
    assert (await read_file(path, name, Limits())).pages[0].text == TEXT


def slow(folder: Path) -> Path:
    """A file that takes a minute to read: a hundred pages for OCR."""
    page = text_image(["Invoice No: 4711", "Total  19.50"]).convert("1")
    return saved(folder, "slow.tiff", encode(page, "TIFF", save_all=True, append_images=[page] * 99))


async def started(locked_down: bool = False) -> psutil.Process:
    """The subprocess, once it is there; or once it has given up what it may."""
    # Another process sets no event of ours.
    found = await until(
        lambda: [child for child in readers() if not locked_down or child.uids().real != 0], seconds=PATIENCE
    )
    return found[0]


async def test_too_much_computing_is_ended_however_fast_the_clock_runs(tmp_path: Path) -> None:
    with pytest.raises(OverLimit, match="processor time"):
        limits = Limits(seconds=1, seconds_per_page=0, seconds_per_scan=0, patience=1000)
        await read_file(slow(tmp_path), "slow.tiff", limits)
    assert readers() == []


async def test_a_reading_that_waits_is_ended_by_the_clock(tmp_path: Path) -> None:
    limits = Limits(seconds_per_page=0, seconds_per_scan=0, patience=0.002)
    with pytest.raises(OverLimit, match=r"0\.06 seconds"):
        await read_file(slow(tmp_path), "slow.tiff", limits)
    await until(lambda: not readers())


async def test_a_reading_that_the_machine_has_no_time_for_goes_on(tmp_path: Path) -> None:
    """It is stopped for longer than it may compute, and has computed nothing meanwhile."""
    path = saved(tmp_path, "a.html", b"<p>Invoice 4711</p>" * 40_000)  # so much that it is not done at once
    limits = Limits(seconds=2, seconds_per_page=0, patience=1000)
    task = asyncio.create_task(read_file(path, "a.html", limits))
    child = await started()
    child.suspend()
    await asyncio.sleep(limits.seconds)
    child.resume()
    assert "4711" in (await task).pages[0].text


async def test_cancelling_ends_the_subprocess(tmp_path: Path) -> None:
    task = asyncio.create_task(read_file(slow(tmp_path), "slow.tiff", Limits()))
    child = await started()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(child)


async def test_reader_that_is_cancelled_while_it_is_asked_for_leaves_no_descriptor(tmp_path: Path) -> None:
    path = saved(tmp_path, "a.txt", TEXT.encode())
    await read_file(path, "a.txt", Limits())
    await asyncio.sleep(0)  # what it aborted is closed

    async def ask(file: int) -> None:
        async with PLAIN.reader(file, {}, 1000):
            await asyncio.Event().wait()

    with path.open("rb") as file:
        descriptors = psutil.Process().num_fds()
        kept: list[asyncio.Task[None]] = []  # as a task that somebody holds: what it refers to is not collected
        for steps in range(10):
            task = asyncio.create_task(ask(file.fileno()))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            kept.append(task)
        await until(lambda: psutil.Process().num_fds() == descriptors)
    assert all(task.cancelled() for task in kept)


async def test_forkserver_that_dies_is_replaced_and_no_page_is_lost(tmp_path: Path) -> None:
    page = text_image(["Invoice No: 4711", "Total  19.50"])
    path = saved(tmp_path, "two.tiff", encode(page, "TIFF", save_all=True, append_images=[page] * 2))
    killed: list[psutil.Process] = []

    def kill(done: int, total: int) -> None:
        if done == 1:
            killed.extend(forkservers())
            for process in killed:
                process.kill()

    pages = (await read_file(path, "two.tiff", LENIENT, kill)).pages
    assert [("4711" in page.text, page.number) for page in pages] == [(True, 1), (True, 2), (True, 3)]
    await until(lambda: not any(map(is_alive, killed)))
    for process in forkservers():  # while there is nothing to read, too
        process.kill()
    assert (await read_file(saved(tmp_path, "a.txt", TEXT.encode()), "a.txt", Limits())).pages[0].text == TEXT
    assert readers() == []


async def test_a_document_whose_readers_always_end_is_given_up(tmp_path: Path) -> None:
    killed = set[int]()

    async def kill() -> None:
        while True:
            for process in forkservers():
                killed.add(process.pid)
                process.kill()
            await asyncio.sleep(0.005)

    killing = asyncio.create_task(kill())
    try:
        with pytest.raises(Unavailable):
            await read_file(saved(tmp_path, "a.txt", TEXT.encode()), "a.txt", LENIENT)
    finally:
        killing.cancel()
    assert len(killed) >= sandbox.MAX_LOST_READERS and readers() == []
    assert (await read_file(tmp_path / "a.txt", "a.txt", LENIENT)).pages[0].text == TEXT


async def test_pages_for_ocr_take_turns_between_documents_with_one_reader_per_core(tmp_path: Path) -> None:
    page = text_image(["Invoice No: 4711", "Total  19.50"])
    long = saved(tmp_path, "long.tiff", encode(page, "TIFF", save_all=True, append_images=[page] * 5))
    short = saved(tmp_path, "short.tiff", encode(page, "TIFF"))
    ended: list[str] = []
    most = 0

    async def read(path: Path) -> None:
        def look(done: int, total: int) -> None:
            nonlocal most
            most = max(most, len(readers()))
            if path is long and done == 1:
                others.append(asyncio.create_task(read(short)))

        await read_file(path, path.name, LENIENT, look)
        ended.append(path.name)

    others: list[asyncio.Task[None]] = []
    await read(long)
    await asyncio.gather(*others)
    assert ended == ["short.tiff", "long.tiff"]
    assert most <= sandbox.CORES + 1  # the short document's own text is looked for at once


async def test_file_whose_reader_dies_is_unreadable(tmp_path: Path) -> None:
    path = saved(tmp_path, "a.html", b"<p>Invoice 4711</p>" * 40_000)  # so much that it is not done at once
    for number, error in ((signal.SIGKILL, OverLimit), (signal.SIGSEGV, Damaged)):
        task = asyncio.create_task(read_file(path, "a.html", Limits()))
        (await started()).send_signal(number)
        with pytest.raises(error):
            await task


async def test_a_file_that_needs_more_memory_than_it_may_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, "a.txt", b"word " * (4 * MIB))
    with pytest.raises(OverLimit, match="more memory"):
        await read_file(path, "a.txt", Limits(memory_bytes=50 * MIB, max_pages=1))
    with pytest.raises(OverLimit, match="more than 1 pages"):
        await read_file(path, "a.txt", Limits(max_pages=1))
    with pytest.raises(OverLimit, match="the limit is 1 MiB"):
        await read_file(path, "a.txt", Limits(max_bytes=MIB))


async def test_the_reader_of_root_has_a_user_of_its_own(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    task = asyncio.create_task(read_file(slow(tmp_path), "slow.tiff", Limits()))
    (forkserver, *_) = forkservers()
    # None of the service's own variables.
    names = {name for name in forkserver.environ() if not name.startswith("MALLOC_")}
    assert names <= {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LC_ALL"}
    child = await started(locked_down=True)
    assert child.uids().real == child.uids().effective
    assert users.is_in_range(child.uids().real) and child.uids().real != users.postgres_user()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "pages", [{"scans": [3]}, {"pictures": [3]}, {"scans": [1, 1]}, {"scans": [1], "pictures": [1]}, {"pictures": [0]}]
)
def test_pages_that_a_hijacked_reader_could_send_for_ocr_are_refused(pages: dict[str, list[int]]) -> None:
    assert Reading(media_type="text/html", page_count=2, scans=[1], pictures=[2]).pictures == [2]
    with pytest.raises(ValueError):
        Reading.model_validate({"media_type": "text/html", "page_count": 2, **pages})
    with pytest.raises(ValueError):
        Reading(media_type="text/html", page_count=500, pictures=list(range(1, MAX_PICTURES + 2)))


@pytest.mark.parametrize(
    "packed",
    [
        {"number": 2},
        {"width": float("nan")},
        {"text": "other words"},
        {"engine": "forged"},
        {"text": "a\0", "words": [["a\0", 0, 0, 1, 1, None]]},
        {"words": [["a", 0, 0, 2, 1, None]]},
        {"words": [["a", 0.5, 0, 0.4, 1, None]]},
        {"words": [["a", 0, 0, 1, 1, 7]]},
        {"hidden_words": -1},
        {"hidden_words": 0, "hidden_excerpt": "a"},
        {"hidden_words": 1, "hidden_excerpt": "a" * 201},
        {"hidden_words": 1, "hidden_excerpt": "a\u202e"},
        {"warnings": [{"code": "forged", "page": 1, "count": 1, "excerpt": ""}]},
        {"warnings": [WARNING | {"page": 2}]},
        {"warnings": [WARNING | {"excerpt": "a\u202e"}]},
        {"warnings": [WARNING] * 11},
    ],
)
def test_a_page_that_a_hijacked_reader_could_send_is_refused(packed: dict[str, object]) -> None:
    honest: dict[str, object] = {
        "number": 1, "width": 10, "height": 10, "text": "a", "words": [["a", 0, 0, 1, 1, None]], "engine": "pdf"
    }  # fmt: skip

    def parsed(page: dict[str, object]) -> Page:
        return parse_page(json.dumps(page).encode(), 1)

    assert parsed(honest).text == "a"
    assert parsed(honest | {"warnings": [WARNING] * 10}).warnings[0].count == 2
    with pytest.raises(ValueError):
        parsed(honest | packed)
