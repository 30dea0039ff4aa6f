"""The reading process: it parses one untrusted file. Standard input is the file, standard output the channel.

The first line of the channel is the job, as JSON. The answer (`answers.py`) is written when it is complete.

Everything that jobs need was loaded before this process was forked. It is locked down before it opens the file.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from PIL import Image

from pagewords import sniff, text
from pagewords.answers import MAX_SENTENCE, Answer, Failure, MailParts, Reading, page_to_json
from pagewords.archive import read_zip
from pagewords.docx import docx_parts
from pagewords.drawing import crop_and_resize, draw_text_page, image_png, png
from pagewords.einvoice import read_attachments, read_einvoice
from pagewords.enclosed import Container, unpack
from pagewords.encoding import detect_code_page
from pagewords.errors import Damaged, NoSuchPage, NotInstalled, OverLimit, PagewordsError, Unsupported
from pagewords.image import Images
from pagewords.jobs import DrawJob, Job, MailJob, OcrJob, ReadJob, UnlockJob, job_from_json
from pagewords.mail import mail_parts, read_mail, read_msg
from pagewords.markup import html_parts
from pagewords.opendocument import opendocument_parts
from pagewords.pages import MIB, Limits, Page
from pagewords.pagination import Pages, paginate
from pagewords.pdf import Pdf
from pagewords.pictures import is_text_line
from pagewords.reading_warnings import ReadingWarning, WarningCode
from pagewords.signed import signed_content
from pagewords.unlock import remove_password
from pagewords.xlsx import xlsx_parts
from processisolation.lockdown import limit_cpu, lock_down

# onnxruntime and the models map 1.4 GiB of address space and use 600 MiB of it.
OCR_MEMORY_BYTES = 1536 * MIB

_LABELS = {
    sniff.PDF: "PDF",
    sniff.PNG: "PNG image",
    sniff.JPEG: "JPEG image",
    sniff.TIFF: "TIFF image",
    sniff.WEBP: "WebP image",
    sniff.BMP: "bitmap",
    sniff.GIF: "GIF image",
}


_FormatContent = Container | Sequence[Sequence[str]]


class _Format(NamedTuple):
    """A format without pages: its name, the name of its engine, and its reading function."""

    label: str
    engine: str
    read: Callable[[bytes, Limits], _FormatContent]


def _without_limits(read: Callable[[bytes], _FormatContent]) -> Callable[[bytes, Limits], _FormatContent]:
    return lambda data, limits: read(data)


_FORMATS = {
    sniff.DOCX: _Format("Word document", "docx", docx_parts),
    sniff.XLSX: _Format("Excel workbook", "xlsx", xlsx_parts),
    sniff.HTML: _Format("HTML file", "html", _without_limits(html_parts)),
    sniff.EML: _Format("email", "email", _without_limits(read_mail)),
    sniff.MSG: _Format("Outlook message", "email", _without_limits(read_msg)),
    sniff.ZIP: _Format("ZIP archive", "zip", _without_limits(read_zip)),
    sniff.CSV: _Format("CSV file", "csv", _without_limits(text.csv_parts)),
    sniff.TXT: _Format("text file", "text", _without_limits(text.plain_parts)),
    sniff.EINVOICE: _Format("XML invoice", "xml", _without_limits(read_einvoice)),
    sniff.ODT: _Format("OpenDocument text", "odf", opendocument_parts),
    sniff.ODS: _Format("OpenDocument workbook", "odf", opendocument_parts),
    sniff.ODP: _Format("OpenDocument presentation", "odf", opendocument_parts),
}

_loaded: list[Any] = []  # the OCR engine, where there is one


def load(*, ocr: bool) -> None:
    """Import and load everything that readers need, with `ocr` also the OCR models: nothing can be loaded after
    lockdown."""
    import encodings

    Image.init()
    for text_of_a_code_page in ("é".encode("cp1252"), "Итого к оплате: 1250".encode("koi8-r")):
        detect_code_page(text_of_a_code_page)  # loads its models, at first use
    # A web page or a mail may name any encoding.
    for module in pkgutil.iter_modules(encodings.__path__):
        if module.name not in ("mbcs", "oem"):  # Windows only
            importlib.import_module(f"encodings.{module.name}")
    if ocr:
        from pagewords.ocr import Ocr

        with contextlib.suppress(ImportError):  # each job then raises NotInstalled
            _loaded.append(Ocr())


def main(parent: int) -> None:
    """Do the job and write the answer, in a process forked by `parent`."""
    with os.fdopen(1, "rb", closefd=False) as channel:
        request: dict[str, Any] = json.loads(channel.readline())
    kind = ""
    try:
        limits = Limits(**request["limits"])
        job = job_from_json(request)
        by_ocr = isinstance(job, OcrJob)
        memory = limits.memory_bytes + (OCR_MEMORY_BYTES if by_ocr else 0)
        lock_down(memory, math.ceil(limits.job_seconds(by_ocr=by_ocr)), parent, request["user"])
        with os.fdopen(0, "rb") as file:
            data = signed_content(file.read(limits.max_bytes + 1))
        kind = _kind(job, data)
        answer, contents = _run_job(job, data, kind, limits)
    except PagewordsError as error:
        answer, contents = _failure(error.code, str(error))
    except MemoryError:
        answer, contents = _failure(
            OverLimit.code,
            "Reading the file needs more memory than the limit for a document. Split it into smaller files.",
        )
    except RecursionError:
        answer, contents = _failure(OverLimit.code, f"The {_label(kind)} is nested too deeply to be read.")
    except Exception as error:  # noqa: BLE001 — a parser may raise anything; the file is the cause
        sentence = f"The {_label(kind)} is damaged or cut off: its content cannot be read."
        answer, contents = _failure(Damaged.code, sentence, f"{type(error).__name__}: {error}")
    with os.fdopen(1, "wb", closefd=False) as out:
        out.write(answer.model_dump_json().encode("utf-8", "replace") + b"\n")
        out.writelines(contents)


_Answer = tuple[Answer, Sequence[bytes]]


def _failure(code: str, sentence: str, detail: str = "") -> _Answer:
    short_sentence, short_detail = (
        text.encode("utf-8", "replace").decode()[:MAX_SENTENCE] for text in (sentence, detail)
    )
    return Answer(failure=Failure(code=code, sentence=short_sentence, detail=short_detail)), []


def _label(kind: str) -> str:
    return _FORMATS[kind].label if kind in _FORMATS else _LABELS.get(kind, "file")


def _kind(job: Job, data: bytes) -> str:
    match job:
        case ReadJob():
            return sniff.media_type(data, re.sub(r"(?i)\.p7m\Z", "", job.filename))
        case OcrJob() | DrawJob():
            kind = sniff.media_type(data, "") if job.media_type is None else job.media_type
            if job.media_type is None and kind not in sniff.IMAGES:
                raise Unsupported("The file is not a picture in a supported format.")
            return kind
        case MailJob():
            return sniff.EML
        case UnlockJob():
            return ""


def _run_job(job: Job, data: bytes, kind: str, limits: Limits) -> _Answer:
    reading: Reading | None = None
    mail: MailParts | None = None
    match job:
        case ReadJob():
            reading, contents = _read(data, kind, job, limits)
        case OcrJob():
            page = _recognise(data, kind, job.number, limits)
            if job.media_type is None and not is_text_line(Images(data, kind, limits).size):
                # A photograph in a document may have no text.
                page = replace(
                    page, warnings=tuple(warning for warning in page.warnings if not _is_without_text(warning))
                )
            contents = [page_to_json(page)]
        case DrawJob():
            contents = _draw(job, data, kind, limits)
        case UnlockJob():
            copy = remove_password(data, job.password, limits)
            contents = [] if copy is None else [copy]
        case MailJob():
            limit_cpu(math.ceil(limits.seconds))
            mail, contents = mail_parts(data)
    return Answer(reading=reading, mail=mail, sizes=[len(content) for content in contents]), contents


def _is_without_text(warning: ReadingWarning) -> bool:
    return warning.code is WarningCode.NOTHING_READ and not warning.count


def _limit_cpu_to(page_count: int, limits: Limits) -> None:
    limit_cpu(math.ceil(limits.cpu_seconds(page_count)))


def _read(data: bytes, kind: str, job: ReadJob, limits: Limits) -> tuple[Reading, list[bytes]]:
    """Return the pages that have text, then the enclosed files. The other pages need OCR."""
    if kind == sniff.PDF:
        return _read_layers(data, limits)
    if kind in sniff.IMAGES:
        count = Images(data, kind, limits).page_count
        return Reading(media_type=kind, page_count=count, scans=list(range(1, count + 1))), []
    container = _open(data, kind, limits)
    pages = _paginate(container, kind, limits)
    files, warnings = unpack(container.enclosed, limits, job)
    reading = Reading(
        media_type=kind,
        page_count=len(pages) + len(pages.pictures),
        pictures=list(pages.pictures),
        file_names=[name for name, _ in files],
        left_out=warnings,
    )
    return reading, [*map(page_to_json, pages), *pages.pictures.values(), *(content for _, content in files)]


def _open(data: bytes, kind: str, limits: Limits) -> Container:
    found = _FORMATS[kind].read(data, limits)
    return found if isinstance(found, Container) else Container(found)


def _paginate(container: Container, kind: str, limits: Limits) -> Pages:
    pages = paginate(container.parts, _FORMATS[kind].engine, limits)
    _limit_cpu_to(len(pages), limits)
    return pages


def _read_layers(data: bytes, limits: Limits) -> tuple[Reading, list[bytes]]:
    """Return the text layer of each PDF page. An embedded e-invoice follows as further pages."""
    pdf = Pdf(data, limits)
    invoice, warnings = read_attachments(pdf, limits)
    _limit_cpu_to(pdf.page_count + len(invoice), limits)
    scans: list[int] = []
    contents: list[bytes] = []
    for number in range(1, pdf.page_count + 1):
        page = pdf.read_page(number)
        if page is None:
            scans.append(number)
        else:
            contents.append(page_to_json(_with_warnings(page, warnings) if number == 1 else page))
    contents += map(page_to_json, invoice)
    return Reading(media_type=sniff.PDF, page_count=pdf.page_count + len(invoice), scans=scans), contents


def _recognise(data: bytes, kind: str, number: int, limits: Limits) -> Page:
    from pagewords.ocr import DPI, LONGEST_SIDE

    if not _loaded:
        raise NotInstalled(
            "The page has no text of its own, and this installation has no OCR. Install rapidocr and onnxruntime."
        )
    (ocr,) = _loaded
    if kind == sniff.PDF:
        pdf = Pdf(data, limits)
        page = pdf.recognise_page(number, DPI, LONGEST_SIDE * LONGEST_SIDE, ocr)
        return _with_warnings(page, read_attachments(pdf, limits)[1]) if number == 1 else page
    images = Images(data, kind, limits)
    frame, width, height = images.frame(number, LONGEST_SIDE)
    page = ocr.read_page(number, frame, width, height)
    return _with_warnings(page, [ReadingWarning(WarningCode.FRAMES_NOT_READ, number)]) if images.is_animated else page


def _with_warnings(page: Page, warnings: Sequence[ReadingWarning]) -> Page:
    return replace(page, warnings=(*page.warnings, *warnings))


def _draw(job: DrawJob, data: bytes, kind: str, limits: Limits) -> list[bytes]:
    dpi, max_pixels = job.dpi, job.longest_side * job.longest_side

    def draw_frame(images: Images, number: int) -> bytes:
        return image_png(crop_and_resize(images.frame(number, job.longest_side)[0], job.box, job.width))

    if kind in sniff.IMAGES:
        images = Images(data, kind, limits)
        page_count, draw = images.page_count, partial(draw_frame, images)
    else:
        pdf = Pdf(data, limits) if kind == sniff.PDF else None
        pages = read_attachments(pdf, limits)[0] if pdf else _paginate(_open(data, kind, limits), kind, limits)
        pictures = pages.pictures if isinstance(pages, Pages) else {}
        page_count = (pdf.page_count if pdf else 0) + len(pages) + len(pictures)
        texts = {page.number: page for page in pages}

        def draw(number: int) -> bytes:
            if number in pictures:
                picture = pictures[number]
                return draw_frame(Images(picture, sniff.media_type(picture, ""), limits), 1)
            sheet = Pdf(draw_text_page(texts[number]), limits) if number in texts else pdf
            assert sheet is not None
            return png(*sheet.draw_page(number if sheet is pdf else 1, dpi, max_pixels, job.box, job.width))

    _limit_cpu_to(page_count, limits)
    for number in job.numbers:
        if not 1 <= number <= page_count:
            raise NoSuchPage(f"The document has no page {number}; it has {page_count}.")
    pngs: list[bytes] = []
    remaining_bytes = job.max_bytes
    for number in job.numbers:
        picture = draw(number)
        remaining_bytes -= len(picture)
        if remaining_bytes < 0:
            break
        pngs.append(picture)
    return pngs
