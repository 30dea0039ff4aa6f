"""What another schema would do to fields that were read by an older one: what stays, and what is read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.fields import Nothing, value_at, walk
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.domain.paths import Path
from fieldmark.domain.rules import KEYWORD, broken_rules
from fieldmark.domain.schema import not_admitted
from fieldmark.domain.schema_places import Place, Places
from fieldmark.domain.validation import validate
from fieldmark.domain.violations import Violation
from fieldmark.errors import InvalidPath, InvalidSchema

MOST_PLACES: Final = 100
"""How many places a run reads again one by one. Where more are open, whole keys of the root are."""
MOST_IN_A_LIST: Final = 20
"""The same within one list; above that the list is read again."""
MOST_VIOLATIONS: Final = 5_000
MOST_NAMED: Final = 1_000
"""How many places a comparison of two schemas names."""

# What the schema has no room for: the keyword that says so of a key, or of an item, that may not stand there.
_NO_PLACE: Final = frozenset(("additionalProperties", "properties", "items", "prefixItems", "false"))
# What is said of an object or a list as a whole: no value in it is to blame.
_OF_THE_WHOLE: Final = frozenset(
    (
        *("minItems", "maxItems", "uniqueItems", "contains", "minProperties", "maxProperties"),
        *("unevaluatedItems", "propertyNames"),
    )
)


class ConflictReason(StrEnum):
    """Why a value cannot be brought under a schema without a person."""

    LOCKED = "locked"
    NO_PLACE = "no_place"


@dataclass(frozen=True, slots=True)
class SchemaConflict:
    """A value that a person set and that the schema does not admit, or one for which it has no place."""

    path: Path
    why: ConflictReason


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """What another schema does to the fields of one extraction. `violations` are the rules that those break which carry
    over."""

    carries: list[Path] = field(default_factory=list[Path])
    read_again: list[Path] = field(default_factory=list[Path])
    conflicts: list[SchemaConflict] = field(default_factory=list[SchemaConflict])
    violations: list[Violation] = field(default_factory=list[Violation])


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """How two schemas differ, by place: `items[*].price` is said of every item. `rules`: whether their rules differ.
    `more`: whether there are more places than are named."""

    added: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    rules: bool = False
    more: bool = False


def change_of(
    old: JsonObject, new: JsonObject, fields: JsonObject, evidence: JsonObject, locks: Collection[str]
) -> SchemaChange:
    """What becomes of `fields`, which follow `old`, under the schema `new`.

    - A value carries over if `new` admits it, its rules aside.
    - A place is read again if nothing stands there (or a blank) and `old` had no such place, or said something else of
      it; and if what stands there is not admitted, and no person set it. Of a list with a value that is not admitted,
      the whole is.
    - What a person set and `new` does not admit is in conflict, and so is whatever has no place in it.

    Raises InvalidSchema where `new` cannot be used, or takes too long.
    """
    try:
        return _change_of(old, new, fields, evidence, locks)
    except RecursionError:
        raise InvalidSchema("The schema's references are too deep to compare.") from None


def difference_of(old: JsonObject, new: JsonObject) -> SchemaDifference:
    """How two schemas differ, by place. Raises InvalidSchema where that takes too long."""
    found = SchemaDifference(rules=_rules(old) != _rules(new))
    before, after = Places(old), Places(new)
    try:
        _differ(before, after, before.root, after.root, (), found, frozenset())
    except RecursionError:
        raise InvalidSchema("The schema's references are too deep to compare.") from None
    except _Enough:
        return SchemaDifference(found.added, found.removed, found.changed, found.rules, more=True)
    return found


def read_once_removed(change: SchemaChange, new: JsonObject, fields: JsonObject) -> list[Path]:
    """The places to be read again where what is in conflict is taken away first: also those of what a person set; and
    the whole of a list of which items go, since those behind them move up."""
    locked = {one.path for one in change.conflicts if one.why is ConflictReason.LOCKED}
    gone = {one.path[:-1] for one in change.conflicts if isinstance(one.path[-1], int)}
    read = {_list_of(path) or path for path in locked} | set(change.read_again)
    return _joined({(_list_of(path) or path) if _covered(gone, path) else path for path in read}, Places(new), fields)


# One extraction -------------------------------------------------------------------------------------------------------


def _change_of(
    old: JsonObject, new: JsonObject, fields: JsonObject, evidence: JsonObject, locks: Collection[str]
) -> SchemaChange:
    found = not_admitted(new, fields, evidence, locks, MOST_VIOLATIONS)
    before, after = Places(old), Places(new)
    if len(found) >= MOST_VIOLATIONS:
        # Too many to be told from each other: all is read again, and what a person set stays as they set it.
        keys = dict.fromkeys([*after.keys(after.root), *fields])
        carries = [path for path, _ in walk(fields) if paths.name(path) in locks]
        return SchemaChange(carries, [(key,) for key in keys])
    judged = _Judged(after, fields)
    for one in found:
        judged.take(one)
    carries, conflicts, read = _leaves(fields, judged, locks)
    if judged.missing:
        read |= judged.missing - _missing_before(old, fields)
    read |= set(_unread(before, after, before.root, after.root, fields, (), locks))
    open_places = _joined(read, after, fields)
    opened = set(open_places)
    carries = [path for path in carries if paths.name(path) in locks or not _covered(opened, path)]
    unsure = {*open_places, *(one.path for one in conflicts)}
    around = unsure | {path[:steps] for path in unsure for steps in range(1, len(path))}
    broken = [
        one
        for one in broken_rules(new, fields)
        if not any(about in around or _covered(unsure, about) for about in one.about)
    ]
    return SchemaChange(carries, open_places, conflicts, broken)


@dataclass(slots=True)
class _Judged:
    """What a schema says against fields, by place. `at_fault`: values that are not admitted, or what such a value
    stands in; `as_a_whole`: objects and lists of which no value is to blame."""

    places: Places
    fields: JsonObject
    no_place: set[Path] = field(default_factory=set[Path])
    at_fault: set[Path] = field(default_factory=set[Path])
    as_a_whole: set[Path] = field(default_factory=set[Path])
    missing: set[Path] = field(default_factory=set[Path])

    def take(self, one: Violation) -> None:
        stands = value_at(self.fields, one.path)
        if isinstance(stands, Nothing):
            self.missing.add(one.path)
        elif one.code == "unevaluatedProperties" and (extra := self._without_place(one.path, stands)):
            self.no_place |= extra
        elif one.code in _NO_PLACE and one.path:
            self.no_place.add(one.path)
        elif one.code == "uniqueItems":
            self.as_a_whole.add(one.path[:-1])
        elif one.code in _OF_THE_WHOLE or not one.path:
            self.as_a_whole.add(one.path)
        else:
            self.at_fault.add(one.path)

    def _without_place(self, path: Path, stands: JsonValue) -> set[Path]:
        place = self.places.at(path)
        if place is None or not isinstance(stands, dict):
            return set()
        return {(*path, key) for key in stands if self.places.child(place, key) is None}


def _leaves(
    fields: JsonObject, judged: _Judged, locks: Collection[str]
) -> tuple[list[Path], list[SchemaConflict], set[Path]]:
    """The leaves that carry over, the conflicts, and the places at which something not admitted is to be read again."""
    carries: list[Path] = []
    locked: list[Path] = []
    wanted: set[Path] = set()
    blamed = judged.at_fault | judged.as_a_whole
    for path, _ in walk(fields):
        above = [path[:steps] for steps in range(len(path) + 1)]
        if any(one in judged.no_place for one in above):
            continue
        is_locked = paths.name(path) in locks
        if not is_locked:
            wanted.update(one for one in above if one in blamed)
        if not any(one in judged.at_fault for one in above):
            carries.append(path)
        elif is_locked:
            locked.append(path)
    # What a person has set all of, and is wrong as a whole.
    locked += [path for path in judged.as_a_whole - wanted if path and not _covered(judged.no_place, path)]
    read = {path[: next((at for at, step in enumerate(path) if isinstance(step, int)), len(path))] for path in wanted}
    if () in judged.as_a_whole:  # which of its keys is to blame, nobody knows
        read |= {(key,) for key in judged.places.keys(judged.places.root)}
    conflicts = [SchemaConflict(path, ConflictReason.NO_PLACE) for path in sorted(judged.no_place, key=_in_order)]
    conflicts += [SchemaConflict(path, ConflictReason.LOCKED) for path in locked]
    return carries, conflicts, read - {()}


def _missing_before(old: JsonObject, fields: JsonObject) -> set[Path]:
    """What lacked by the older schema too."""
    try:
        found = validate(old, fields, limit=MOST_VIOLATIONS)
    except InvalidSchema:  # a front end has begun the extraction with it
        return set()
    return {one.path for one in found if isinstance(value_at(fields, one.path), Nothing)}


def _unread(
    before: Places,
    after: Places,
    old: Place | None,
    new: Place,
    value: JsonValue,
    path: Path,
    locks: Collection[str],
) -> Iterator[Path]:
    """The places without a value that the older schema did not have, or of which it said something else."""
    after.spend()
    if not new.is_told or not (old is None or old.is_told):
        # What stands below cannot be told place by place: the key of the root that it is under is the place.
        if _is_other(before, after, old, new):
            yield from [path[:1]] if path else [(key,) for key in after.keys(new)]
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, list | dict) and (there := after.item(new, index)) is not None:
                was = None if old is None else before.item(old, index)
                yield from _unread(before, after, was, there, item, (*path, index), locks)
    if not isinstance(value, dict):
        return
    for key in dict.fromkeys([*after.keys(new), *value]):
        there = after.child(new, key)
        if there is None:
            continue
        was, at = None if old is None else before.child(old, key), (*path, key)
        stands = value.get(key)
        if key in value and (stands not in (None, []) or paths.name(at) in locks):
            yield from _unread(before, after, was, there, stands, at, locks)
        elif _is_other(before, after, was, there):
            yield at


def _is_other(before: Places, after: Places, old: Place | None, new: Place) -> bool:
    return old is None or before.digest(old) != after.digest(new)


def _joined(read: set[Path], after: Places, fields: JsonObject) -> list[Path]:
    """The places in their order, none below another; lists in the place of many in them, and keys of the root in the
    place of many more."""
    outermost = _outermost(read)
    lists = Counter(above for path in outermost if (above := _list_of(path)) is not None)
    outermost = _outermost(
        above if (above := _list_of(path)) is not None and lists[above] > MOST_IN_A_LIST else path for path in outermost
    )
    outermost = {path if _can_be_named(path) else path[:1] for path in outermost}
    if len(outermost) > MOST_PLACES:
        outermost = {path[:1] for path in outermost}
    outermost = {path for path in outermost if _can_be_named(path)}
    order = {key: at for at, key in enumerate(dict.fromkeys([*after.keys(after.root), *fields]))}
    return sorted(_outermost(outermost), key=lambda path: (order.get(str(path[0]), len(order)), _in_order(path)))


def _can_be_named(path: Path) -> bool:
    """Whether a value can be written there: a schema may have keys that no field can."""
    try:
        return paths.parse(paths.name(path)) == path
    except InvalidPath:
        return False


def _outermost(read: Iterable[Path]) -> set[Path]:
    found = set(read)
    return {path for path in found if not any(path[:steps] in found for steps in range(len(path)))}


def _list_of(path: Path) -> Path | None:
    """The outermost list that a path leads through."""
    at = next((at for at, step in enumerate(path) if isinstance(step, int)), None)
    return None if at is None else path[:at]


def _covered(open_places: Collection[Path], path: Path) -> bool:
    """Whether a path is one of these, or stands below one."""
    return any(path[:steps] in open_places for steps in range(len(path) + 1))


def _in_order(path: Path) -> list[tuple[bool, str]]:
    return [(isinstance(step, str), str(step).rjust(9)) for step in path]


# Two schemas ----------------------------------------------------------------------------------------------------------


class _Enough(Exception):
    """As many places are named as are named."""


def _differ(
    before: Places,
    after: Places,
    old: Place,
    new: Place,
    path: Path,
    found: SchemaDifference,
    above: frozenset[tuple[str, str]],
) -> None:
    pair = before.digest(old), after.digest(new)
    if pair[0] == pair[1] or pair in above or len(path) > paths.MAX_STEPS:
        return
    above |= {pair}
    if path and before.own(old) != after.own(new):
        _name(found.changed, path, found)
    demanded_before, demanded = before.required(old), after.required(new)
    for key in dict.fromkeys([*after.keys(new), *before.keys(old)]):
        was, there, at = before.child(old, key), after.child(new, key), (*path, key)
        if was is None and there is not None:
            _name(found.added, at, found)
        elif was is not None and there is None:
            _name(found.removed, at, found)
        elif was is not None and there is not None:
            if (key in demanded_before) != (key in demanded) and before.own(was) == after.own(there):
                _name(found.changed, at, found)
            _differ(before, after, was, there, at, found, above)
    was, there = before.item(old, paths.MAX_INDEX), after.item(new, paths.MAX_INDEX)
    if was is not None and there is not None:
        _differ(before, after, was, there, (*path, 0), found, above)
    elif (was is None) != (there is None) and path:
        _name(found.changed, path, found)


def _name(into: list[str], path: Path, found: SchemaDifference) -> None:
    if len(found.added) + len(found.removed) + len(found.changed) >= MOST_NAMED:
        raise _Enough
    text = ""
    for step in path:
        named = "[*]" if isinstance(step, int) else paths.name((step,))
        text += named if not text or named.startswith("[") else f".{named}"
    if text not in into:
        into.append(text)


def _rules(schema: JsonObject) -> JsonValue:
    return as_object(schema.get(KEYWORD)).get("rules", [])
