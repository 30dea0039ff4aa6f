"""Read or draw documents in locked-down subprocesses, and validate their answers: the file may be hostile."""

from __future__ import annotations

import asyncio
import inspect
import io
import os
import signal
import stat
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from pagewords.answers import Answer, MailParts, Reading, parse_page
from pagewords.enclosed import max_enclosed_bytes
from pagewords.errors import (
    Damaged,
    NoSuchPage,
    NoText,
    NotInstalled,
    OverLimit,
    PagewordsError,
    PasswordProtected,
    ReadersUnavailable,
    Unreadable,
    Unsupported,
    WrongType,
)
from pagewords.jobs import DrawJob, Job, MailJob, OcrJob, ReadJob, UnlockJob, job_to_json
from pagewords.pages import MIB, DocumentContent, EnclosedFile, Limits, Page
from pagewords.readers import PLAIN, WITH_OCR, Reader, ReaderLostError
from pagewords.reading_warnings import MAX_ENCLOSED, ReadingWarning, WarningCode
from pagewords.sniff import MEDIA_TYPES
from processisolation import users

MAX_CONTENT_BYTES = 64 * MIB
"""Maximum size of one page or one picture in an answer."""
_MAX_LINE = 4 * MIB
_SHORT_BYTES = 8 * 1024
"""A page of fewer bytes is parsed on the event loop, a larger one in a worker thread."""
CORES: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MAX_LOST_READERS: Final = 3
"""Readers of one job that may be lost because a fork server died."""

# The errors that the child may report. Any other code becomes Unreadable.
_ERRORS: dict[str, type[PagewordsError]] = {
    error.code: error
    for error in (Damaged, NotInstalled, NoText, NoSuchPage, OverLimit, PasswordProtected, Unsupported, WrongType)
}
# OCR uses a whole core, so pages queue for one, first come first served. A semaphore belongs to its event loop.
_ocr_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

_UNREAD_PICTURE = Page(1, 595, 842, "", [], "rapidocr", warnings=(ReadingWarning(WarningCode.PICTURES_NOT_READ, 1, 1),))

Progress = Callable[[int, int], Awaitable[None] | None]
T = TypeVar("T")

# One thread: several would compete with the event loop for the GIL.
_parsing_thread: Final = ThreadPoolExecutor(1, thread_name_prefix="pagewords")


async def read_file(
    path: Path,
    filename: str,
    limits: Limits,
    on_page: Progress | None = None,
    *,
    unpack_to: Path | None = None,
    max_files: int = MAX_ENCLOSED,
    max_bytes: int | None = None,
) -> DocumentContent:
    """Return the content of a document: pages of words with boxes.

    `filename` is the uploader's name for it; the media type is detected from the content. `on_page(done, total)` is
    called after each page. Enclosed files are unpacked into the folder `unpack_to`, or skipped without one: at most
    `max_files`, of `max_bytes` together (default: what a whole upload of this size may hold). Raises
    Unreadable, with the reason as a sentence, if the file cannot be read within the limits. Cancelling kills the
    subprocesses.
    """
    if max_bytes is None:
        max_bytes = max_enclosed_bytes(await asyncio.to_thread(file_size, path), limits)
    job = ReadJob(Path(filename).name, max_files, max_bytes, is_too_deep=unpack_to is None)
    with TemporaryDirectory(prefix="pagewords-") as folder:
        reading = _DocumentReading(path, job, limits, on_page, unpack_to, Path(folder))
        result = await _retry_if_lost(reading.read_text)
        await reading.recognise(result)
    pages = [reading.pages[number] for number in sorted(reading.pages)]
    if not reading.enclosed and not any(page.words for page in pages):
        struck = any(warning.code is WarningCode.STRUCK_OUT for page in pages for warning in page.warnings)
        hidden = any(page.hidden_words for page in pages)
        visible = " that is not struck out" if struck else " that a person can see" if hidden else ""
        raise NoText(f"No text{visible} was found in the document.")
    return DocumentContent(result.media_type, pages, reading.enclosed, result.left_out)


