from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from contextlib import suppress
from email.message import EmailMessage
from pathlib import Path

import psutil
import pytest
from PIL import Image, ImageChops, ImageDraw, ImageFont

from child_processes import forkservers, is_alive, reader_processes
from extraction_case import until
from generated_files import encode, image_object, make_pdf, text_at, text_image
from pagewords import sandbox
from pagewords.answers import Reading, parse_page
from pagewords.errors import Damaged, OverLimit, ReadersUnavailable
from pagewords.pages import MIB, Limits, Page
from pagewords.pictures import MAX_PICTURES
from pagewords.readers import PLAIN
from pagewords.reading_warnings import WarningCode
from pagewords.sandbox import read_file, split_mail
from processisolation import users
from running_server import PATIENCE

pytestmark = pytest.mark.anyio


def save(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def readers() -> list[psutil.Process]:
    return reader_processes(os.getpid())


TEXT = "Total: 19,50 €"
LENIENT = Limits(seconds=600)
"""OCR on a slow machine takes longer than the default limits."""
WARNING: dict[str, object] = {"code": "unread_lines", "page": 1, "count": 2, "excerpt": ""}


async def test_page_with_text_is_read_and_scanned_page_uses_ocr(tmp_path: Path) -> None:
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
    # Boxes are fractions of the page: those of the second row are where it was drawn.
    total = next(word for word in second.words if word.text == "Total")
    assert total.confidence is not None and 0.5 < total.confidence <= 1
    assert abs(total.x0 * scan.width - 40) < 20 and 120 < total.y0 * scan.height < total.y1 * scan.height < 190


async def test_text_of_a_picture_is_merged_into_the_text_layer(tmp_path: Path) -> None:
    scan = image_object(text_image(["Invoice No: 4711", "Total  19.50", "Paid in full"], (900, 400)))
    stamp = text_at("DRAFT", 150, 560, size=100) + text_at("Received 2024-05-12", 50, 400)
    repeated = text_at("Paid", 66, 637, size=22)  # as visible text where the picture has the same word
    data = make_pdf(
        [f"q 495 0 0 220 50 550 cm /I1 Do Q 1 1 0 rg {stamp} 0 g {repeated}"], resources="/XObject << /I1 1000 0 R >>",
        extra=[scan], catalog="",
    )  # fmt: skip
    (page,) = (await read_file(save(tmp_path, "a.pdf", data), "a.pdf", LENIENT)).pages
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
        (page,) = (await read_file(save(tmp_path, name, content.encode()), name, Limits())).pages
        assert page.text.endswith("one") and (page.hidden_words, page.hidden_excerpt) == (2, "secret 4711")


async def test_rotated_scan_is_read_and_its_boxes_match_its_words(tmp_path: Path) -> None:
    upright = text_image(["Invoice No: 4711", "Total  19.50", "Thank you for coming"])
    frames = [upright.rotate(angle, expand=True) for angle in (0, 90, 180, 270)]
    data = encode(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    pages = (await read_file(save(tmp_path, "turned.tiff", data), "turned.tiff", LENIENT)).pages
    assert {page.text for page in pages} == {pages[0].text} and pages[0].text.split()[:3] == ["Invoice", "No:", "4711"]
    boxes = [next(word for word in page.words if word.text == "19.50") for page in pages]
    for box, left, top in zip(boxes, (0.73, 0.19, 0.13, 0.74), (0.19, 0.13, 0.74, 0.73), strict=True):
        assert (box.x0, box.y0) == pytest.approx((left, top), abs=0.04)


async def test_single_digits_on_a_watermark_are_read(tmp_path: Path) -> None:
    page = text_image(["Item  1 pc", "Soil  1", "Mulch  3"], (900, 400))
    watermark = Image.new("RGB", page.size, "white")
    ImageDraw.Draw(watermark).text((470, -60), "8B8", fill=(205, 205, 205), font=ImageFont.load_default(400))
    data = encode(ImageChops.darker(page, watermark), "PNG")
    (read,) = (await read_file(save(tmp_path, "marked.png", data), "marked.png", LENIENT)).pages
    assert read.text.split() == ["Item", "1", "pc", "Soil", "1", "Mulch", "3"]


async def test_lines_that_ocr_cannot_read_give_a_warning(tmp_path: Path) -> None:
    page = text_image(["Invoice No: 4711", "Total  19.50"])
    strange = page.copy()
    draw = ImageDraw.Draw(strange)
    for at in range(40, 860, 40):  # no letters of any script
        draw.arc((at, 230, at + 25, 265), at, at + 250, fill="black", width=5)
        draw.line((at + 12, 230, at + (at % 30), 265), fill="black", width=5)
    picture_only = Image.effect_mandelbrot((740, 740), (-2, -1, 1, 1), 60).convert("RGB")
    data = encode(
        page, "TIFF", save_all=True, append_images=[strange, picture_only, Image.new("RGB", (740, 740), "white")]
    )
    reading = await read_file(save(tmp_path, "odd.tiff", data), "odd.tiff", LENIENT)
    codes = {warning.page: warning.code for warning in reading.warnings}
    assert codes.keys() == {2, 3} and codes[3] is WarningCode.NOTHING_READ
    assert codes[2] in (WarningCode.UNREAD_LINES, WarningCode.UNCERTAIN_TEXT)


async def test_hostile_file_name_is_harmless_and_private_file_is_readable(tmp_path: Path) -> None:
    path = save(tmp_path, "stored", TEXT.encode())
    os.chmod(path, 0o600)  # noqa: PTH101
    os.chmod(tmp_path, 0o700)  # noqa: PTH101
    name = "../../x'; import os; os._exit(3) #\"\n\ud800.txt"
    assert (await read_file(path, name, Limits())).pages[0].text == TEXT


def save_slow_file(folder: Path) -> Path:
    page = text_image(["Invoice No: 4711", "Total  19.50"]).convert("1")
    return save(folder, "slow.tiff", encode(page, "TIFF", save_all=True, append_images=[page] * 99))


def users_of_readers() -> list[tuple[int, int]]:
    """Return the real and effective user of each reader that is locked down."""
    found: list[tuple[int, int]] = []
    for reader in readers():
        with suppress(psutil.NoSuchProcess):
            found.append((reader.uids().real, reader.uids().effective))
    return [(real, effective) for real, effective in found if real != 0]


async def start_reading(path: Path, limits: Limits) -> tuple[asyncio.Task[Reading], psutil.Process]:
    """Start to read a file and return its reader, too. Start again if the reader ended before it was seen."""
    while True:
        task = asyncio.create_task(read_file(path, path.name, limits))
        while not task.done():
            if found := readers():
                return task, found[0]
            await asyncio.sleep(0)


async def test_processor_time_over_the_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OverLimit, match="processor time"):
        limits = Limits(seconds=1, seconds_per_page=0, seconds_per_scan=0, patience=1000)
        await read_file(save_slow_file(tmp_path), "slow.tiff", limits)
    assert readers() == []


async def test_wall_clock_time_over_the_limit_is_refused(tmp_path: Path) -> None:
    limits = Limits(seconds_per_page=0, seconds_per_scan=0, patience=0.002)
    with pytest.raises(OverLimit, match=r"0\.06 seconds"):
        await read_file(save_slow_file(tmp_path), "slow.tiff", limits)
    await until(lambda: not readers())


async def test_suspended_reader_does_not_use_up_its_processor_time(tmp_path: Path) -> None:
    path = save(tmp_path, "a.html", b"<p>Invoice 4711</p>" * 40_000)
    limits = Limits(seconds=2, seconds_per_page=0, patience=1000)
    task, child = await start_reading(path, limits)
    child.suspend()
    await asyncio.sleep(limits.seconds)
    child.resume()
    assert "4711" in (await task).pages[0].text


async def test_cancelling_kills_the_reader(tmp_path: Path) -> None:
    task = asyncio.create_task(read_file(save_slow_file(tmp_path), "slow.tiff", Limits()))
    (child, *_) = await until(readers, seconds=PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(child)


async def test_reader_cancelled_while_starting_leaks_no_descriptor(tmp_path: Path) -> None:
    path = save(tmp_path, "a.txt", TEXT.encode())
    await read_file(path, "a.txt", Limits())
    await asyncio.sleep(0)  # aborted transports close now

    async def ask(file: int) -> None:
        async with PLAIN.reader(file, {}, 1000):
            await asyncio.Event().wait()

    with path.open("rb") as file:
        descriptors = psutil.Process().num_fds()
        kept: list[asyncio.Task[None]] = []  # prevents garbage collection of what the tasks refer to
        for steps in range(10):
            task = asyncio.create_task(ask(file.fileno()))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            kept.append(task)
        await until(lambda: psutil.Process().num_fds() == descriptors)
    assert all(task.cancelled() for task in kept)


async def test_dead_fork_server_is_replaced_without_losing_pages(tmp_path: Path) -> None:
    page = text_image(["Invoice No: 4711", "Total  19.50"])
    path = save(tmp_path, "two.tiff", encode(page, "TIFF", save_all=True, append_images=[page]))
    killed: list[psutil.Process] = []

    def kill(done: int, total: int) -> None:
        if done == 1:
            killed.extend(forkservers())
            for process in killed:
                process.kill()

    pages = (await read_file(path, "two.tiff", LENIENT, kill)).pages
    assert [("4711" in page.text, page.number) for page in pages] == [(True, 1), (True, 2)]
    await until(lambda: not any(map(is_alive, killed)))
    for process in forkservers():  # also while there is nothing to read
        process.kill()
    assert (await read_file(save(tmp_path, "a.txt", TEXT.encode()), "a.txt", Limits())).pages[0].text == TEXT
    assert readers() == []


async def test_document_fails_after_too_many_lost_readers(tmp_path: Path) -> None:
    killed = set[int]()

    async def kill() -> None:
        while True:
            for process in forkservers():
                killed.add(process.pid)
                process.kill()
            await asyncio.sleep(0.005)

    killing = asyncio.create_task(kill())
    try:
        with pytest.raises(ReadersUnavailable):
            await read_file(save(tmp_path, "a.txt", TEXT.encode()), "a.txt", LENIENT)
    finally:
        killing.cancel()
    assert len(killed) >= sandbox.MAX_LOST_READERS and readers() == []
    assert (await read_file(tmp_path / "a.txt", "a.txt", LENIENT)).pages[0].text == TEXT


async def test_ocr_pages_alternate_between_documents_with_one_reader_per_core(tmp_path: Path) -> None:
    page = text_image(["Invoice No: 4711", "Total  19.50"])
    long = save(tmp_path, "long.tiff", encode(page, "TIFF", save_all=True, append_images=[page] * 5))
    short = save(tmp_path, "short.tiff", encode(page, "TIFF"))
    ended: list[str] = []
    max_readers = 0

    async def read(path: Path) -> None:
        def on_page(done: int, total: int) -> None:
            nonlocal max_readers
            max_readers = max(max_readers, len(readers()))
            if path is long and done == 1:
                other_tasks.append(asyncio.create_task(read(short)))

        await read_file(path, path.name, LENIENT, on_page)
        ended.append(path.name)

    other_tasks: list[asyncio.Task[None]] = []
    await read(long)
    await asyncio.gather(*other_tasks)
    assert ended == ["short.tiff", "long.tiff"]
    assert max_readers <= sandbox.CORES + 1  # the text of the short document is read at once


async def test_killed_reader_makes_the_file_unreadable(tmp_path: Path) -> None:
    path = save(tmp_path, "a.html", b"<p>Invoice 4711</p>" * 40_000)
    for number, error in ((signal.SIGKILL, OverLimit), (signal.SIGSEGV, Damaged)):
        task, reader = await start_reading(path, Limits())
        reader.send_signal(number)
        with pytest.raises(error):
            await task


async def test_file_over_the_memory_page_or_size_limit_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, "a.txt", b"word " * (4 * MIB))
    with pytest.raises(OverLimit, match="more memory"):
        await read_file(path, "a.txt", Limits(memory_bytes=50 * MIB, max_pages=1))
    with pytest.raises(OverLimit, match="more than 1 pages"):
        await read_file(path, "a.txt", Limits(max_pages=1))
    with pytest.raises(OverLimit, match="the limit is 1 MiB"):
        await read_file(path, "a.txt", Limits(max_bytes=MIB))


async def test_a_mail_is_split_into_its_attachments_within_limits_of_time_and_depth(tmp_path: Path) -> None:
    email = EmailMessage()
    email["From"], email["Subject"] = "A Shop <shop@example.com>", "Your =?utf-8?q?Rechnung?=\u202e"
    email.set_content("Attached.")
    email.add_attachment(b"Total: 1", maintype="text", subtype="plain", filename="../März.txt")
    email.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="logo.png", cid="<logo>")
    email.add_attachment(b"MZ", maintype="application", subtype="octet-stream", filename="setup.exe")
    mail, (file,) = await split_mail(save(tmp_path, "a.eml", email.as_bytes()), Limits(), tmp_path)
    assert (mail.sender, mail.subject, mail.auto_submitted) == ("shop@example.com", "Your Rechnung", "")
    assert (file.name, file.path.read_bytes()) == ("März.txt", b"Total: 1")
    opened = [f'Content-Type: multipart/mixed; boundary="{n}"\n\n--{n}\n' for n in range(2000)]
    for depth, limits in ((2000, Limits()), (200, Limits(seconds=1))):
        path = save(tmp_path, "b.eml", "".join([*opened[:depth], "\n", "ab\n" * 300_000]).encode())
        with pytest.raises(OverLimit):
            await split_mail(path, limits, tmp_path)


