"""Read or draw a document in a locked-down subprocess, and check what it answers: the file may be hostile."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from fieldmark.db.aside import aside
from fieldmark.documents.reading.enclosed import MAX_NAME
from fieldmark.documents.reading.jobs import DrawJob, Job, ReadJob, UnlockJob, job_to_json
from fieldmark.documents.reading.pages import ENGINES, MIB, DocumentContent, EnclosedFile, Limits, Page, clean
from fieldmark.documents.reading.sniff import MEDIA_TYPES
from fieldmark.domain.reading_warnings import LEFT_OUT, MAX_ENCLOSED, MAX_EXCERPT, ReadingWarning
from fieldmark.errors import (
    Damaged,
    FieldmarkError,
    NoText,
    NotFound,
    OverLimit,
    PasswordProtected,
    Unreadable,
    Unsupported,
)
from fieldmark.isolation import users

MAX_LINE = 64 * MIB
SHORT_LINE = 8 * 1024
"""One that is parsed on the event loop: a page may hold 100,000 words."""
MAX_PAGE_WARNINGS = 10
MAX_PASSWORD_BYTES = 1000
_ROOT = Path(__file__).parents[3]
# -I shuts out the environment, the user's site-packages and the working directory; so the package is pointed at.
_START = "import sys; sys.path.insert(0, sys.argv.pop()); from fieldmark.documents.reading.child import main; main()"
# Libraries would otherwise start a thread, with its own share of address space, for each core.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}

# What the child may say happened; any other word of it is no more than that the file is unreadable.
_ERRORS: dict[str, type[FieldmarkError]] = {
    error.code: error for error in (Damaged, NoText, NotFound, OverLimit, PasswordProtected, Unsupported)
}

Progress = Callable[[int, int], Awaitable[None] | None]


async def read_file(
    path: Path, filename: str, limits: Limits, on_page: Progress | None = None, *, unpack_to: Path | None = None
) -> DocumentContent:
    """The content of a document: pages of words with boxes.

    `filename` is what the uploader called it. The media type is found by the content. `on_page(done, total)` is called
    after each page. Files inside the document are unpacked into the folder `unpack_to`; they are left out without one.
    Raises Unreadable, with one sentence that says why, for any file that cannot be read within the
    limits. Cancelling kills the subprocess.
    """
    pages: dict[int, Page] = {}
    enclosed: list[EnclosedFile] = []
    left_out: list[ReadingWarning] = []
    arriving: EnclosedFile | None = None
    media_type = ""
    total = 0

    async with _Deadline(limits) as deadline:
        scans: list[int] | None = None
        while scans is None or scans:
            job = ReadJob(Path(filename).name, media_type or None, scans, is_too_deep=unpack_to is None)
            async with _subprocess(path, job, limits) as process:
                async for message in _messages(process, limits):
                    with _rejecting_nonsense():
                        if "pages" in message:
                            total, media_type = (
                                _checked_number(message["pages"], limits),
                                _checked_media_type(message["media_type"]),
                            )
                            deadline.extend(total)
                        elif "enclosed" in message:
                            arriving = _checked_enclosed(message, enclosed, limits, unpack_to)
                        elif "left_out" in message:
                            left_out = [_checked_left_out(warning) for warning in message["left_out"][: len(LEFT_OUT)]]
                        elif "scans" in message:
                            scans = (
                                [_checked_number(number, limits) for number in message["scans"]]
                                if scans is None
                                else []
                            )
                        else:
                            page = await aside(_checked_page, message["page"], total)
                            pages[page.number] = page
                    if arriving is not None:
                        await _receive_file(process, arriving)
                        enclosed.append(arriving)
                        arriving = None
                    if "page" in message and on_page and inspect.isawaitable(pending := on_page(len(pages), total)):
                        await pending
    if sorted(pages) != list(range(1, total + 1)):
        raise Unreadable("The file could not be read to its end.")
    if not enclosed and not any(page.words for page in pages.values()):
        hidden = any(page.hidden_words for page in pages.values())
        raise NoText(f"No text{' that a person can see' if hidden else ''} was found in the document.")
    return DocumentContent(media_type, [pages[number] for number in sorted(pages)], enclosed, left_out)


async def unlock_file(path: Path, password: str, limits: Limits, target: Path) -> bool:
    """Whether the document has a password; if so, a copy without it now lies at `target`.

    Raises PasswordProtected where it is not this one, Unreadable as `read_file`.
    """
    reading, writing = os.pipe()
    try:
        try:
            os.write(writing, password.encode()[:MAX_PASSWORD_BYTES])  # no more than the pipe holds
        finally:
            os.close(writing)
        is_locked = False
        async with _Deadline(limits), _subprocess(path, UnlockJob(reading), limits, (reading,)) as process:
            async for message in _messages(process, limits):
                if "unlocked" in message and not is_locked:
                    size = message["unlocked"]
                    if type(size) is not int or not 0 < size <= limits.max_bytes:
                        raise OverLimit("The file without its password is larger than a document may be.")
                    await _receive_file(process, EnclosedFile(target.name, target, size))
                    is_locked = True
        return is_locked
    finally:
        os.close(reading)


async def draw_pages(
    path: Path, media_type: str, numbers: Sequence[int], limits: Limits, dpi: float, longest_side: int, max_bytes: int
) -> list[bytes]:
    """PNGs of pages, in the order asked for: as many of them as fit into `max_bytes` together.

    Raises NotFound for a page or a media type that does not exist, Unreadable as `read_file`.
    """
    if media_type not in MEDIA_TYPES:
        raise NotFound(f"A file of type {media_type} has no page images.")
    job = DrawJob(media_type, list(numbers), dpi, longest_side)
    drawn: list[bytes] = []
    async with _Deadline(limits) as deadline, _subprocess(path, job, limits) as process:
        async for message in _messages(process, limits):
            if "pages" in message:
                deadline.extend(len(numbers))
            elif "png" in message and len(drawn) < len(numbers):
                with _rejecting_nonsense():
                    size = int(message["png"])
                png = await _read_png(process, size)
                if not png.startswith(b"\x89PNG\r\n\x1a\n"):
                    raise Unreadable("The page could not be drawn.")
                if sum(map(len, drawn)) + len(png) > max_bytes:
                    return drawn
                drawn.append(png)
    if len(drawn) < len(numbers):
        raise Unreadable("The page could not be drawn.")
    return drawn


class _Deadline:
    """The time that a document may take. It grows once the number of pages is known."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seconds = limits.seconds
        self._started = asyncio.get_running_loop().time()
        self._timeout = asyncio.timeout(limits.seconds)

    def extend(self, page_count: int) -> None:
        self._seconds = self._limits.seconds + self._limits.seconds_per_page * page_count
        self._timeout.reschedule(self._started + self._seconds)

    async def __aenter__(self) -> _Deadline:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        try:
            await self._timeout.__aexit__(*raised)
        except TimeoutError as error:
            raise OverLimit(f"The file took longer to read than the {self._seconds:g} seconds it may.") from error


