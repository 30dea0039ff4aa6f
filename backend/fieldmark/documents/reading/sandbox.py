"""Read or draw a document in locked-down subprocesses, and check what they answer: the file may be hostile."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import stat
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, Final, TypeVar

from fieldmark.db.aside import aside
from fieldmark.documents.reading.enclosed import MAX_NAME
from fieldmark.documents.reading.jobs import WHOLE_PAGE, DrawJob, Job, ReadJob, UnlockJob, job_to_json
from fieldmark.documents.reading.pages import ENGINES, MIB, DocumentContent, EnclosedFile, Limits, Page, clean
from fieldmark.documents.reading.readers import PLAIN, WITH_OCR, Reader, ReaderLost
from fieldmark.documents.reading.sniff import MEDIA_TYPES
from fieldmark.domain.reading_warnings import LEFT_OUT, MAX_ENCLOSED, MAX_EXCERPT, ReadingWarning
from fieldmark.errors import (
    Damaged,
    FieldmarkError,
    NoText,
    NotFound,
    OverLimit,
    PasswordProtected,
    Unavailable,
    Unreadable,
    Unsupported,
)
from fieldmark.isolation import users

MAX_LINE = 64 * MIB
SHORT_LINE = 8 * 1024
"""One that is parsed on the event loop: a page may hold 100,000 words."""
MAX_PAGE_WARNINGS = 10
NO_MESSAGE: Final[dict[str, Any]] = {}
CORES: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MOST_LOST: Final = 3
"""How often a reader that was lost without its own doing is replaced while nothing new is read."""

# What the child may say happened; any other word of it is no more than that the file is unreadable.
_ERRORS: dict[str, type[FieldmarkError]] = {
    error.code: error for error in (Damaged, NoText, NotFound, OverLimit, PasswordProtected, Unsupported)
}

Progress = Callable[[int, int], Awaitable[None] | None]
T = TypeVar("T")


async def read_file(
    path: Path, filename: str, limits: Limits, on_page: Progress | None = None, *, unpack_to: Path | None = None
) -> DocumentContent:
    """The content of a document: pages of words with boxes.

    `filename` is what the uploader called it. The media type is found by the content. `on_page(done, total)` is called
    after each page. Files inside the document are unpacked into the folder `unpack_to`; they are left out without one.
    Raises Unreadable, with one sentence that says why, for any file that cannot be read within the limits. Cancelling
    kills the subprocesses.
    """
    reading = _Reading(path, Path(filename).name, limits, on_page, unpack_to)
    async with _Deadline(limits) as deadline:
        await reading.read(deadline)
    pages, total = reading.pages, reading.total
    if sorted(pages) != list(range(1, total + 1)):
        raise Unreadable("The file could not be read to its end.")
    if not reading.enclosed and not any(page.words for page in pages.values()):
        hidden = any(page.hidden_words for page in pages.values())
        raise NoText(f"No text{' that a person can see' if hidden else ''} was found in the document.")
    in_order = [pages[number] for number in sorted(pages)]
    return DocumentContent(
        reading.media_type, in_order, reading.enclosed, reading.left_out, cpu_seconds=sum(reading.cpu_seconds)
    )


class _Reading:
    """The reading of one document: first what text it has itself, then the rest by OCR."""

    def __init__(
        self, path: Path, filename: str, limits: Limits, on_page: Progress | None, unpack_to: Path | None
    ) -> None:
        self._path = path
        self._filename = filename
        self._limits = limits
        self._on_page = on_page
        self._unpack_to = unpack_to
        self.enclosed: list[EnclosedFile] = []
        self.left_out: list[ReadingWarning] = []
        self.pages: dict[int, Page] = {}
        self.total = 0
        self.media_type = ""
        self.cpu_seconds: list[float] = []
        self._left: deque[int] = deque()

    async def read(self, deadline: _Deadline) -> None:
        losses = _Losses()
        while True:
            try:
                with _at_work():
                    scans = await self._read_text(deadline)
                break
            except ReaderLost:
                losses.add(len(self.pages))
        if not scans:
            return
        self._left.extend(scans)
        deadline.allow(self._limits.cpu_seconds(self.total) + self._limits.cpu_seconds(len(scans), by_ocr=True))
        job = ReadJob(self._filename, self.media_type, scans)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._recognise(job, group))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _read_text(self, deadline: _Deadline) -> list[int]:
        """The pages that are left to OCR."""
        scans: list[int] = []
        self.enclosed = []  # a reader before this one may have been lost
        job = ReadJob(self._filename, is_too_deep=self._unpack_to is None)
        async with _subprocess(self._path, job, self._limits, self.cpu_seconds) as reader:
            async for message in _messages(reader, self._limits):
                if "page" in message:
                    await self._take(message)
                    continue
                if "enclosed" in message:
                    with _rejecting_nonsense():
                        arriving = _checked_enclosed(message, self.enclosed, self._limits, self._unpack_to)
                    await _receive_file(reader, arriving)
                    self.enclosed.append(arriving)
                    continue
                with _rejecting_nonsense():
                    if "pages" in message:
                        self.total = _checked_number(message["pages"], self._limits)
                        self.media_type = _checked_media_type(message["media_type"])
                        deadline.allow(self._limits.cpu_seconds(self.total))
                    elif "left_out" in message:
                        self.left_out = [_checked_left_out(one) for one in message["left_out"][: len(LEFT_OUT)]]
                    else:
                        scans = [_checked_number(number, self._limits) for number in message["scans"]]
        return scans

    async def _recognise(self, job: ReadJob, group: asyncio.TaskGroup, helper: bool = False) -> None:
        """Read pages by OCR until none is left. A helper gives way as soon as all cores have something to do without
        it: so one long document has all that nobody else needs."""
        losses = _Losses()
        with _at_work():
            while self._left:
                try:
                    await self._recognise_with(job, group, helper)
                    if helper:
                        return
                except ReaderLost:
                    losses.add(len(self.pages))

    async def _recognise_with(self, job: ReadJob, group: asyncio.TaskGroup, helper: bool) -> None:
        async with _subprocess(self._path, job, self._limits, self.cpu_seconds) as reader:
            messages = _messages(reader, self._limits)
            begun = await anext(messages, NO_MESSAGE)
            if begun.get("pages") != self.total:
                raise Damaged("The file made its reader answer nonsense.")
            while self._left and not (helper and _at_work.count > CORES):
                if len(self._left) > 1 and _at_work.count < CORES:
                    group.create_task(self._recognise(job, group, helper=True))
                number = self._left.popleft()
                try:
                    await reader.say(b"%d" % number)
                    message = await anext(messages, NO_MESSAGE)
                except ReaderLost:
                    self._left.appendleft(number)
                    raise
                await self._take(message, number)

    async def _take(self, message: dict[str, Any], number: int | None = None) -> None:
        with _rejecting_nonsense():
            page = await aside(_checked_page, message["page"], self.total)
            if number not in (None, page.number):
                raise ValueError(page.number)
            self.pages[page.number] = page
        if self._on_page and inspect.isawaitable(pending := self._on_page(len(self.pages), self.total)):
            await pending


class _Losses:
    """The readers that one task has lost in a row. A page that was read since, by anybody, begins a new row, so a long
    document outlives any number of deaths. A death that takes the readers of several tasks is one for each of them."""

    def __init__(self) -> None:
        self._number = 0
        self._pages = 0

    def add(self, pages: int) -> None:
        """Count one, given how many pages are read by now. Raises Unavailable where there were too many."""
        self._number = self._number + 1 if pages == self._pages else 1
        self._pages = pages
        if self._number > MOST_LOST:
            raise Unavailable("The readers of files end again and again: see why on this machine.")


async def unlock_file(path: Path, password: str, limits: Limits, target: Path) -> bool:
    """Whether the document has a password; if so, a copy without it now lies at `target`.

    Raises PasswordProtected where it is not this one, Unreadable as `read_file`.
    """
    return await _unless_lost(lambda: _unlocked(path, password, limits, target))


async def _unlocked(path: Path, password: str, limits: Limits, target: Path) -> bool:
    is_locked = False
    async with _Deadline(limits), _subprocess(path, UnlockJob(password), limits, []) as reader:
        async for message in _messages(reader, limits):
            if "unlocked" in message and not is_locked:
                await _receive_file(reader, _checked_unlocked(message["unlocked"], limits, target))
                is_locked = True
    return is_locked


async def _unless_lost(do: Callable[[], Awaitable[T]]) -> T:
    """What it answers, tried again where its reader was lost without its own doing."""
    losses = _Losses()
    while True:
        try:
            return await do()
        except ReaderLost:
            losses.add(0)


async def draw_pages(
    path: Path,
    media_type: str,
    numbers: Sequence[int],
    limits: Limits,
    dpi: float,
    longest_side: int,
    max_bytes: int,
    box: Sequence[float] = WHOLE_PAGE,
    width: int | None = None,
) -> list[bytes]:
    """PNGs of pages, in the order asked for: as many of them as fit into `max_bytes` together.

    Raises NotFound for a page or a media type that does not exist, Unreadable as `read_file`.
    """
    if media_type not in MEDIA_TYPES:
        raise NotFound(f"A file of type {media_type} has no page images.")
    job = DrawJob(media_type, list(numbers), dpi, longest_side, box, width)
    return await _unless_lost(lambda: _drawn(path, job, limits, max_bytes))


async def _drawn(path: Path, job: DrawJob, limits: Limits, max_bytes: int) -> list[bytes]:
    drawn: list[bytes] = []
    numbers = job.numbers
    async with _Deadline(limits) as deadline, _subprocess(path, job, limits, []) as reader:
        async for message in _messages(reader, limits):
            if "pages" in message:
                deadline.allow(limits.cpu_seconds(len(numbers)))
            elif "png" in message and len(drawn) < len(numbers):
                with _rejecting_nonsense():
                    size = int(message["png"])
                png = await _read_png(reader, size)
                if not png.startswith(b"\x89PNG\r\n\x1a\n"):
                    raise Unreadable("The page could not be drawn.")
                if sum(map(len, drawn)) + len(png) > max_bytes:
                    return drawn
                drawn.append(png)
    if len(drawn) < len(numbers):
        raise Unreadable("The page could not be drawn.")
    return drawn


class _Deadline:
    """The time by the clock that a document may take: many times the processor time, which is what limits it."""

    def __init__(self, limits: Limits) -> None:
        self._patience = limits.patience
        self._seconds = limits.patience * limits.cpu_seconds(0)
        self._started = asyncio.get_running_loop().time()
        self._timeout = asyncio.timeout(self._seconds)

    def allow(self, cpu_seconds: float) -> None:
        """Let it take this much processor time in all."""
        self._seconds = self._patience * cpu_seconds
        self._timeout.reschedule(self._started + self._seconds)

    async def __aenter__(self) -> _Deadline:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        try:
            await self._timeout.__aexit__(*raised)
        except TimeoutError as error:
            raise OverLimit(f"The file took longer to read than the {self._seconds:g} seconds it may.") from error


class _AtWork:
    """The readers of this process that compute. With as many as there are cores, no document gets a second one."""

    count = 0

    @contextmanager
    def __call__(self) -> Generator[None]:
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1


_at_work: Final = _AtWork()


@asynccontextmanager
async def _subprocess(path: Path, job: Job, limits: Limits, cpu_seconds: list[float]) -> AsyncGenerator[Reader]:
    """The reader that works on the file. It is killed at the end, and its processor time added to `cpu_seconds`."""
    forkserver = WITH_OCR if isinstance(job, ReadJob) and job.scans is not None else PLAIN
    with users.taken() as user:
        # The file is handed over open: the reader's user need not be able to reach it.
        file = await asyncio.to_thread(_open_checked, path, limits)
        try:
            working = forkserver.reader(file, job_to_json(job, limits, user), MAX_LINE)
            async with working as (reader, taken):
                os.close(file)
                file = -1
                yield reader
            cpu_seconds += taken
        finally:
            if file >= 0:
                os.close(file)


def _open_checked(path: Path, limits: Limits) -> int:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("This is no file.")
        if status.st_size == 0:
            raise NoText("The file is empty.")
        if status.st_size > limits.max_bytes:
            raise OverLimit(
                f"The file has {status.st_size / MIB:,.1f} MiB; the limit is {limits.max_bytes / MIB:,.0f} MiB."
            )
    except BaseException:
        os.close(file)
        raise
    return file


async def _messages(reader: Reader, limits: Limits) -> AsyncIterator[dict[str, Any]]:
    """The child's messages, up to the last. Raises the error that it reports, and Unreadable if it died."""
    received = 0
    while True:
        try:
            line = await reader.answers.readline()
        except ConnectionResetError:  # it ended before it took what it was told
            raise await _cause_of_death(reader) from None
        except ValueError as error:
            raise OverLimit("A page of the file holds more than a page may.") from error
        received += len(line)
        if received > limits.max_decoded_bytes:
            raise OverLimit(f"The file holds more than {limits.max_decoded_bytes / MIB:,.0f} MiB of text.")
        if not line.endswith(b"\n"):
            raise await _cause_of_death(reader)
        with _rejecting_nonsense():
            message = dict[str, Any](json.loads(line) if len(line) < SHORT_LINE else await aside(json.loads, line))
        if "error" in message:
            with _rejecting_nonsense():
                error = _ERRORS.get(message["code"], Unreadable)(str(message["error"])[:500])
            if "detail" in message:
                error.add_note(str(message["detail"])[:500])
            raise error
        yield message
        if message.get("done"):
            return


