"""The stored path of an original, `<org_id>/<document_id>/<name>`, and the names that it may have."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import PurePosixPath
from uuid import UUID

from fieldmark.errors import Invalid

MAX_NAME_BYTES = 255
_MAX_STORED_NAME = 120
_MAX_SUFFIX_BYTES = 20
_DEFAULT_NAME = "document"

# A key of Supabase Storage may have ASCII letters, digits and _ / ! - . * ' ( ) space & $ @ = ; : + , ?
# (`isValidKey` in its src/storage/limits.ts). Of these, the ones that need no quoting in a URL or a header.
_NOT_STORABLE = re.compile(r"[^A-Za-z0-9.()_-]+")

_CONTROL_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}
_INVISIBLE_CATEGORIES = {"Zs", "Cf"}
_DIRECTION_CONTROLS = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


@dataclass(frozen=True, slots=True)
class StoredPath:
    """A path that has been checked: two UUIDs and one plain name. `str()` gives the same path."""

    org_id: UUID
    document_id: UUID
    name: str

    def __str__(self) -> str:
        return f"{self.org_id}/{self.document_id}/{self.name}"


def parse_stored_path(path: str) -> StoredPath:
    """Parse an untrusted path. Raise `Invalid`.

    It must have exactly three parts: two UUIDs as Postgres prints them, and a name of 1 to 255 bytes of UTF-8. The name
    must not contain separators, control characters or percent signs, or consist of dots only.
    """
    parts = path.split("/")
    if len(parts) != 3:
        raise Invalid("A stored path has three parts: the organisation's id, the document's id and a name.")
    org_id, document_id, name = parts
    _check_name(name)
    return StoredPath(_uuid(org_id), _uuid(document_id), name)


def stored_path(org_id: UUID, document_id: UUID, filename: str) -> StoredPath:
    """Return the path for the original of a new document. Both a disk and Supabase Storage accept it.

    Characters of `filename` that are not accepted are replaced: "März 1.pdf" becomes "Marz_1.pdf". The unchanged
    filename is stored in `documents.filename`.
    """
    suffix, stem = _split_suffix(_to_storable(filename))
    stem = stem[: _MAX_STORED_NAME - len(suffix)].strip("_.")
    return StoredPath(org_id, document_id, (stem or _DEFAULT_NAME) + suffix)


def safe_name(filename: str) -> str:
    """Return a user's filename, safe to store and display: `documents.filename`.

    Separators, control characters, lone surrogates and bidirectional controls become `_`; other Unicode stays. The
    result has 1 to 255 bytes of UTF-8 and does not consist of dots only. A long name is cut before its suffix.
    """
    cleaned = "".join("_" if _is_unsafe(character) else character for character in filename).strip()
    if all(c == "." or unicodedata.category(c) in _INVISIBLE_CATEGORIES for c in cleaned):
        return _DEFAULT_NAME
    suffix, stem = _split_suffix(cleaned)
    room = MAX_NAME_BYTES - len(suffix.encode())
    return stem.encode()[:room].decode(errors="ignore") + suffix


def _uuid(text: str) -> UUID:
    try:
        value = UUID(text)
    except ValueError:
        value = None
    # UUID() also reads braces, "urn:uuid:", capitals and missing hyphens: then one original would have many paths.
    if value is None or str(value) != text:
        raise Invalid("A stored path begins with the ids of its organisation and its document, as lower-case UUIDs.")
    return value


def _check_name(name: str) -> None:
    if not name.strip("."):
        raise Invalid("The name in a stored path is empty or made of dots alone.")
    # Check for lone surrogates before encoding to measure the length.
    if any(_is_unsafe(character) for character in name):
        raise Invalid("The name in a stored path contains a separator or a control character.")
    # A client may decode percent signs before it sends a path: "..%2F" would then name another object.
    if "%" in name:
        raise Invalid("The name in a stored path contains a percent sign.")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise Invalid(f"The name in a stored path is longer than {MAX_NAME_BYTES} bytes.")


def _is_unsafe(character: str) -> bool:
    return (
        character in "/\\"
        or unicodedata.category(character) in _CONTROL_CATEGORIES
        or unicodedata.bidirectional(character) in _DIRECTION_CONTROLS
    )


def _to_storable(filename: str) -> str:
    plain = "".join(c for c in unicodedata.normalize("NFKD", filename) if not unicodedata.combining(c))
    return _NOT_STORABLE.sub("_", plain)


def _split_suffix(name: str) -> tuple[str, str]:
    """Return the suffix (".pdf", or "" if it is missing, too long or not alphanumeric) and the name without it."""
    suffix = PurePosixPath(name).suffix
    if not suffix[1:].isalnum() or len(suffix.encode()) > _MAX_SUFFIX_BYTES:
        suffix = ""
    return suffix, name.removesuffix(suffix)