async def test_reader_of_root_runs_as_a_separate_user(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    task = asyncio.create_task(read_file(save_slow_file(tmp_path), "slow.tiff", Limits()))
    ((real, effective), *_) = await until(users_of_readers, seconds=PATIENCE)
    (forkserver, *_) = forkservers()
    # No environment variables of the service.
    names = {name for name in forkserver.environ() if not name.startswith("MALLOC_")}
    assert names <= {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LC_ALL"}
    assert real == effective and users.is_in_range(real) and real != users.postgres_user()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "pages", [{"scans": [3]}, {"pictures": [3]}, {"scans": [1, 1]}, {"scans": [1], "pictures": [1]}, {"pictures": [0]}]
)
def test_hijacked_reader_cannot_send_invalid_pages_for_ocr(pages: dict[str, list[int]]) -> None:
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
def test_hijacked_reader_cannot_send_an_invalid_page(packed: dict[str, object]) -> None:
    honest: dict[str, object] = {
        "number": 1, "width": 10, "height": 10, "text": "a", "words": [["a", 0, 0, 1, 1, None]], "engine": "pdf"
    }  # fmt: skip

    def parse_page_json(page: dict[str, object]) -> Page:
        return parse_page(json.dumps(page).encode(), 1)

    assert parse_page_json(honest).text == "a"
    assert parse_page_json(honest | {"warnings": [WARNING] * 10}).warnings[0].count == 2
    with pytest.raises(ValueError):
        parse_page_json(honest | packed)
