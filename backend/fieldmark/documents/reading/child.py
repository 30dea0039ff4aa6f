"""The subprocess that parses an untrusted file. Standard input is the file, standard output the answers.

A job is JSON in the first argument. Answers are JSON lines:

- first `{"pages": n, "media_type"}`;
- for reading, `{"page": {…}}` for each page, `{"enclosed": name, "size"}` and that many bytes for each file inside it,
  `{"left_out": [warnings of those that are not handed over]}`, then `{"done": true, "scans": [numbers of the pages left
  to OCR]}`;
- for drawing, `{"png": size}` and that many bytes for each page asked for, then `{"done": true}`;
- for unlocking, `{"unlocked": size}` and that many bytes if the file has a password, then `{"done": true}`;
- at any time, as the last, `{"error": sentence, "code", "detail"?: what a developer wants to know}`.

All that the job needs is imported and loaded first. Then the process is locked down. Only then is the file parsed.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

from fieldmark.documents.reading import sniff
from fieldmark.documents.reading.enclosed import Container
from fieldmark.documents.reading.jobs import DrawJob, Job, ReadJob, UnlockJob, job_from_json
from fieldmark.documents.reading.pages import MIB, Limits, Page
from fieldmark.documents.reading.sandbox_lockdown import confine_early, die_with_parent, lock_down, lower_limit
from fieldmark.domain.reading_warnings import ReadingWarning, WarningCode
from fieldmark.errors import Damaged, FieldmarkError, NotFound, OverLimit

OCR_THREADS = 2
# onnxruntime and the models map 1.4 GiB of address space, of which 600 MiB are used.
OCR_MEMORY_BYTES = 1536 * MIB

# Python imports an encoding when it is first named, which is not possible after lockdown. These are used by any format.
_ENCODINGS = ("cp1252", "cp437", "utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")

Send = Callable[[dict[str, Any]], None]
Task = Callable[[bytes], None]
_NAMES = {
    sniff.PDF: "PDF",
    sniff.PNG: "PNG image",
    sniff.JPEG: "JPEG image",
    sniff.TIFF: "TIFF image",
    sniff.WEBP: "WebP image",
    sniff.BMP: "bitmap",
    sniff.GIF: "GIF image",
    sniff.DOCX: "Word document",
    sniff.XLSX: "Excel workbook",
    sniff.HTML: "HTML file",
    sniff.EML: "email",
    sniff.CSV: "CSV file",
    sniff.TXT: "text file",
    sniff.EINVOICE: "XML invoice",
    sniff.ZIP: "ZIP archive",
    sniff.ODT: "OpenDocument text",
    sniff.ODS: "OpenDocument workbook",
    sniff.ODP: "OpenDocument presentation",
    sniff.MSG: "Outlook message",
}


def main() -> None:
    """Do the job. The last line says how it ended; the exit code does not."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    die_with_parent(given["parent"])
    confine_early()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the lines
    kind = ""

    def send(message: dict[str, Any]) -> None:
        out.write(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n")
        out.flush()

    try:
        limits = Limits(**given["limits"])
        data = sys.stdin.buffer.read(limits.max_bytes + 1)
        job = job_from_json(given)
        kind = _kind(job, data)
        task = _prepare(job, kind, limits, send, out)
        for encoding in _ENCODINGS:
            codecs.lookup(encoding)
        by_ocr = isinstance(job, ReadJob) and (kind in sniff.IMAGES or bool(job.scans))
        memory = limits.memory_bytes + (OCR_MEMORY_BYTES if by_ocr else 0)
        cpu = limits.seconds + limits.seconds_per_page * limits.max_pages
        lock_down(memory, OCR_THREADS * math.ceil(cpu), given["parent"], given["user"])
        task(data)
    except FieldmarkError as error:
        send({"error": str(error), "code": error.code})
    except MemoryError:
        send({"error": "The file needs more memory to be read than a document may.", "code": OverLimit.code})
    except RecursionError:
        name = _NAMES.get(kind, "file")
        send({"error": f"The {name} is nested too deeply to be read.", "code": OverLimit.code})
    except Exception as error:  # noqa: BLE001 — a parser may fail in any way; the file is the reason all the same
        name = _NAMES.get(kind, "file")
        detail = f"{type(error).__name__}: {error}"[:500]
        sentence = f"The {name} is damaged or cut off: its content cannot be read."
        send({"error": sentence, "code": Damaged.code, "detail": detail})


def _kind(job: Job, data: bytes) -> str:
    """The media type, as far as it is known before the file is unlocked."""
    if isinstance(job, UnlockJob):
        return ""
    if isinstance(job, DrawJob):
        return job.media_type
    return job.media_type or sniff.media_type(data, job.filename)


def _prepare(job: Job, kind: str, limits: Limits, send: Send, out: BinaryIO) -> Task:
    """The job as a function of the file's bytes. All that it needs is imported and loaded now."""

    def begin(page_count: int) -> None:
        cpu = limits.seconds + limits.seconds_per_page * page_count
        lower_limit(resource.RLIMIT_CPU, OCR_THREADS * math.ceil(cpu))
        send({"pages": page_count, "media_type": kind})

    def send_bytes(message: dict[str, Any], content: bytes) -> None:
        send(message)
        out.write(content)
        out.flush()

    if isinstance(job, DrawJob):
        drawing = _prepare_drawing(job, kind, limits, begin, lambda png: send_bytes({"png": len(png)}, png))

        def draw(data: bytes) -> None:
            drawing(data)
            send({"done": True})

        return draw
    if isinstance(job, UnlockJob):
        return _prepare_unlocking(job, limits, send, send_bytes)
    if kind == sniff.PDF:
        return _prepare_pdf(job.scans, limits, begin, send)
    if kind in sniff.IMAGES:
        return _prepare_images(kind, limits, begin, send)
    if kind in sniff.CONTAINERS:
        return _prepare_container(kind, job.is_too_deep, limits, begin, send, send_bytes)
    make_pages = _prepare_pagination(kind, limits)

    def read_text(data: bytes) -> None:
        pages = make_pages(data)
        begin(len(pages))
        for page in pages:
            send({"page": page.to_json()})
        send({"done": True, "scans": []})

    return read_text


def _prepare_unlocking(
    job: UnlockJob, limits: Limits, send: Send, send_bytes: Callable[[dict[str, Any], bytes], None]
) -> Task:
    from fieldmark.documents.reading.unlock import unlocked

    with os.fdopen(job.password_from, "rb") as pipe:
        password = pipe.read().decode()

    def unlock(data: bytes) -> None:
        copy = unlocked(data, password, limits)
        if copy is not None:
            send_bytes({"unlocked": len(copy)}, copy)
        send({"done": True})

    return unlock


def _prepare_pdf(scans: Sequence[int] | None, limits: Limits, begin: Callable[[int], None], send: Send) -> Task:
    """Reads the text layer of every page. If `scans` is given, recognises the text of those pages instead.

    An invoice inside the PDF follows as pages of its own.
    """
    from fieldmark.documents.reading.pdf import Pdf
    from fieldmark.documents.reading.pdf_attachments import Attachments

    if scans is None:

        def read_layers(data: bytes) -> None:
            pdf = Pdf(data, limits)
            attachments = Attachments(pdf, limits)
            begin(pdf.page_count + len(attachments.pages()))
            left: list[int] = []
            for number in range(1, pdf.page_count + 1):
                page = pdf.read_page(number)
                if page is None:
                    left.append(number)
                else:
                    send({"page": attachments.told_on(page).to_json()})
            for page in attachments.pages():
                send({"page": page.to_json()})
            send({"done": True, "scans": left})

        return read_layers

    from PIL import Image

    from fieldmark.documents.reading.ocr import DPI, LONGEST_SIDE, Ocr

    Image.init()
    ocr = Ocr(OCR_THREADS)

    def read_scans(data: bytes) -> None:
        pdf = Pdf(data, limits)
        attachments = Attachments(pdf, limits)
        begin(pdf.page_count + len(attachments.pages()))
        for number in scans:
            pixels, width, height = pdf.draw_page(number, DPI, LONGEST_SIDE * LONGEST_SIDE)
            image = Image.frombytes("RGB", (width, height), pixels, "raw", "RGBX")
            page = attachments.told_on(ocr.read_page(number, image, *pdf.size(number)))
            send({"page": page.with_hidden_words(pdf.hidden_words(number)).to_json()})
        send({"done": True, "scans": []})

    return read_scans


def _prepare_images(kind: str, limits: Limits, begin: Callable[[int], None], send: Send) -> Task:
    from PIL import Image

    from fieldmark.documents.reading.image import Images
    from fieldmark.documents.reading.ocr import LONGEST_SIDE, Ocr

    Image.init()
    ocr = Ocr(OCR_THREADS)

    def read_frames(data: bytes) -> None:
        images = Images(data, kind, limits)
        begin(images.page_count)
        for number in range(1, images.page_count + 1):
            image, width, height = images.frame(number, LONGEST_SIDE)
            page = ocr.read_page(number, image, width, height)
            if images.is_animated:
                page = replace(page, warnings=(*page.warnings, ReadingWarning(WarningCode.FRAMES_NOT_READ, number)))
            send({"page": page.to_json()})
        send({"done": True, "scans": []})

    return read_frames


def _prepare_container(
    kind: str,
    is_too_deep: bool,
    limits: Limits,
    begin: Callable[[int], None],
    send: Send,
    send_bytes: Callable[[dict[str, Any], bytes], None],
) -> Task:
    """Reads the file's own text, then hands over the files inside it."""
    from fieldmark.documents.reading.enclosed import Unpacking
    from fieldmark.documents.reading.pagination import paginate

    open_container, engine = _prepare_opening(kind)

    def read_container(data: bytes) -> None:
        container = open_container(data)
        pages = paginate(container.parts, engine, limits)
        begin(len(pages))
        for page in pages:
            send({"page": page.to_json()})
        unpacking = Unpacking(limits, is_too_deep)
        for name, content in unpacking.files(container.enclosed):
            send_bytes({"enclosed": name, "size": len(content)}, content)
        send({"left_out": [warning.to_json() for warning in unpacking.warnings]})
        send({"done": True, "scans": []})

    return read_container


def _prepare_opening(kind: str) -> tuple[Callable[[bytes], Container], str]:
    """The function that opens a file with files inside, and what its pages are said to be read by."""
    if kind == sniff.ZIP:
        from fieldmark.documents.reading.zip_archive import read_zip

        return read_zip, "zip"
    _load_encodings()
    if kind == sniff.MSG:
        from fieldmark.documents.reading.outlook import read_msg

        return read_msg, "email"
    from fieldmark.documents.reading.mail import read_mail

    return read_mail, "email"


def _prepare_pagination(kind: str, limits: Limits) -> Callable[[bytes], list[Page]]:
    """The function that makes the pages of a format without pages of its own."""
    from fieldmark.documents.reading.pagination import paginate

    if kind == sniff.DOCX:
        from fieldmark.documents.reading.docx import docx_parts

        return lambda data: paginate(docx_parts(data, limits), "docx", limits)
    if kind == sniff.XLSX:
        from fieldmark.documents.reading.xlsx import xlsx_parts

        return lambda data: paginate(xlsx_parts(data, limits), "xlsx", limits)
    if kind in sniff.OPENDOCUMENTS:
        from fieldmark.documents.reading.opendocument import opendocument_parts

        return lambda data: paginate(opendocument_parts(data, limits), "odf", limits)
    if kind == sniff.HTML:
        from fieldmark.documents.reading.markup import html_parts

        _load_encodings()
        return lambda data: paginate(html_parts(data), "html", limits)
    if kind in sniff.CONTAINERS:
        open_container, engine = _prepare_opening(kind)
        return lambda data: paginate(open_container(data).parts, engine, limits)
    if kind == sniff.EINVOICE:
        from fieldmark.documents.reading.einvoice import einvoice_parts

        return lambda data: paginate(einvoice_parts(data), "xml", limits)

    from fieldmark.documents.reading import text

    if kind == sniff.CSV:
        return lambda data: paginate(text.csv_parts(data), "csv", limits)
    return lambda data: paginate(text.plain_parts(data), "text", limits)


def _load_encodings() -> None:
    """Import every encoding: a web page or a mail may name any."""
    import encodings
    import importlib
    import pkgutil

    for module in pkgutil.iter_modules(encodings.__path__):
        if module.name not in ("mbcs", "oem"):  # Windows only
            importlib.import_module(f"encodings.{module.name}")


def _prepare_drawing(
    job: DrawJob,
    kind: str,
    limits: Limits,
    begin: Callable[[int], None],
    send_png: Callable[[bytes], None],
) -> Task:
    from PIL import Image

    from fieldmark.documents.reading.drawing import draw_text_page, image_png, png
    from fieldmark.documents.reading.image import Images
    from fieldmark.documents.reading.pdf import Pdf
    from fieldmark.documents.reading.pdf_attachments import Attachments

    Image.init()
    numbers, dpi, longest_side = job.numbers, job.dpi, job.longest_side
    make_pages = None if kind == sniff.PDF or kind in sniff.IMAGES else _prepare_pagination(kind, limits)

    def check(page_count: int) -> None:
        begin(page_count)
        for number in numbers:
            if not 1 <= number <= page_count:
                raise NotFound(f"The document has no page {number}; it has {page_count}.")

    def draw(data: bytes) -> None:
        if kind in sniff.IMAGES:
            images = Images(data, kind, limits)
            check(images.page_count)
            for number in numbers:
                send_png(image_png(images.frame(number, longest_side)[0]))
        elif make_pages:
            pages = make_pages(data)
            check(len(pages))
            for number in numbers:
                sheet = Pdf(draw_text_page(pages[number - 1]), limits)
                send_png(png(*sheet.draw_page(1, dpi, longest_side * longest_side)))
        else:
            pdf = Pdf(data, limits)
            pages = Attachments(pdf, limits).pages()
            check(pdf.page_count + len(pages))
            for number in numbers:
                sheet, at = pdf, number
                if number > pdf.page_count:
                    sheet, at = Pdf(draw_text_page(pages[number - pdf.page_count - 1]), limits), 1
                send_png(png(*sheet.draw_page(at, dpi, longest_side * longest_side)))

    return draw