@contextmanager
def _rejecting_nonsense() -> Generator[None]:
    """Turns the errors of parsing a message into Unreadable: a child that a file took over may send anything."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise Damaged("The file made its reader answer nonsense.") from error


async def _cause_of_death(reader: Reader) -> Unreadable:
    """Why a reader ended before its time. Raises ReaderLost where that says nothing of the file."""
    ended = await reader.ended()
    if ended.code == -signal.SIGXCPU:
        return OverLimit(f"The file took more than the {ended.cpu_seconds:.0f} seconds of computing that it may.")
    if ended.code == -signal.SIGKILL:
        return OverLimit("The reader was killed while it read the file, most likely because memory ran out.")
    if ended.code < 0:
        name = signal.Signals(-ended.code).name
        return Damaged(f"The file made its reader crash ({name}): it is damaged, or needs more memory than it may.")
    return Unreadable(f"The reader stopped before the file's end (exit code {ended.code}).")


async def _read_png(reader: Reader, size: int) -> bytes:
    if not 0 < size <= MAX_LINE:
        raise OverLimit("The page's image is too large.")
    try:
        return await reader.answers.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionResetError) as error:
        raise await _cause_of_death(reader) from error


async def _receive_file(reader: Reader, arriving: EnclosedFile) -> None:
    """Write the reader's next bytes to the file's path. They are never all in memory."""
    size = arriving.byte_size
    with await asyncio.to_thread(arriving.path.open, "wb") as file:
        while size:
            try:
                chunk = await reader.answers.readexactly(min(size, MIB))
            except (asyncio.IncompleteReadError, ConnectionResetError) as error:
                raise await _cause_of_death(reader) from error
            await asyncio.to_thread(file.write, chunk)
            size -= len(chunk)


def _checked_number(value: Any, limits: Limits) -> int:
    if not isinstance(value, int) or not 0 <= value <= limits.max_pages:
        raise ValueError(value)
    return value


def _checked_media_type(media_type: Any) -> str:
    if media_type not in MEDIA_TYPES:
        raise ValueError(media_type)
    return media_type


def _checked_enclosed(
    message: dict[str, Any], before: Sequence[EnclosedFile], limits: Limits, unpack_to: Path | None
) -> EnclosedFile:
    """The file inside the document that comes next, if there may be one more of its size."""
    name, size = message["enclosed"], message["size"]
    room = limits.max_decoded_bytes - sum(file.byte_size for file in before)
    if type(size) is not int or not 0 < size <= min(limits.max_bytes, room):
        raise ValueError(size)
    if unpack_to is None or len(before) >= MAX_ENCLOSED:
        raise ValueError(len(before))
    if type(name) is not str or not 0 < len(name) <= MAX_NAME or clean(name) != name:
        raise ValueError(name)
    return EnclosedFile(name, unpack_to / str(len(before)), size)


def _checked_unlocked(size: Any, limits: Limits, target: Path) -> EnclosedFile:
    """The copy without a password that comes next. Raises OverLimit where it may not be that large."""
    if type(size) is not int or not 0 < size <= limits.max_bytes:
        raise OverLimit("The file without its password is larger than a document may be.")
    return EnclosedFile(target.name, target, size)


def _checked_left_out(value: Any) -> ReadingWarning:
    """The warning, if it is of the whole file and one that is given of what is inside it."""
    warning = ReadingWarning.from_json(value)
    if warning.page is not None or warning.code not in LEFT_OUT or not _is_fit(replace(warning, page=0), 0):
        raise ValueError(value)
    return warning


def _is_fit(warning: ReadingWarning, number: int) -> bool:
    return (
        type(warning.page) is type(warning.count) is int
        and warning.page == number
        and 0 <= warning.count < 2**31
        and type(warning.excerpt) is str
        and len(warning.excerpt) <= MAX_EXCERPT
        and clean(warning.excerpt) == warning.excerpt
    )


def _checked_page(message: Any, total: int) -> Page:
    """The page of a message, if it can be stored and shown. Raises ValueError or TypeError otherwise."""
    page = Page.from_json(message)
    if page.number not in range(1, total + 1) or not all(0 < side < inf for side in (page.width, page.height)):
        raise ValueError(page.number)
    if page.text.split() != [word.text for word in page.words] or "\0" in page.text or page.engine not in ENGINES:
        raise ValueError(page.number)
    page.text.encode()
    # The excerpt is bounded and clean, as an honest reader sends it, and empty where no word is hidden.
    if type(page.hidden_words) is not int or not bool(page.hidden_excerpt) <= page.hidden_words < 2**31:
        raise ValueError(page.number)
    if type(page.hidden_excerpt) is not str or len(page.hidden_excerpt) > MAX_EXCERPT:
        raise ValueError(page.number)
    if clean(page.hidden_excerpt) != page.hidden_excerpt:
        raise ValueError(page.number)
    if len(page.warnings) > MAX_PAGE_WARNINGS or not all(_is_fit(warning, page.number) for warning in page.warnings):
        raise ValueError(page.number)
    for word in page.words:
        # Comparing so refuses NaN, too, and what is no number.
        if not (0 <= word.x0 <= word.x1 <= 1 and 0 <= word.y0 <= word.y1 <= 1 and 0 <= (word.confidence or 0) <= 1):
            raise ValueError(word)
    return page
