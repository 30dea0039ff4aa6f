"""The answer of a reading process, and its check by the service: the file may have taken the process over.

An answer is one line of JSON (`Answer`), followed by its contents. These are pages as JSON, files or pictures.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, model_validator

from fieldmark.documents.reading.enclosed import MAX_NAME
from fieldmark.documents.reading.pages import ENGINES, Page, Word, clean
from fieldmark.documents.reading.sniff import MEDIA_TYPES
from fieldmark.domain.reading_warnings import LEFT_OUT, MAX_ENCLOSED, MAX_EXCERPT, ReadingWarning, WarningCode

MAX_PAGE_WARNINGS = 10
MAX_SENTENCE = 500


def _check_clean(text: str) -> str:
    if clean(text) != text:
        raise ValueError("invisible characters")
    return text


def _check_media_type(media_type: str) -> str:
    if media_type not in MEDIA_TYPES:
        raise ValueError(media_type)
    return media_type


def _check_engine(engine: str) -> str:
    if engine not in ENGINES:
        raise ValueError(engine)
    return engine


_Count = Annotated[int, Field(ge=0, lt=2**31)]
_Excerpt = Annotated[str, Field(max_length=MAX_EXCERPT), AfterValidator(_check_clean)]
_Fraction = Annotated[float, Field(ge=0, le=1)]
_Side = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_WordMessage = tuple[str, _Fraction, _Fraction, _Fraction, _Fraction, _Fraction | None]


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _WarningMessage(_Message):
    code: WarningCode
    page: int | None
    count: _Count
    excerpt: _Excerpt

    def warning(self) -> ReadingWarning:
        return ReadingWarning(self.code, self.page, self.count, self.excerpt)


class _PageMessage(_Message):
    number: PositiveInt
    width: _Side
    height: _Side
    text: str
    words: list[_WordMessage]
    engine: Annotated[str, AfterValidator(_check_engine)]
    hidden_words: _Count = 0
    hidden_excerpt: _Excerpt = ""
    warnings: Annotated[list[_WarningMessage], Field(max_length=MAX_PAGE_WARNINGS)] = []

    @model_validator(mode="after")
    def _check(self) -> _PageMessage:
        if self.text.split() != [word[0] for word in self.words] or "\0" in self.text:
            raise ValueError("words that are not the text's")
        if not all(word[1] <= word[3] and word[2] <= word[4] for word in self.words):
            raise ValueError("a box whose end is before its beginning")
        if self.hidden_excerpt and not self.hidden_words:
            raise ValueError("an excerpt of no words")
        if any(warning.page != self.number for warning in self.warnings):
            raise ValueError("a warning of another page")
        return self


def parse_page(content: bytes, page_count: int) -> Page:
    """The page in an answer's content. Raises ValueError unless it can be stored and shown."""
    message = _PageMessage.model_validate_json(content)
    if message.number > page_count:
        raise ValueError(message.number)
    return Page(
        message.number,
        message.width,
        message.height,
        message.text,
        [Word(*word) for word in message.words],
        message.engine,
        message.hidden_words,
        message.hidden_excerpt,
        tuple(warning.warning() for warning in message.warnings),
    )


class Reading(_Message):
    """The answer to `ReadJob`. Its contents are the pages that are not `scans`, then the files with `file_names`."""

    media_type: Annotated[str, AfterValidator(_check_media_type)]
    page_count: Annotated[int, Field(ge=0)]
    scans: list[PositiveInt] = []
    file_names: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(_check_clean)]],
        Field(max_length=MAX_ENCLOSED),
    ] = []
    left_out: Annotated[list[_WarningMessage], Field(max_length=len(LEFT_OUT))] = []

    @model_validator(mode="after")
    def _check(self) -> Reading:
        if len(set(self.scans)) < len(self.scans) or any(number > self.page_count for number in self.scans):
            raise ValueError("scans that are no pages")
        if any(warning.page is not None or warning.code not in LEFT_OUT for warning in self.left_out):
            raise ValueError("a warning that is not of files inside the file")
        return self

    @property
    def warnings(self) -> list[ReadingWarning]:
        """What was left out of the files inside the file."""
        return [message.warning() for message in self.left_out]


class Failure(_Message):
    """Why the job could not be done: an error's code and sentence, and a detail for developers."""

    code: str
    sentence: Annotated[str, Field(max_length=MAX_SENTENCE)]
    detail: Annotated[str, Field(max_length=MAX_SENTENCE)] = ""


class Answer(_Message):
    """The first line of an answer. `sizes` are those of its contents, in bytes."""

    failure: Failure | None = None
    reading: Reading | None = None
    sizes: list[PositiveInt] = []
