"""Outlook messages that the tests make: a compound file with as little in it as can be."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import pairwise

FREE, END, TABLE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
BODY, SUBJECT, SENDER, HTML = 0x1000, 0x0037, 0x0C1F, 0x1013
FILE_NAME, CONTENT, CONTENT_ID, METHOD = 0x3707, 0x3701, 0x3712, 0x3705

Streams = dict[str, bytes]


def msg(properties: Mapping[int, str | bytes], attachments: list[Mapping[int, str | bytes]] | None = None) -> bytes:
    """A message with these properties, and attachments with theirs."""
    folders: dict[str, Streams] = {"": _properties(properties, 32)}
    for number, one in enumerate(attachments or []):
        folders[f"__attach_version1.0_#{number:08X}"] = _properties(one, 8, method=1)
    return compound_file(folders)


def _properties(values: Mapping[int, str | bytes], header: int, method: int | None = None) -> Streams:
    out, streams = bytearray(header), Streams()
    if method is not None:
        out += struct.pack("<HHIII", 0x0003, METHOD, 6, method, 0)
    for number, value in values.items():
        kind = 0x001F if isinstance(value, str) else 0x0102
        content = value.encode("utf-16-le") if isinstance(value, str) else value
        out += struct.pack("<HHIII", kind, number, 6, len(content) + (2 if kind == 0x001F else 0), 0)
        streams[f"__substg1.0_{number:04X}{kind:04X}"] = content
    return {"__properties_version1.0": bytes(out), **streams}


def compound_file(folders: dict[str, Streams]) -> bytes:
    """Folders of streams; the one without a name is the root."""
    entries: list[tuple[str, int, int, int, int, int]] = []  # name, kind, right sibling, child, first sector, size
    large, small = _Sectors(512), _Sectors(64)
    named = [name for name in folders if name]
    entries.append(("Root Entry", 5, FREE, FREE, END, 0))
    entries.extend((name, 1, FREE, FREE, END, 0) for name in named)
    children: dict[str, list[int]] = {"": list(range(1, len(named) + 1))}
    for folder, streams in folders.items():
        for name, content in streams.items():
            children.setdefault(folder, []).append(len(entries))
            first = (small if len(content) < 4096 else large).keep(content)
            entries.append((name, 2, FREE, FREE, first, len(content)))
    for folder, inside in children.items():
        at = named.index(folder) + 1 if folder else 0
        name, kind, right, _, first, size = entries[at]
        entries[at] = (name, kind, right, inside[0], first, size)
        for one, following in pairwise(inside):  # a tree that leans all to one side
            name, kind, _, child, first, size = entries[one]
            entries[one] = (name, kind, following, child, first, size)
    packed = b"".join(small.sectors)
    name, kind, right, child, _, _ = entries[0]
    entries[0] = (name, kind, right, child, large.keep(packed), len(packed))
    small_table = large.keep(small.table())
    directory = large.keep(
        b"".join(
            name.encode("utf-16-le").ljust(64, b"\0")
            + struct.pack("<HBBIII36xIQ", 2 * len(name) + 2, kind, 1, FREE, right, child, first, size)
            for name, kind, right, child, first, size in entries
        )
    )
    tables = 1
    while len(large.sectors) + tables > tables * 128:
        tables += 1
    at = len(large.sectors)
    large.following += [TABLE] * tables
    versions = struct.pack("<HHHHH6x", 0x3E, 3, 0xFFFE, 9, 6)
    places = struct.pack("<10I", 0, tables, directory, 0, 4096, small_table, -(-len(small.table()) // 512), END, 0, at)
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + versions + places
    header += b"".join(struct.pack("<I", at + number) for number in range(1, tables))
    return header.ljust(512, b"\xff") + b"".join(large.sectors) + large.table().ljust(tables * 512, b"\xff")


class _Sectors:
    """Sectors of one size, and which follows which."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.sectors: list[bytes] = []
        self.following: list[int] = []

    def keep(self, content: bytes) -> int:
        """The number of the first sector of this content."""
        first = len(self.sectors)
        for at in range(0, len(content), self._size):
            self.sectors.append(content[at : at + self._size].ljust(self._size, b"\0"))
            self.following.append(len(self.sectors))
        if len(self.sectors) == first:
            return END
        self.following[-1] = END
        return first

    def table(self) -> bytes:
        return struct.pack(f"<{len(self.following)}I", *self.following)
