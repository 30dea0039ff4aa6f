"""Words, marks and digits beside a printed number that change its sign, its bound, its unit or its digits.

`find_qualifier` reads the text on both sides of a number. What it finds may also be the label of a field, so that the
field's name decides.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

from valuegrounding.decimals import canonical_decimal
from valuegrounding.folding import fold
from valuegrounding.units import CURRENCY_LETTERS, SYMBOLS, any_of

QualifierKind: TypeAlias = Literal["sign", "limit", "unit", "digits"]

_LIMIT_WORDS: Final = """
less than, more than, fewer than, greater than, at most, at least, weniger als, mehr als, hochstens, mindestens
moins de, plus de, au moins, menos de, meno di, piu di, over, under, uber, unter
"""
LIMIT_WORD: Final = any_of(re.split(r", |\n", _LIMIT_WORDS.strip()))
LIMIT_AFTER: Final = r"""(?:or|oder|ou|o|of|and|und|et)[ ](?:more|mehr|plus|mas|piu|meer|above|over|daruber|less
    |weniger|moins|menos|meno|minder)(?![^\W_])|以上|以下|未満|超(?![^\W\d_])"""
CREDIT: Final = any_of(("credit", "crediteur", "credito", "kredit", "haben", "haber", "avere"))
DEBIT: Final = any_of(("debit", "debiteur", "debito", "debet", "soll", "debe", "overdrawn"))

_DEDUCTIONS: Final = """
credit credits debit debits deduction deductions discount discounts expense expenses fee fees loss losses payment
payments rebate rebates refund refunds withdrawal withdrawals withheld withholding abzug abzuge belastung gebuhr
gebuhren gutschrift rabatt skonto soll verlust debito remise retenue descuento
"""
DEDUCTION_WORDS: Final = frozenset(_DEDUCTIONS.split())
"""Words of a field's name for an amount that many documents print with a minus."""

_DEDUCTED: Final = """
less, abzgl, abzuglich, deduct, a deduire, a deducir, a deduzir, a dedurre, dedurre, afgetrokken, in mindering, avgar
за вычетом
"""
# Words of bounds and estimates which may also begin a label. Of two letters, they are not written in capitals: `CA`.
_BOUNDS: Final = """
min, max, minimum, maximum, from, up to, starting at, not exceeding, mind, ab, bis, bis zu, maximal, minimal
jusqu'a, jusqu a, a partir de, au plus, au maximum, au minimum, hasta, desde, como maximo, como minimo, al menos
fino a, a partire da, almeno, al massimo, ate, pelo menos, no maximo, no minimo, vanaf, tot, minstens, ten minste
hoogstens, maximaal, minimaal, meer dan, minder dan, fran, fra, upp till, op til, opp til, minst, mindst, hogst, hojst
maks, mer an, mere end, mer enn, od, do, co najmniej, az, nejmene, nejvyse, alespon, от, до, не более, не менее, макс
мин, минимум, максимум, legalabb, legfeljebb, vahintaan, enintaan, en az, en fazla
ca, circa, cca, approx, approximately, about, around, roughly, etwa, rund, ungefahr, ungef, environ, env, aprox
aproximadamente, cerca de, ungefar, cirka, ongeveer, omkring, omtrent, okolo, asi, noin, yaklasik, около, примерно
"""
_NAMES_OF_LIMITS: Final = """
min max minimum maximum minimal maximal limit limits from to until up bis ab von range bound start end lower upper low
high threshold cap tolerance approx approximate estimate estimated circa least most
"""
# Units whose number is a part or a multiple of the usual one: a basis point is the hundredth part of a percent.
_UNITS: Final = (
    ((-2, -4), "bp bps basis_point basis_points basispunkt basispunkte basispunkten points_de_base puntos_basicos"),
    ((-2,), "percentage_point percentage_points prozentpunkt prozentpunkte prozentpunkten pp"),
    ((), "dozen doz dzn dz dtzd dutzend douzaine douzaines docena docenas dozzina dozzine gross pair pairs paar"),
)
_PLACES: Final = {fold(word.replace("_", " ")): places for places, words in _UNITS for word in words.split()}

_AMOUNT: Final = re.compile(r"\d{1,2}[.,]\d\d")
_CENTS: Final = re.compile(r"[.,]\d\d\Z")
_DIGITS_BEFORE: Final = re.compile(r"(?<![^\s])(\d{1,3})[ ]\Z")
_SPACED_BEFORE: Final = re.compile(r"(?<!\S)(?:[\d.,] ){2}\Z")
_SPACED_AFTER: Final = re.compile(r"(?: [\d.,]){2}(?!\S)")
_SPACED_ONCE: Final = re.compile(r"(?<!\S)[\d.,] \Z"), re.compile(r" [\d.,](?!\S)")
# German `S` (Soll), Dutch `Af` and `D` behind an amount: seconds, sizes and words are not written so.
_SIDE_AFTER: Final = re.compile(r"[ \t]?(?:S|D|A[fF])(?![^\W_]|[ \t]?[\d./-])")
_TILDE_BEFORE: Final = re.compile(r"(?:(?<![^\s(:])[~≈∼≅〜～]|\+/-|\+-|-/\+|[±≤≥≦≧]|(?<![^\s(:])[<>]=?)[ ]?\Z")
_EITHER_BEFORE: Final = re.compile(r"(?<![\w.,])(\d[\d.,]{0,12})[ ](?:a|or|oder|ou|o|eller|lub|или)[ ]\Z")
_EITHER_AFTER: Final = re.compile(r"[ ](?:a|or|oder|ou|o|eller|lub|или)[ ](\d[\d.,]{0,12})(?![\w])")


