"""What a reader does: it parses an untrusted file. Standard input is the file, standard output the channel.

The job is the first line of the channel, as JSON. The answers are JSON lines:

- first `{"pages": n, "media_type"}`;
- for reading, `{"page": {…}}` for each page, `{"enclosed": name, "size"}` and that many bytes for each file inside it,
  `{"left_out": [warnings of those that are not handed over]}`, then `{"done": true, "scans": [numbers of the pages left
  to OCR]}`;
- for OCR, `{"page": {…}}` for each number that comes as a line; an empty line asks for `{"done": true, "scans": []}`;
- for drawing, `{"png": size}` and that many bytes for each page asked for, then `{"done": true}`;
- for unlocking, `{"unlocked": size}` and that many bytes if the file has a password, then `{"done": true}`;
- at any time, as the last, `{"error": sentence, "code", "detail"?: what a developer wants to know}`.

All that any job needs was loaded before this process was forked. It is locked down before it looks at the file.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

from fieldmark.documents.reading import sniff
from fieldmark.documents.reading.enclosed import Container
from fieldmark.documents.reading.jobs import DrawJob, Job, ReadJob, UnlockJob, job_from_json
from fieldmark.documents.reading.pages import MIB, Limits, Page
from fieldmark.documents.reading.sandbox_lockdown import limit_cpu, lock_down
from fieldmark.domain.reading_warnings import ReadingWarning, WarningCode
from fieldmark.errors import Damaged, FieldmarkError, NotFound, OverLimit

# onnxruntime and the models map 1.4 GiB of address space, of which 600 MiB are used.
OCR_MEMORY_BYTES = 1536 * MIB

Send = Callable[[dict[str, Any]], None]
SendBytes = Callable[[dict[str, Any], bytes], None]
Begin = Callable[[int], None]
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


_loaded: list[Any] = []  # the OCR engine, where there is one


def load(*, ocr: bool) -> None:
    """Import and load all that readers need, with `ocr` the models too: nothing can be after lockdown."""
    import encodings

    from PIL import Image

    Image.init()
    # A web page or a mail may name any encoding.
    for module in pkgutil.iter_modules(encodings.__path__):
        if module.name not in ("mbcs", "oem"):  # Windows only
            importlib.import_module(f"encodings.{module.name}")
    folder = importlib.import_module("fieldmark.documents.reading")
    for module in pkgutil.iter_modules(folder.__path__):
        if module.name not in ("sandbox", "ocr"):
            importlib.import_module(f"{folder.__name__}.{module.name}")
    if ocr:
        from fieldmark.documents.reading.ocr import Ocr

        _loaded.append(Ocr())


def main(parent: int) -> None:
    """Do the job, as a process that `parent` has forked. The last line says how it ended."""
    channel = os.fdopen(1, "rb", closefd=False)
    out = os.fdopen(1, "wb", closefd=False)
    given: dict[str, Any] = json.loads(channel.readline())
    kind = ""

    def send(message: dict[str, Any]) -> None:
        out.write(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n")
        out.flush()

    try:
        limits = Limits(**given["limits"])
        job = job_from_json(given)
        by_ocr = isinstance(job, ReadJob) and job.scans is not None
        memory = limits.memory_bytes + (OCR_MEMORY_BYTES if by_ocr else 0)
        lock_down(memory, math.ceil(limits.cpu_seconds(limits.max_pages, by_ocr=by_ocr)), parent, given["user"])
        with os.fdopen(0, "rb") as file:
            data = file.read(limits.max_bytes + 1)
        kind = _kind(job, data)

        def begin(page_count: int) -> None:
            limit_cpu(math.ceil(limits.cpu_seconds(page_count)))
            send({"pages": page_count, "media_type": kind})

        def send_bytes(message: dict[str, Any], content: bytes) -> None:
            send(message)
            out.write(content)
            out.flush()

        match job:
            case DrawJob():
                _draw(job, data, kind, limits, begin, send, send_bytes)
            case UnlockJob():
                _unlock(job.password, data, limits, send, send_bytes)
            case ReadJob(scans=None):
                _read(data, kind, job.is_too_deep, limits, begin, send, send_bytes)
            case ReadJob():
                _recognise(job.scans or (), data, kind, limits, send, channel)
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


def _unlock(password: str, data: bytes, limits: Limits, send: Send, send_bytes: SendBytes) -> None:
    from fieldmark.documents.reading.unlock import unlocked

    copy = unlocked(data, password, limits)
    if copy is not None:
        send_bytes({"unlocked": len(copy)}, copy)
    send({"done": True})


def _read(
    data: bytes, kind: str, is_too_deep: bool, limits: Limits, begin: Begin, send: Send, send_bytes: SendBytes
) -> None:
    """The pages with text of their own. The others are left to OCR."""
    if kind == sniff.PDF:
        _read_layers(data, limits, begin, send)
        return
    if kind in sniff.IMAGES:
        from fieldmark.documents.reading.image import Images

        count = Images(data, kind, limits).page_count
        begin(count)
        send({"done": True, "scans": list(range(1, count + 1))})
        return
    if kind in sniff.CONTAINERS:
        _read_container(data, kind, is_too_deep, limits, begin, send, send_bytes)
        return
    pages = _prepare_pagination(kind, limits)(data)
    begin(len(pages))
    for page in pages:
        send({"page": page.to_json()})
    send({"done": True, "scans": []})


def _read_container(
    data: bytes, kind: str, is_too_deep: bool, limits: Limits, begin: Begin, send: Send, send_bytes: SendBytes
) -> None:
    """The file's own text, then the files inside it."""
    from fieldmark.documents.reading.enclosed import Unpacking
    from fieldmark.documents.reading.pagination import paginate

    open_container, engine = _opening(kind)
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


