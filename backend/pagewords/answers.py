"""The answer of a reading process, and its validation by the service: a hostile file may have taken over the process.

An answer is one line of JSON (`Answer`), followed by its contents: pages as JSON, files or pictures.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, TypeAdapter, model_validator

from pagewords.enclosed import MAX_NAME
from pagewords.pages import ENGINES, Page, clean
from pagewords.pictures import MAX_PICTURES
from pagewords.reading_warnings import MAX_ENCLOSED, MAX_EXCERPT, SKIPPED_FILE_CODES, ReadingWarning
from pagewords.sniff import MEDIA_TYPES

MAX_PAGE_WARNINGS = 10
MAX_SENTENCE = 500


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def _check_clean(text: str) -> str:
    _require(clean(text) == text, "invisible characters")
    return text


def _check_excerpt(excerpt: str) -> None:
    _require(len(_check_clean(excerpt)) <= MAX_EXCERPT, "a long excerpt")


def _check_page(page: Page) -> Page:
    _require(page.text.split() == [word.text for word in page.words] and "\0" not in page.text, "other words")
    _require(all(word.x0 <= word.x1 and word.y0 <= word.y1 for word in page.words), "a box that ends before it begins")
    _require(page.engine in ENGINES, page.engine)
    _require(not page.hidden_excerpt or page.hidden_words > 0, "an excerpt of no words")
    _check_excerpt(page.hidden_excerpt)
    _require(len(page.warnings) <= MAX_PAGE_WARNINGS, "too many warnings")
    for warning in page.warnings:
        _check_warning(warning)
        _require(warning.page == page.number, "a warning of another page")
    return page


def _check_warning(warning: ReadingWarning) -> None:
    _require(0 <= warning.count < 2**31, "a count that cannot be stored")
    _check_excerpt(warning.excerpt)


_PAGE: Final = TypeAdapter(Annotated[Page, AfterValidator(_check_page)])


def page_to_json(page: Page) -> bytes:
    return _PAGE.dump_json(page)


def parse_page(content: bytes, page_count: int) -> Page:
    """Return the page in an answer's content. Raise ValueError unless it can be stored and shown."""
    page = _PAGE.validate_json(content, strict=True)
    _require(page.number <= page_count, "a page that does not exist")
    return page


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


_FileNames = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(_check_clean)]],
    Field(max_length=MAX_ENCLOSED),
]


class MailParts(_Message):
    """The answer to `MailJob`: who sent the email, its headers `Subject` and `Auto-Submitted`, and the names of the
    attachments, which are the contents; none if there are too many."""

    sender: Annotated[str, Field(max_length=300), AfterValidator(_check_clean)]
    subject: Annotated[str, Field(max_length=200), AfterValidator(_check_clean)]
    auto_submitted: Annotated[str, Field(max_length=50)]
    file_names: _FileNames


class Reading(_Message):
    """The answer to `ReadJob`. Its contents are the pages not in `scans` or `pictures`, then the image files of
    `pictures`, then the files with `file_names`."""

    media_type: str
    page_count: Annotated[int, Field(ge=0)]
    scans: list[PositiveInt] = []
    pictures: Annotated[list[PositiveInt], Field(max_length=MAX_PICTURES)] = []
    file_names: _FileNames = []
    left_out: Annotated[list[ReadingWarning], Field(max_length=len(SKIPPED_FILE_CODES))] = []
    """Warnings about enclosed files that were skipped."""

    @model_validator(mode="after")
    def _check(self) -> Reading:
        _require(self.media_type in MEDIA_TYPES, self.media_type)
        by_ocr = [*self.scans, *self.pictures]
        _require(len(set(by_ocr)) == len(by_ocr), "a page twice")
        _require(max(by_ocr, default=0) <= self.page_count, "scanned pages that do not exist")
        for warning in self.left_out:
            _check_warning(warning)
            _require(
                warning.page is None and warning.code in SKIPPED_FILE_CODES, "a warning that is not about skipped files"
            )
        return self


class Failure(_Message):
    """Why a job failed: an error code and message, and a detail for developers."""

    code: str
    sentence: Annotated[str, Field(max_length=MAX_SENTENCE)]
    detail: Annotated[str, Field(max_length=MAX_SENTENCE)] = ""


class Answer(_Message):
    """The first line of an answer. `sizes` are the sizes of its contents in bytes."""

    failure: Failure | None = None
    reading: Reading | None = None
    mail: MailParts | None = None
    sizes: list[PositiveInt] = []