class Qualifier(NamedTuple):
    """What changes a number. `places` shift its decimal point to the other values that it may have."""

    kind: QualifierKind
    places: tuple[int, ...] = ()
    whole: str = ""  # the digits that it may be a part of

    def is_named(self, words: tuple[str, ...]) -> bool:
        """Return whether the words of a field's key name the qualifier: `max_weight` is 50 at `max. 50`."""
        names = {
            "sign": DEDUCTION_WORDS | {"less", "deducted"},
            "limit": frozenset(_NAMES_OF_LIMITS.split()),
            "unit": frozenset(word for unit in _PLACES for word in unit.split()),
            "digits": frozenset[str](),
        }
        return not names[self.kind].isdisjoint(words)

    def other_values(self, value: int | float) -> list[str]:
        """Return the canonical values that a number may have instead."""
        name = canonical_decimal(value)
        if name is None:
            return []
        if self.kind == "sign":
            return [canonical_decimal(-Decimal(name)) or name]
        if self.whole:
            return [self.whole]
        return [one for places in self.places if (one := canonical_decimal(Decimal(name).scaleb(places)))]


@cache
def _before_pattern() -> re.Pattern[str]:
    money = rf"(?:(?:[^\W\d_]{{0,3}}[{SYMBOLS}]|{any_of(CURRENCY_LETTERS)})\.?[ ]?)?"
    deducted = any_of(re.split(r", |\n", _DEDUCTED.strip()))
    bounds = any_of(re.split(r", |\n", _BOUNDS.strip()))
    return re.compile(
        rf"(?<![^\W_])(?:(?P<sign>{deducted}|{DEBIT})[.:]?[ \t]?|(?P<limit>(?<!\d )(?:{LIMIT_WORD}|{bounds}))[.:]?[ ]?"
        rf"|(?P<unspaced>最大|最小|最高|最低|約|约)){money}\Z"
    )


@cache
def _after_pattern() -> re.Pattern[str]:
    return re.compile(
        rf"""[ ]?(?:(?:[{SYMBOLS}]|[^\W\d_]{{1,3}}|%)\.?[ ])?(?:(?P<limit>{LIMIT_AFTER}|\+/-|\+-|±
        |(?:max|maximum|maximal|minimum|approx|circa)(?![^\W_]))|(?P<sign>{DEBIT}(?![^\W_])(?=\Z|[ ]?[.,;:)\]*])))
        |[ ]?(?P<unit>{any_of(_PLACES)})(?![^\W_])""",
        re.VERBOSE,
    )


def find_qualifier(before: str, printed: str, after: str) -> Qualifier | None:
    """Return what changes a number, or None. `before` and `after` are the text beside it as printed, with a space
    between words and a tab between cells."""
    folded, following, digits = fold(before), fold(after), fold(printed)
    if (found := _before_pattern().search(folded)) and not _is_code(found, before, folded):
        return Qualifier("sign" if found["sign"] else "limit")
    if _CENTS.search(digits) and _SIDE_AFTER.match(after):
        return Qualifier("sign")
    if found := _after_pattern().match(following):
        if found["unit"]:
            return Qualifier("unit", _PLACES[found["unit"]])
        return Qualifier("sign" if found["sign"] else "limit")
    if _TILDE_BEFORE.search(folded):
        return Qualifier("limit")
    for other in (_EITHER_BEFORE.search(folded), _EITHER_AFTER.match(following)):
        if other and digits[-1:].isdigit() and (_CENTS.search(other[1]) is None) == (_CENTS.search(digits) is None):
            return Qualifier("limit")
    if _AMOUNT.fullmatch(digits) and (found := _DIGITS_BEFORE.search(folded)):
        return Qualifier("digits", whole=canonical_decimal(Decimal(found[1] + digits.replace(",", "."))) or "")
    if len(digits) == 1 and (
        _SPACED_BEFORE.search(folded)
        or _SPACED_AFTER.match(following)
        or (_SPACED_ONCE[0].search(folded) and _SPACED_ONCE[1].match(following))
    ):
        return Qualifier("digits")
    return None


def _is_code(found: re.Match[str], before: str, folded: str) -> bool:
    """Return whether a short word is written in capitals, as codes are: `CA 90210`."""
    word = found["limit"] or ""
    start = found.start() if len(before) == len(folded) else max(0, len(before) - len(found[0]))
    return 0 < len(word) <= 2 and before[start : start + len(word)].isupper()