def _opening(kind: str) -> tuple[Callable[[bytes], Container], str]:
    """The function that opens a file with files inside, and what its pages are said to be read by."""
    if kind == sniff.ZIP:
        from fieldmark.documents.reading.zip_archive import read_zip

        return read_zip, "zip"
    if kind == sniff.MSG:
        from fieldmark.documents.reading.outlook import read_msg

        return read_msg, "email"
    from fieldmark.documents.reading.mail import read_mail

    return read_mail, "email"


def _read_layers(data: bytes, limits: Limits, begin: Begin, send: Send) -> None:
    """The text layer of every page of a PDF. An invoice inside the PDF follows as pages of its own."""
    from fieldmark.documents.reading.pdf import Pdf
    from fieldmark.documents.reading.pdf_attachments import Attachments

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


def _recognise(scans: Sequence[int], data: bytes, kind: str, limits: Limits, send: Send, channel: BinaryIO) -> None:
    """Pages by OCR, as their numbers come in: so several readers share those of one document."""
    (ocr,) = _loaded
    if kind == sniff.PDF:
        page_count, read_page = _pdf_scans(data, limits, ocr)
    else:
        page_count, read_page = _frames(data, kind, limits, ocr)
    limit_cpu(math.ceil(limits.cpu_seconds(len(scans), by_ocr=True)))
    send({"pages": page_count, "media_type": kind})
    for number in _numbers(channel):
        send({"page": read_page(number).to_json()})
    send({"done": True, "scans": []})


def _numbers(channel: BinaryIO) -> Iterator[int]:
    while line := channel.readline().strip():
        yield int(line)


def _pdf_scans(data: bytes, limits: Limits, ocr: Any) -> tuple[int, Callable[[int], Page]]:
    from PIL import Image

    from fieldmark.documents.reading.ocr import DPI, LONGEST_SIDE
    from fieldmark.documents.reading.pdf import Pdf
    from fieldmark.documents.reading.pdf_attachments import Attachments

    pdf = Pdf(data, limits)
    attachments = Attachments(pdf, limits)

    def read_page(number: int) -> Page:
        pixels, width, height = pdf.draw_page(number, DPI, LONGEST_SIDE * LONGEST_SIDE)
        image = Image.frombytes("RGB", (width, height), pixels, "raw", "RGBX")
        return pdf.told_of_layer(attachments.told_on(ocr.read_page(number, image, *pdf.size(number))))

    return pdf.page_count + len(attachments.pages()), read_page


