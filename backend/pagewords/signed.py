"""Signed files (PKCS #7: P7M): the file that was signed. Signatures are not verified."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

from pagewords.errors import Damaged, Unsupported

_SIGNED, _ENCRYPTED = (b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07" + bytes([kind]) for kind in (2, 3))
_START = 64  # bytes that hold the kind of a file
_MAX_DEPTH = 16
_MAX_SIGNATURES = 4
_OCTETS, _CONTENT = 0x04, 0xA0
_CONSTRUCTED = 0x20
_BEGIN = (b"M", b"-----BEGIN")
_BASE64 = re.compile(
    rb"\s*+(?:-----BEGIN [A-Z0-9 #]{1,30}-----\s++)?(M[A-Za-z0-9+/=\s]{60,}+)(?:-----END [^\r\n]*\s*)?\Z"
)


class _Element(NamedTuple):
    """An ASN.1 element: its tag, where its content starts and ends, and where the next element starts."""

    tag: int
    start: int
    end: int
    next: int


def signed_content(data: bytes) -> bytes:
    """Return the file inside a signed file, and any other file as it is. Raise Unreadable if nothing is inside, or if
    the file is encrypted."""
    for _ in range(_MAX_SIGNATURES):
        if (message := _message(data)) is None:
            return data
        try:
            content = _content(message)
        except (IndexError, ValueError) as error:
            raise Damaged("The signed file (P7M) is damaged or cut off.") from error
        if not content:
            raise Unsupported("The file is only a signature of another file; upload the signed file.")
        data = content
    raise Unsupported("The file is signed too many times. Save the file that was signed, and upload that.")


def _message(data: bytes) -> bytes | None:
    """Return the ASN.1 of a signed file, which may be written as Base64; None for another file."""
    if match := _BASE64.match(data) if data[:200].lstrip().startswith(_BEGIN) else None:
        try:
            decoded = base64.b64decode(b"".join(match[1].split()))
        except binascii.Error:
            return None
    else:
        decoded = data
    if decoded[:1] != b"\x30":
        return None
    if _ENCRYPTED in decoded[:_START]:
        raise Unsupported("The file is encrypted (P7M). Decrypt it in your mail program, and upload the result.")
    return decoded if _SIGNED in decoded[:_START] else None


def _content(data: bytes) -> bytes:
    _, wrapper = _children(data, _element(data, 0))
    (signed,) = _children(data, wrapper)
    _, _, encapsulated, *_ = _children(data, signed)
    _, *contents = _children(data, encapsulated)
    return b"".join(_octets(data, content) for content in contents if content.tag == _CONTENT)


def _octets(data: bytes, element: _Element, depth: int = 0) -> bytes:
    if not element.tag & _CONSTRUCTED:
        return data[element.start : element.end] if element.tag == _OCTETS else b""
    if depth > _MAX_DEPTH:
        raise ValueError
    return b"".join(_octets(data, child, depth + 1) for child in _children(data, element))


def _children(data: bytes, element: _Element) -> Iterator[_Element]:
    at = element.start
    while at < element.end:
        child = _element(data, at)
        yield child
        at = child.next


def _element(data: bytes, at: int, depth: int = 0) -> _Element:
    tag, length = data[at], data[at + 1]
    at += 2
    if length == 0x80:  # ends with two zero bytes
        if depth > _MAX_DEPTH:
            raise ValueError
        end = at
        while data[end : end + 2] != b"\0\0":
            end = _element(data, end, depth + 1).next
        return _Element(tag, at, end, end + 2)
    if length > 0x80:
        size = length & 0x7F
        length = int.from_bytes(data[at : at + size], "big")
        at += size
    if at + length > len(data):
        raise ValueError
    return _Element(tag, at, at + length, at + length)
