"""The parts of Office files of Microsoft (Open XML), and how they refer to each other."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import lxml.etree  # pyright: ignore[reportMissingTypeStubs]

etree: Any = lxml.etree  # pyright: ignore

PictureFile: TypeAlias = tuple[str, Callable[[], bytes] | None]
"""The key of a picture's file, and a function that reads it; None if it is not in the document."""

CONTENT_TYPES = "[Content_Types].xml"


def parse_xml(data: bytes) -> Any:
    """Return the root element. Entities are not expanded, and external files are not loaded."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    return etree.fromstring(data, parser)


def main_part(archive: zipfile.ZipFile) -> str | None:
    """Return the name of the part that an Office file says is its document or workbook: programs open only that one,
    whatever the names of the others are."""
    return next(iter(related_parts(archive, "", "officeDocument")), None)


def content_type(archive: zipfile.ZipFile, part: str) -> str:
    """Return the content type that an Office file declares for a part; empty if it declares none."""
    if CONTENT_TYPES not in archive.namelist():
        return ""
    declared = [node for node in parse_xml(archive.read(CONTENT_TYPES)) if isinstance(node.tag, str)]
    own = (node for node in declared if node.get("PartName", "").lstrip("/").lower() == part.lower())
    extension = posixpath.splitext(part)[1].lstrip(".").lower()
    by_extension = (node for node in declared if node.get("Extension", "").lower() == extension)
    found = next(own, None)
    found = next(by_extension, None) if found is None else found
    return "" if found is None else found.get("ContentType", "")


def related_parts(archive: zipfile.ZipFile, part: str, kind: str) -> list[str]:
    """Return the names of the parts that a part of an Office file refers to, of a kind such as `drawing`."""
    return [target for target, ending, is_inside in _relations(archive, part).values() if is_inside and ending == kind]


def theme_of(archive: zipfile.ZipFile, part: str) -> Any | None:
    """Return the root of the theme of a document or workbook; None if it has none, or a damaged one: the colours of
    Office apply then."""
    found = related_parts(archive, part, "theme")
    try:
        return parse_xml(archive.read(found[0])) if found else None
    except etree.XMLSyntaxError:
        return None


def part_targets(archive: zipfile.ZipFile, part: str) -> dict[str, str]:
    """Return the parts that a part of an Office file refers to, by the ids of the relations."""
    return {key: target for key, (target, _, is_inside) in _relations(archive, part).items() if is_inside}


def picture_files(archive: zipfile.ZipFile, part: str) -> Callable[[str | None], PictureFile]:
    """Return a function that returns the picture file for an id in a part of an Office file."""
    relations = _relations(archive, part)

    def find_picture(identifier: str | None) -> PictureFile:
        target, _, is_inside = relations.get(identifier or "", ("", "", False))
        return target, partial(archive.read, target) if is_inside else None

    return find_picture


def _relations(archive: zipfile.ZipFile, part: str) -> dict[str, tuple[str, str, bool]]:
    """Return the relations of a part of an Office file by id: (target, kind, whether the target is in the file)."""
    folder, name = posixpath.split(part)
    names = set(archive.namelist())
    if (path := posixpath.join(folder, "_rels", f"{name}.rels")) not in names:
        return {}
    found: dict[str, tuple[str, str, bool]] = {}
    for node in parse_xml(archive.read(path)):
        if not isinstance(node.tag, str):  # a comment
            continue
        target = node.get("Target", "")
        is_inside = node.get("TargetMode") != "External"
        if is_inside:
            target = posixpath.normpath(posixpath.join(f"/{folder}", target)).lstrip("/")
        kind = node.get("Type", "").rsplit("/", 1)[-1]
        found[node.get("Id", "")] = target, kind, is_inside and target in names
    return found