def _frames(data: bytes, kind: str, limits: Limits, ocr: Any) -> tuple[int, Callable[[int], Page]]:
    from fieldmark.documents.reading.image import Images
    from fieldmark.documents.reading.ocr import LONGEST_SIDE

    images = Images(data, kind, limits)

    def read_page(number: int) -> Page:
        image, width, height = images.frame(number, LONGEST_SIDE)
        page: Page = ocr.read_page(number, image, width, height)
        if images.is_animated:
            page = replace(page, warnings=(*page.warnings, ReadingWarning(WarningCode.FRAMES_NOT_READ, number)))
        return page

    return images.page_count, read_page


def _prepare_pagination(kind: str, limits: Limits) -> Callable[[bytes], list[Page]]:
    """The function that makes the pages of a format without pages of its own."""
    from fieldmark.documents.reading.pagination import paginate

    if kind == sniff.DOCX:
        from fieldmark.documents.reading.docx import docx_parts

        return lambda data: paginate(docx_parts(data, limits), "docx", limits)
    if kind == sniff.XLSX:
        from fieldmark.documents.reading.xlsx import xlsx_parts

        return lambda data: paginate(xlsx_parts(data, limits), "xlsx", limits)
    if kind == sniff.HTML:
        from fieldmark.documents.reading.markup import html_parts

        return lambda data: paginate(html_parts(data), "html", limits)
    if kind in sniff.OPENDOCUMENTS:
        from fieldmark.documents.reading.opendocument import opendocument_parts

        return lambda data: paginate(opendocument_parts(data, limits), "odf", limits)
    if kind in sniff.CONTAINERS:
        open_container, engine = _opening(kind)
        return lambda data: paginate(open_container(data).parts, engine, limits)
    if kind == sniff.EINVOICE:
        from fieldmark.documents.reading.einvoice import einvoice_parts

        return lambda data: paginate(einvoice_parts(data), "xml", limits)

    from fieldmark.documents.reading import text

    if kind == sniff.CSV:
        return lambda data: paginate(text.csv_parts(data), "csv", limits)
    return lambda data: paginate(text.plain_parts(data), "text", limits)


def _draw(
    job: DrawJob,
    data: bytes,
    kind: str,
    limits: Limits,
    begin: Begin,
    send: Send,
    send_bytes: SendBytes,
) -> None:
    from fieldmark.documents.reading.drawing import draw_text_page, image_png, part_of, png
    from fieldmark.documents.reading.image import Images
    from fieldmark.documents.reading.pdf import Pdf
    from fieldmark.documents.reading.pdf_attachments import Attachments

    dpi, max_pixels = job.dpi, job.longest_side * job.longest_side

    def check(page_count: int) -> None:
        begin(page_count)
        for number in job.numbers:
            if not 1 <= number <= page_count:
                raise NotFound(f"The document has no page {number}; it has {page_count}.")

    def send_png(image: bytes) -> None:
        send_bytes({"png": len(image)}, image)

    if kind in sniff.IMAGES:
        images = Images(data, kind, limits)
        check(images.page_count)
        for number in job.numbers:
            frame = images.frame(number, job.longest_side)[0]
            send_png(image_png(part_of(frame, job.box, job.width)))
    elif kind == sniff.PDF:
        pdf = Pdf(data, limits)
        pages = Attachments(pdf, limits).pages()
        check(pdf.page_count + len(pages))
        for number in job.numbers:
            sheet, at = pdf, number
            if number > pdf.page_count:
                sheet, at = Pdf(draw_text_page(pages[number - pdf.page_count - 1]), limits), 1
            send_png(png(*sheet.draw_page(at, dpi, max_pixels, job.box, job.width)))
    else:
        pages = _prepare_pagination(kind, limits)(data)
        check(len(pages))
        for number in job.numbers:
            sheet = Pdf(draw_text_page(pages[number - 1]), limits)
            send_png(png(*sheet.draw_page(1, dpi, max_pixels, job.box, job.width)))
    send({"done": True})