def file_size(path: Path) -> int:
    return path.stat().st_size


class _DocumentReading:
    """The reading of one document: first its own text in one process, then OCR with one process per page."""

    def __init__(
        self,
        path: Path,
        job: ReadJob,
        limits: Limits,
        on_page: Progress | None,
        unpack_to: Path | None,
        pictures_folder: Path,
    ) -> None:
        self._path = path
        self._job = job
        self._limits = limits
        self._on_page = on_page
        self._unpack_to = unpack_to
        self._pictures_folder = pictures_folder
        self.enclosed: list[EnclosedFile] = []
        self.pages: dict[int, Page] = {}
        self.cpu_seconds: list[float] = []

    async def read_text(self) -> Reading:
        """Read the pages that have text, and unpack the enclosed files."""
        limits = self._limits
        self.pages, self.enclosed = {}, []  # a retry starts again
        async with _answer(self._path, self._job, limits, self.cpu_seconds) as answer:
            reading, sizes = answer.reading, answer.sizes
            if reading is None or reading.page_count > limits.max_pages:
                raise _invalid_answer()
            text_page_count = reading.page_count - len(reading.scans) - len(reading.pictures)
            pictures, files = (
                sizes[text_page_count : text_page_count + len(reading.pictures)],
                sizes[text_page_count + len(reading.pictures) :],
            )
            if len(files) != len(reading.file_names) or (files and self._unpack_to is None):
                raise _invalid_answer()
            if sum(sizes[:text_page_count]) > limits.max_decoded_bytes:
                raise OverLimit(f"The file holds more than {limits.max_decoded_bytes / MIB:,.0f} MiB of text.")
            for group in (pictures, files):
                if sum(group) > limits.max_decoded_bytes or max(group, default=0) > limits.max_bytes:
                    raise _invalid_answer()
            for _ in range(text_page_count):
                page = await _parsed(await answer.next_content(), reading.page_count)
                await self._add_page(page, reading.page_count)
            if sorted([*self.pages, *reading.scans, *reading.pictures]) != list(range(1, reading.page_count + 1)):
                raise _invalid_answer()
            for number in reading.pictures:
                await answer.save_next_content(self._pictures_folder / str(number))
            for name, size in zip(reading.file_names, files, strict=True):
                if self._unpack_to is not None:
                    file = EnclosedFile(name, self._unpack_to / str(len(self.enclosed)), size)
                    await answer.save_next_content(file.path)
                    self.enclosed.append(file)
        return reading

    async def recognise(self, reading: Reading) -> None:
        """Read the pages without text by OCR. Each document queues as many pages at a time as there are cores."""
        left = deque([*reading.scans, *reading.pictures])
        seconds = self._limits.cpu_seconds(reading.page_count)
        seconds += self._limits.cpu_seconds(len(left), by_ocr=True)

        async def recognise_next() -> None:
            while left:
                number = left.popleft()
                await _retry_if_lost(partial(self._recognise_page, number, reading))
                if sum(self.cpu_seconds) > seconds:
                    raise OverLimit(
                        f"Reading the file took more than {seconds:.0f} s of processor time, the limit for its pages."
                    )

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(CORES, len(left))):
                    group.create_task(recognise_next())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _recognise_page(self, number: int, reading: Reading) -> None:
        is_picture = number in reading.pictures
        path = self._pictures_folder / str(number) if is_picture else self._path
        job = OcrJob(None, 1) if is_picture else OcrJob(reading.media_type, number)
        slots = _ocr_slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(CORES))
        try:
            async with slots, _answer(path, job, self._limits, self.cpu_seconds) as answer:
                content = await answer.next_content()
            page = await _parsed(content, 1 if is_picture else reading.page_count)
        except Unreadable:
            if not is_picture:
                raise
            page = _UNREAD_PICTURE
        await self._add_page(page.renumbered(number) if is_picture else page, reading.page_count, number)

    async def _add_page(self, page: Page, page_count: int, number: int | None = None) -> None:
        if page.number in self.pages or number not in (None, page.number):
            raise _invalid_answer()
        self.pages[page.number] = page
        if self._on_page and inspect.isawaitable(pending := self._on_page(len(self.pages), page_count)):
            await pending