@asynccontextmanager
async def _subprocess(
    path: Path, job: Job, limits: Limits, inherited: Sequence[int] = ()
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """The child process that works on the file, in a process group of its own. The group is killed at the end.

    `inherited` are descriptors that it gets besides the file's and its answers'."""
    with users.taken() as user:
        # The file is handed over open: the child's user need not be able to reach it.
        file = await asyncio.to_thread(_open_checked, path, limits)
        try:
            argument = json.dumps(job_to_json(job, limits, os.getpid(), user))
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-B", "-X", "utf8", "-c", _START, argument, str(_ROOT)),
                stdin=file,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
                limit=MAX_LINE,
                pass_fds=inherited,
            )
        finally:
            os.close(file)
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # Until its pipe is read to the end, the transport stays open.
            await _stdout(process).read()
            await process.wait()


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


async def _messages(process: asyncio.subprocess.Process, limits: Limits) -> AsyncIterator[dict[str, Any]]:
    """The child's messages, up to the last. Raises the error that it reports, and Unreadable if it died."""
    received = 0
    while True:
        try:
            line = await _stdout(process).readline()
        except ValueError as error:
            raise OverLimit("A page of the file holds more than a page may.") from error
        received += len(line)
        if received > limits.max_decoded_bytes:
            raise OverLimit(f"The file holds more than {limits.max_decoded_bytes / MIB:,.0f} MiB of text.")
        if not line.endswith(b"\n"):
            raise await _cause_of_death(process)
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


async def _cause_of_death(process: asyncio.subprocess.Process) -> Unreadable:
    code = await process.wait()
    if code == -signal.SIGXCPU:
        return OverLimit("The file took more computing time to read than it may.")
    if code == -signal.SIGKILL:
        return OverLimit("The reader was killed while it read the file, most likely because memory ran out.")
    if code < 0:
        name = signal.Signals(-code).name
        return Damaged(f"The file made its reader crash ({name}): it is damaged, or needs more memory than it may.")
    return Unreadable(f"The reader stopped before the file's end (exit code {code}).")


async def _read_png(process: asyncio.subprocess.Process, size: int) -> bytes:
    if not 0 < size <= MAX_LINE:
        raise OverLimit("The page's image is too large.")
    try:
        return await _stdout(process).readexactly(size)
    except asyncio.IncompleteReadError as error:
        raise await _cause_of_death(process) from error


async def _receive_file(process: asyncio.subprocess.Process, arriving: EnclosedFile) -> None:
    """Write the child's next bytes to the file's path. They are never all in memory."""
    size = arriving.byte_size
    with await asyncio.to_thread(arriving.path.open, "xb") as file:
        while size:
            try:
                chunk = await _stdout(process).readexactly(min(size, MIB))
            except asyncio.IncompleteReadError as error:
                raise await _cause_of_death(process) from error
            await asyncio.to_thread(file.write, chunk)
            size -= len(chunk)


def _stdout(process: asyncio.subprocess.Process) -> asyncio.StreamReader:
    if process.stdout is None:
        raise AssertionError("The child's standard output is a pipe.")
    return process.stdout


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
