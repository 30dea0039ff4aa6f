"""Receives the files of a batch: written to a folder one after the other, so that a batch needs neither the memory nor
the open files that its size would take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final
from uuid import UUID

from fastapi import Request
from python_multipart import MultipartParser
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import parse_options_header

from fieldmark.errors import Invalid, TooManyAtOnce

MAX_FILES: Final = 1_000
LARGEST_FILES: Final = 10
"""A batch has at most the bytes of so many files of the largest size."""

_orgs_receiving = set[UUID]()


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file of a batch, with its uploader's name for it."""

    path: Path
    filename: str


@asynccontextmanager
async def one_batch_at_a_time(org_id: UUID) -> AsyncGenerator[None]:
    """Bound the disk that an organisation's batches take. Raise TooManyAtOnce."""
    if org_id in _orgs_receiving:
        raise TooManyAtOnce("A batch of this organisation is being uploaded. Send the next one when it has ended.")
    _orgs_receiving.add(org_id)
    try:
        yield
    finally:
        _orgs_receiving.discard(org_id)


async def receive_files(request: Request, folder: Path) -> list[ReceivedFile]:
    """Write the files of a form to a folder. Return them in their order. Raise Invalid."""
    kind, options = parse_options_header(request.headers.get("content-type"))
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise Invalid("The request is not a form. Send the files as multipart/form-data, in parts named files.")
    form = _Form(folder)
    parser = MultipartParser(
        boundary,
        {
            "on_part_begin": form.begin_part,
            "on_header_field": form.add_to_header_name,
            "on_header_value": form.add_to_header,
            "on_header_end": form.end_header,
            "on_headers_finished": form.open_file,
            "on_part_data": form.write,
            "on_part_end": form.close_file,
        },
    )
    try:
        async for chunk in request.stream():
            await asyncio.to_thread(parser.write, chunk)
        parser.finalize()
    except MultipartParseError:
        raise Invalid("The form is malformed. Send it as multipart/form-data.") from None
    finally:
        form.close_file()
    if not form.files:
        raise Invalid("The form has no files. Send each file in a part named files.")
    return form.files


class _Form:
    """The callbacks of the parser."""

    def __init__(self, folder: Path) -> None:
        self.files: list[ReceivedFile] = []
        self._folder = folder
        self._opened: BinaryIO | None = None
        self._disposition = self._name = self._value = b""

    def begin_part(self) -> None:
        self._disposition = self._name = self._value = b""

    def add_to_header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def add_to_header(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def end_header(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = self._value
        self._name = self._value = b""

    def open_file(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"filename")
        if options.get(b"name") != b"files" or name is None:
            raise Invalid("A part of the form is not a file named files. Send options as query parameters.")
        if len(self.files) == MAX_FILES:
            raise Invalid(f"The form has more than {MAX_FILES:,} files. Send the rest in another request.")
        path = self._folder / str(len(self.files))
        self._opened = path.open("wb")
        self.files.append(ReceivedFile(path, name.decode(errors="replace") or "document"))

    def write(self, data: bytes, start: int, end: int) -> None:
        assert self._opened is not None
        self._opened.write(data[start:end])

    def close_file(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None