async def _parsed(content: bytes, page_count: int) -> Page:
    with _rejecting_invalid_answers():
        is_short = len(content) < _SHORT_BYTES
        if is_short:
            return parse_page(content, page_count)
        return await asyncio.get_running_loop().run_in_executor(_parsing_thread, parse_page, content, page_count)


async def _retry_if_lost(do: Callable[[], Awaitable[T]]) -> T:
    """Call `do`, and call it again if its reader was lost through no fault of its own. Raise ReadersUnavailable if too
    many readers in a row are lost."""
    for _ in range(MAX_LOST_READERS + 1):
        with suppress(ReaderLostError):
            return await do()
    raise ReadersUnavailable(
        "The processes that read files keep crashing. Check the memory and the logs of this machine."
    )


async def unlock_file(path: Path, password: str, limits: Limits, target: Path) -> bool:
    """Return whether the document has a password; if so, write a copy without it to `target`.

    Raises PasswordProtected if the password is wrong, Unreadable like `read_file`.
    """

    async def unlock() -> bool:
        async with _answer(path, UnlockJob(password), limits, []) as answer:
            if not answer.sizes:
                return False
            if answer.sizes[0] > limits.max_bytes:
                raise OverLimit(
                    f"Without its password the file has more than {limits.max_bytes / MIB:,.0f} MiB, the limit."
                )
            await answer.save_next_content(target)
            return True

    return await _retry_if_lost(unlock)


async def draw_pages(path: Path, job: DrawJob, limits: Limits) -> list[bytes]:
    """Return PNGs of pages, in the given order: as many as fit into the job's `max_bytes`.

    Raises NoSuchPage for a page or a media type that does not exist, Unreadable like `read_file`.
    """
    if job.media_type not in MEDIA_TYPES:
        raise NoSuchPage(f"A file of type {job.media_type} has no page images.")

    async def draw() -> list[bytes]:
        async with _answer(path, job, limits, []) as answer:
            if len(answer.sizes) > len(job.numbers) or sum(answer.sizes) > job.max_bytes:
                raise _invalid_answer()
            drawn = [await answer.next_content() for _ in answer.sizes]
        if not all(picture.startswith(b"\x89PNG\r\n\x1a\n") for picture in drawn):
            raise Unreadable("The page could not be drawn.")
        return drawn

    return await _retry_if_lost(draw)


async def split_mail(path: Path, limits: Limits, unpack_to: Path) -> tuple[MailParts, list[EnclosedFile]]:
    """Return the sender and subject of an email, and its attachments, unpacked into the folder `unpack_to`.

    Raises Unreadable like `read_file`.
    """

    async def split() -> tuple[MailParts, list[EnclosedFile]]:
        async with _answer(path, MailJob(), limits, []) as answer:
            mail, sizes = answer.mail, answer.sizes
            if mail is None or len(sizes) != len(mail.file_names) or sum(sizes) > limits.max_decoded_bytes:
                raise _invalid_answer()
            files: list[EnclosedFile] = []
            for name, size in zip(mail.file_names, sizes, strict=True):
                files.append(EnclosedFile(name, unpack_to / str(len(files)), size))
                await answer.save_next_content(files[-1].path)
        return mail, files

    return await _retry_if_lost(split)


class _CheckedAnswer:
    def __init__(self, reader: Reader, answer: Answer) -> None:
        self._reader = reader
        self.reading = answer.reading
        self.mail = answer.mail
        self.sizes = answer.sizes
        self._next_sizes = iter(answer.sizes)

    async def next_content(self) -> bytes:
        """Return the next content: a page or a picture."""
        size = next(self._next_sizes, 0)
        if not size:
            raise _invalid_answer()
        if size > MAX_CONTENT_BYTES:
            raise OverLimit(
                f"A page has {size / MIB:,.0f} MiB of text; the limit is {MAX_CONTENT_BYTES / MIB:,.0f}. Split it."
            )
        return await self._receive(size)

    async def save_next_content(self, path: Path) -> None:
        """Write the next content to a file, in chunks."""
        size = next(self._next_sizes)
        with await asyncio.to_thread(path.open, "wb") as file:
            while size:
                chunk = await self._receive(min(size, MIB))
                await asyncio.to_thread(file.write, chunk)
                size -= len(chunk)

    async def _receive(self, size: int) -> bytes:
        try:
            return await self._reader.answers.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionResetError) as error:
            raise await _error_of_dead_reader(self._reader) from error


@asynccontextmanager
async def _answer(path: Path, job: Job, limits: Limits, cpu_seconds: list[float]) -> AsyncGenerator[_CheckedAnswer]:
    """Yield the answer of a reader that did the job. Raise the error that it reports, or Unreadable if it died.

    The reader is killed at the end, and its processor time is added to `cpu_seconds`.
    """
    forkserver = WITH_OCR if isinstance(job, OcrJob) else PLAIN
    seconds = limits.patience * limits.job_seconds(by_ocr=isinstance(job, OcrJob))
    timeout = asyncio.timeout(seconds)
    # The reader gets the open file, since its user may have no access to the path.
    with _leased_user() as user, await asyncio.to_thread(_open_checked, path, limits) as file:
        try:
            async with timeout, forkserver.reader(file.fileno(), job_to_json(job, limits, user), _MAX_LINE) as reader:
                try:
                    yield await _checked_answer(reader)
                finally:
                    cpu_seconds.append(await reader.stop())
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise OverLimit(f"Reading the file took longer than the limit of {seconds:g} seconds.") from error


@contextmanager
def _leased_user() -> Generator[int | None]:
    """Yield a user id for a reader, or None if this process is not root."""
    try:
        lease = users.lease_user()
    except users.UserIdsError as error:
        raise ReadersUnavailable(str(error)) from error
    try:
        yield None if lease is None else lease.user
    finally:
        if lease is not None:
            lease.release()


async def _checked_answer(reader: Reader) -> _CheckedAnswer:
    try:
        line = await reader.answers.readline()
    except (ConnectionResetError, ValueError):
        line = b""
    if not line.endswith(b"\n"):
        raise await _error_of_dead_reader(reader)
    with _rejecting_invalid_answers():
        answer = Answer.model_validate_json(line)
    if failure := answer.failure:
        error = _ERRORS.get(failure.code, Unreadable)(failure.sentence)
        if failure.detail:
            error.add_note(failure.detail)
        raise error
    return _CheckedAnswer(reader, answer)


def _open_checked(path: Path, limits: Limits) -> io.FileIO:
    file = io.FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    try:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("The path is not a regular file.")
        if status.st_size == 0:
            raise NoText("The file is empty.")
        if status.st_size > limits.max_bytes:
            raise OverLimit(
                f"The file has {status.st_size / MIB:,.1f} MiB; the limit is {limits.max_bytes / MIB:,.0f} MiB."
            )
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def _rejecting_invalid_answers() -> Generator[None]:
    try:
        yield
    except ValueError as error:
        raise _invalid_answer() from error


def _invalid_answer() -> Damaged:
    return Damaged("The file is damaged: it made the process that read it return an invalid result.")


async def _error_of_dead_reader(reader: Reader) -> Unreadable:
    ended = await reader.wait_for_exit()
    if ended.code == -signal.SIGXCPU:
        return OverLimit(
            f"Reading the file took more than the limit of {ended.cpu_seconds:.0f} seconds of processor time."
        )
    if ended.code == -signal.SIGKILL:
        return OverLimit("The process that read the file was killed, most likely because memory ran out.")
    if ended.code < 0:
        name = signal.Signals(-ended.code).name
        return Damaged(
            f"The file crashed the process that read it ({name}): it is damaged, or exceeds the memory limit."
        )
    return Unreadable(f"The process that read the file stopped early (exit code {ended.code}).")
