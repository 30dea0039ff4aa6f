"""Currencies, units and scales: what the letters and signs around a printed number say of it.

A value such as `300 lb` is a number and what it is a number of. `Mark` is that second part, of a value or of a
printing. `read` takes it from the text around a number, and `agreement` compares two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from fieldmark.domain.folding import fold

Codes: TypeAlias = frozenset[str]

_DOLLARS: Final = "USD CAD AUD NZD SGD HKD TWD MXN ARS CLP COP JMD TTD BBD BSD BZD FJD GYD NAD XCD"
# How currencies are printed, folded, beside their codes: the codes that a printing may mean.
_PRINTINGS: Final = {
    "$": _DOLLARS,
    "dollar": _DOLLARS,
    "dollars": _DOLLARS,
    "us$": "USD",
    "u$s": "USD",
    "a$": "AUD",
    "au$": "AUD",
    "c$": "CAD",
    "ca$": "CAD",
    "can$": "CAD",
    "nz$": "NZD",
    "s$": "SGD",
    "sg$": "SGD",
    "hk$": "HKD",
    "nt$": "TWD",
    "r$": "BRL",
    "mx$": "MXN",
    "mex$": "MXN",
    "€": "EUR",
    "euro": "EUR",
    "euros": "EUR",
    "£": "GBP EGP LBP SYP SDG SSP GIP FKP SHP",
    "stg": "GBP",
    "¥": "JPY CNY",
    "円": "JPY",
    "元": "CNY TWD HKD",
    "rmb": "CNY",
    "원": "KRW",
    "₩": "KRW KPW",
    "₹": "INR",
    "rs": "INR PKR LKR NPR MUR SCR",
    "₪": "ILS",
    "nis": "ILS",
    "₽": "RUB",
    "руб": "RUB",
    "р": "RUB",
    "₺": "TRY",
    "tl": "TRY",
    "₴": "UAH",
    "грн": "UAH",
    "₫": "VND",
    "฿": "THB",
    "₱": "PHP",
    "₦": "NGN",
    "₵": "GHS",
    "₸": "KZT",
    "₮": "MNT",
    "₡": "CRC",
    "₲": "PYG",
    "kr": "SEK NOK DKK ISK",
    "skr": "SEK",
    "nkr": "NOK",
    "dkr": "DKK",
    "zl": "PLN",
    "kc": "CZK",
    "ft": "HUF",
    "lei": "RON MDL",
    "lv": "BGN",
    "kn": "HRK",
    "rm": "MYR",
    "rp": "IDR",
    "fr": "CHF XAF XOF XPF",
    "sfr": "CHF",
    "fcfa": "XAF XOF",
    "dhs": "AED MAD",
    "ksh": "KES",
    "₾": "GEL",
    "৳": "BDT",
    "₼": "AZN",
    "֏": "AMD",
    "៛": "KHR",
    "₭": "LAK",
    "₿": "BTC",
    "ден": "MKD",
    "дин": "RSD",
    "din": "RSD",
    "dm": "DEM",
    # A hundredth is another amount.
    "¢": "cent",
    "ct": "cent",
    "cts": "cent",
    "cent": "cent",
    "cents": "cent",
    "pence": "cent",
    "rappen": "cent",
    "centimes": "cent",
    "groszy": "cent",
    "коп": "cent",
}
_ISO: Final = """
EUR USD GBP CHF JPY CNY INR MYR SGD HKD TWD KRW AUD NZD CAD MXN BRL ARS CLP COP PEN SEK NOK DKK ISK PLN CZK HUF RON BGN
RSD RUB UAH TRY ILS AED SAR QAR KWD BHD OMR EGP MAD TND ZAR NGN KES GHS THB VND IDR PHP PKR BDT LKR NPR
AFN AMD AOA AWG AZN BAM BBD BIF BMD BND BOB BSD BTN BWP BYN BZD CDF CRC CVE DJF DOP DZD ERN ETB FJD FKP GEL GIP GMD GNF
GTQ GYD HNL HTG IQD IRR JMD JOD KGS KHR KMF KPW KYD KZT LAK LBP LRD LSL LYD MDL MGA MKD MMK MNT MRU MUR MVR MWK MZN NAD
NIO PAB PGK PYG RWF SBD SCR SDG SHP SLE SRD SSP STN SVC SYP SZL TJS TMT TTD TZS UGX UYU UZS VES VUV WST XAF XCD XOF XPF
YER ZMW ZWL DEM FRF ITL ESP NLG ATS BEF
"""
_ISO_CODES: Final = frozenset(_ISO.split())
_MOST_PLACES: Final = 10_000
_CODES: Final[Mapping[str, Codes]] = {
    **{code.lower(): frozenset({code}) for code in _ISO_CODES},
    **{printing: frozenset(codes.split()) for printing, codes in _PRINTINGS.items()},
}

# The spellings of one unit, folded, the first as it is called here. Two units are never converted.
_UNITS: Final = """
g gr gm gram grams gramm
kg kgs kilo kilos
mg
t tonne tonnes
lb lbs
oz
l ltr liter liters litre litres lt
ml
cl
dl
hl
gal
m mtr meter metre
cm
mm
km
m2 m^2 qm sqm mq
m3 m^3 cbm
cm2 cm^2
cm3 cm^3 ccm
ft
in inch inches zoll
yd
mi
h hr hrs std
min mins
s sec secs
ms
d day days tag tage
kw
kwh
wh
w
mw
mwh
mah
v
a
hz
ghz
mhz
kb
mb
gb
tb
pc pcs pce ea st stk stck stuck uds pz
ctn
pkt
px
pt
bar
°
°c
°f
%
‰
"""
_UNIT_OF: Final = {spelling: line.split()[0] for line in _UNITS.split("\n") if line for spelling in line.split()}
# Units that are as often words: as the heading of a column they count only in brackets.
_ORDINARY: Final = "a d g h in l m min s st t v w d day days tag tage pt bar ft mi"
_ORDINARY_WORDS: Final = frozenset(_ORDINARY.split())
# Units whose upper and lower case are two: mW and MW, mb and MB.
CASED: Final = frozenset({"mw", "mwh", "mb", "gb", "kb", "tb", "ms", "m", "t", "g"})

# By how many places a word behind a number moves its point. None: it does, and nobody can tell by how many.
_SCALE_WORDS: Final[tuple[tuple[int | None, str], ...]] = (
    (3, "k tsd thsd thousand tausend mila mille duizend tusen tusind tuhat tuhatta ezer mie mii tys tis tisic ribu"),
    (3, "nghin ngan тыс тысяч тысячи тысяча тис тисяч χιλ χιλιαδες ألف آلاف אלף हज़ार हजार 천"),
    (5, "lakh lakhs lac लाख"),
    (6, "mio mln mn million millions millionen millioner millones milioni millon milion miliony milionow milionu"),
    (6, "milioane mill milj miljon miljoner miljoen miljoonaa milhao milhoes milyon juta trieu millio"),
    (6, "млн миллион миллиона миллионов мільйон мільйонів εκατ εκατομμυρια مليون ملايين מיליון"),
    (7, "crore crores करोड़"),
    (8, "억"),
    (9, "mrd mld mlrd mia bn milliard milliards milliarde milliarden milliarder miliardi miliard miliarde miliardow"),
    (9, "miljard miljarden miljarder miljardia milyar miliar ty bilhao bilhoes млрд миллиард миллиарда миллиардов"),
    (9, "мільярд мільярдів δισ مليار מיליארד"),
    (4, "만"),
    (None, "mm b bil billion billions billionen trillion tn mil md mds bin"),
)
SCALES: Final[Mapping[str, int | None]] = {
    fold(word): places for places, words in _SCALE_WORDS for word in words.split()
}
# The same in scripts without spaces, where anything may stand behind: `3万円`. More digits there make a longer number.
_UNSPACED_SCALES: Final[Mapping[str, int | None]] = {
    fold(word): places
    for word, places in {
        **dict.fromkeys(("千", "仟", "พัน"), 3),
        **dict.fromkeys(("万", "萬", "หมื่น"), 4),
        **dict.fromkeys(("十万", "แสน"), 5),
        **dict.fromkeys(("百万", "百萬", "ล้าน"), 6),
        **dict.fromkeys(("千万", "千萬"), 7),
        **dict.fromkeys(("億", "亿"), 8),
        "兆": None,
    }.items()
}
# Before a number, with the currency in one word.
_SCALED_CURRENCIES: Final = {
    **{f"{scale}{money}": 3 for scale in "tk" for money in ("eur", "€", "chf", "usd", "gbp", "sek", "nok", "dkk")},
    **{f"m{money}": 6 for money in ("eur", "€", "chf", "usd", "gbp", "sek", "nok", "dkk", "kr")},
    "tkr": 3,
}
# How a scale behind a number begins, and how one before it ends: `3 mio`, `teur 3`.
SCALES_BEGIN: Final = frozenset(word[0] for word in [*SCALES, *_UNSPACED_SCALES, *_SCALED_CURRENCIES])
SCALES_END: Final = frozenset(word[-1] for word in [*_SCALED_CURRENCIES, *_UNSPACED_SCALES])

CURRENCY_LETTERS: Final = frozenset(
    [*(printing for printing in _CODES if printing.isalpha()), *(one for one in _SCALED_CURRENCIES if one.isalpha())]
)
# The units that may be glued to a number: 12a is the number of a house.
UNIT_LETTERS: Final = frozenset(
    spelling for spelling in _UNIT_OF if spelling.isalnum() and (spelling not in "adstvw" and len(spelling) < 6)
)
SYMBOLS: Final = "$€£¥₹₩₪₽₺₫₴฿₱₦¢₡₲₵₸₮₾৳₼֏៛₭₿"


def _any_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=lambda word: (-len(word), word))))


_CURRENCY = rf"(?:[^\W\d_]{{0,3}}[{SYMBOLS}]|(?:{_any_of(CURRENCY_LETTERS)})(?![^\W\d_]))"
# `mm`, `b` and the like are scales only beside a currency; alone they are millimetres, or anything.
_SCALE = rf"(?:{_any_of(word for word, places in SCALES.items() if places is not None)}|mil|trillion|billion)"
_SCALE_OF_MONEY = rf"(?:{_any_of([*SCALES, 'm', 't'])})"
_UNIT = rf"(?:{_any_of(_UNIT_OF)})"
_BEFORE = re.compile(rf"(?<![^\W\d_])(?P<currency>{_CURRENCY})[.:]?(?P<gap> ?)[-+(<]?[ ]?\Z")
_SCALED_BEFORE = re.compile(rf"(?<![^\W_])(?P<word>{_any_of(_SCALED_CURRENCIES)})[.:]? ?[-(]?\Z")
_SCALED_AFTER = re.compile(rf"[ ]?(?P<word>{_any_of(_SCALED_CURRENCIES)})(?![^\W_])")
_UNSPACED_BEFORE = re.compile(rf"\d ?(?:{_any_of(_UNSPACED_SCALES)})\Z")
_UNSPACED_AFTER = re.compile(rf"[ ]?(?P<scale>{_any_of(_UNSPACED_SCALES)})(?P<more>[ ]?\d)?")
_PER = r"(?P<per>/[^\W\d_]{1,5}(?:\^?[23])?)?"
# Behind a unit that is only part of one: mm², kg / m, 5 ft 11 in.
_MORE_OF_UNIT = (
    rf"(?![^\W_]|\^|[ ]?/[ ]?(?:{_UNIT})(?![^\W_])"
    r"|[ ]?\d{1,2}(?:[.,]\d+)?[ ]?(?:oz|in|inch|inches|min|mins|sec|s)(?![^\W_]))"
)
_AFTER = re.compile(
    rf"(?P<gap>[ ]?)(?:(?P<scale>{_SCALE_OF_MONEY})(?![^\W\d_])\.?[ ]?(?P<scaled>{_CURRENCY})"
    rf"|(?:(?:{_SCALE})(?![^\W\d_])\.?[ ]?)?(?P<unit>{_UNIT}){_PER}{_MORE_OF_UNIT}"
    rf"|(?P<currency>{_CURRENCY})|(?P<word>{_SCALE_OF_MONEY})(?![^\W_])\.?)?"
)
_SCALE_AFTER = re.compile(rf"[ ]?(?P<scale>{_SCALE})(?![^\W_])\.?")
_SCALE_OF_MONEY_AFTER = re.compile(rf"[ ]?(?P<scale>{_SCALE_OF_MONEY})(?![^\W_])\.?")
_MONEY_AFTER = re.compile(rf"[ ]?{_CURRENCY}")
_DIGIT_BEFORE = re.compile(r"\d[)\-%]?(?P<gap> ?)\Z")
_DIGIT_AFTER = re.compile(r"\.?(?P<gap> ?)[-(]?\d")
# Letters that mean a currency only where a number stands at them, and not even there for sure.
_OTHER: Final = "try mad cop pen ron sek ft fr kn lv lei р ct cts tl"
_OTHER_WORDS: Final = frozenset(_OTHER.split())
_ANY_SYMBOL = re.compile(rf"(?:(?<![^\W\d_])[^\W\d_]{{1,3}})?[{SYMBOLS}]")
_LETTERS_AT_A_NUMBER = re.compile(
    rf"(?:(?<=\d)|(?<=\d[ ])|(?<=[(\[]))(?P<behind>{_any_of(CURRENCY_LETTERS - _OTHER_WORDS)})(?![^\W_])"
    rf"|(?<![^\W_])(?P<before>{_any_of(CURRENCY_LETTERS - _OTHER_WORDS)})[.:]?[ ]?(?=[-(]?\d|[)\]])"
)


_NOT_SAID: Final = " +-()<>=:;,.*#~|!?^'\"[]{}"


class Mark(NamedTuple):
    """What a number is a number of. `currency` holds the codes that it may be; a `unit` may also be % or ‰."""

    currency: Codes | None = None
    unit: str | None = None


class Agreement(IntEnum):
    """How well a printing's mark says a value's: the smaller, the better."""

    SAME = 0
    SHARED = 1  # a symbol that also stands for other currencies
    NONE = 2


def _per(printed: str | None) -> str:
    """What a unit is counted by, in one spelling: `/m3` of `/m³`."""
    one = printed[1:].replace("^", "") if printed else ""
    return f"/{_UNIT_OF.get(one, one)}" if one else ""


def codes_of(printing: str) -> Codes | None:
    """The codes that a folded printing of a currency may mean; None for what is no currency."""
    codes = _CODES.get(printing)
    if codes is None and printing[-1:] in SYMBOLS and printing[:-1].isalpha():
        # Some other dollar or pound, as B$: known to be none of the others.
        return frozenset({printing}) if len(printing) <= 4 else _CODES.get(printing[-1])
    return codes


def scale_at(before: str, after: str) -> tuple[int | None, int] | None:
    """By how many places the words around a number move its point, and how many characters of `after` say so.

    None if no word does. The places are None where nobody can tell: `$3m` is three million or three thousand.
    """
    found = _SCALED_BEFORE.search(before)
    if found:
        return _SCALED_CURRENCIES[found["word"]], 0
    if _UNSPACED_BEFORE.search(before):
        return None, 0  # the 5000 of 3万5000
    found = _SCALED_AFTER.match(after)
    if found:
        return _SCALED_CURRENCIES[found["word"]], found.end()
    found = _UNSPACED_AFTER.match(after)
    if found:
        return None if found["more"] else _UNSPACED_SCALES[found["scale"]], found.end()
    money = _BEFORE.search(before)
    found = (_SCALE_OF_MONEY_AFTER if money else _SCALE_AFTER).match(after)
    if found is None and not money:
        found = _SCALE_OF_MONEY_AFTER.match(after)
        if found is not None and not _MONEY_AFTER.match(after, found.end()):
            return None
    if found is None:
        if money and codes_of(money["currency"]) is not None and re.match(r"[ ]?cr(?![^\W_])", after):
            rupees = _CODES["rs"] & (codes_of(money["currency"]) or frozenset())
            return (7, re.match(r"[ ]?cr", after).end()) if rupees else None  # pyright: ignore[reportOptionalMemberAccess]
        return None
    return SCALES.get(found["scale"]), found.end()


def is_unspaced_scale(after: str) -> bool:
    """Whether what stands behind a number begins with a scale of a script without spaces."""
    return _UNSPACED_AFTER.match(after) is not None


def read(before: str, after: str) -> Mark:
    """The mark of a number on a line, by the folded text before and behind it."""
    left, right = _BEFORE.search(before), _AFTER.match(after)
    assert right is not None  # it matches nothing, too
    if right["unit"]:
        per = right["per"]
        unit = _UNIT_OF[right["unit"]]
        # `ft` and `m`: a unit behind a number, unless a currency stands before it.
        if not (left and right["unit"] in _CODES):
            return Mark(None, unit + _per(per))
    one = codes_of(left["currency"]) if left else None
    behind = right["currency"] or right["scaled"]
    other = codes_of(behind) if behind else None
    if left and one and other and one != other:
        # Two of them: one is the neighbour's. The glued one is ours, else the one that no other number stands at.
        glued = not left["gap"], not right["gap"]
        taken = _DIGIT_BEFORE.search(before[: left.start()]), _DIGIT_AFTER.match(after, right.end())
        if glued[0] != glued[1]:
            one, other = (one, None) if glued[0] else (None, other)
        elif bool(taken[0]) != bool(taken[1]):
            one, other = (None, other) if taken[0] else (one, None)
        else:
            return Mark(one & other)
    elif left and one and not other:
        number = _DIGIT_BEFORE.search(before[: left.start()])
        if number and left["gap"] and not number["gap"]:
            one = None  # "9.00$ 8.00": the neighbour's
    elif other and not one:
        number = _DIGIT_AFTER.match(after, right.end())
        if number and right["gap"] and not number["gap"]:
            other = None  # "9.00 $8.00"
    return Mark(one or other)


def agreement(value: Mark, printed: Mark) -> Agreement | None:
    """How well a printed mark says a value's; None if there is no printed one."""
    if value.unit is not None:
        if printed.unit is None and printed.currency is None:
            return None
        return Agreement.SAME if printed.unit == value.unit else Agreement.NONE
    if value.currency is None:
        return Agreement.SAME
    if printed.currency is None:
        return None if printed.unit is None else Agreement.NONE
    return compare(value.currency, printed.currency)


def compare(value: Codes, printed: Codes) -> Agreement:
    """How well a printed currency says a value's: `US$` is USD, `$` may be."""
    if value & printed:
        return Agreement.SAME if printed <= value else Agreement.SHARED
    return Agreement.NONE


@lru_cache(maxsize=1024)
def mark_of(before: str, after: str) -> Mark | None:
    """The mark of a value, by the folded text around its number; None if there is more than a mark."""
    before, after = before.strip(_NOT_SAID), after.strip(_NOT_SAID)
    currency: Codes | None = None
    if before:
        scaled = _SCALED_BEFORE.fullmatch(before)
        found = None if scaled else _BEFORE.fullmatch(before)
        currency = codes_of(before[1:]) if scaled else codes_of(found["currency"]) if found else None
        if currency is None:
            return None
    found = _AFTER.match(after)
    assert found is not None  # it matches nothing, too
    if found.end() < len(after) and after[found.end() :] != "cr":
        return None
    if found["unit"]:
        if before:
            return None
        per = found["per"]
        return Mark(None, _UNIT_OF[found["unit"]] + _per(per))
    printing = found["currency"] or found["scaled"]
    if printing:
        behind = codes_of(printing)
        if behind is None:
            return None
        currency = behind if currency is None else currency & behind
        if not currency:
            return None
    return Mark(currency)


def printings_of(codes: Codes) -> dict[str, Agreement]:
    """The printings of a currency, the surer ones first: of USD `usd`, `us$`, and `$`, which others share."""
    found = {printing: compare(codes, means) for printing, means in _CODES.items()}
    return {
        printing: how for printing, how in sorted(found.items(), key=lambda one: one[1]) if how is not Agreement.NONE
    }


def places_of(printing: str, text: str) -> Iterator[tuple[int, int]]:
    """The (start, end) of a currency's printing in a folded text: of a symbol anywhere, of letters at a number."""
    one = re.escape(printing)
    if printing[-1] in SYMBOLS:
        # Up to three letters before a symbol make another of it: CA$.
        pattern = rf"(?<![^\W\d_]){one}" if printing[:-1] else rf"(?:(?<![^\W\d_])|(?<=[^\W\d_]{{4}})){one}"
    elif printing.upper() in _ISO_CODES:
        pattern = rf"(?<![^\W\d_]){one}(?![^\W\d_])"
    else:
        pattern = rf"(?:(?<=\d)|(?<=\d\s)){one}(?![^\W_])|(?<![^\W_]){one}(?=[.:]?\s?[-(]?\d)"
    return (found.span() for found in islice(re.finditer(pattern, text), _MOST_PLACES))


def currencies_in(text: str) -> set[Codes]:
    """The currencies of a folded text, with a space between two words: the symbols, and letters at a number or alone
    in brackets."""
    printed = [one[0] for one in _ANY_SYMBOL.finditer(text)]
    printed += [one["behind"] or one["before"] for one in _LETTERS_AT_A_NUMBER.finditer(text)]
    return {codes for one in set(printed) if (codes := codes_of(one))}


def names(currency: Codes, text: str) -> bool:
    """Whether a folded text has the code of a currency as a word of its own."""
    words = [code.lower() for code in currency if code.lower() not in _OTHER_WORDS]
    return bool(words) and re.search(rf"(?<![^\W_])(?:{_any_of(words)})(?![^\W_])", text) is not None


def heads_a_column(unit: str, text: str) -> bool:
    """Whether a folded text, with a space between two words, names a unit apart from any number: `Weight (lb)`."""
    for spelling in (spelling for spelling, name in _UNIT_OF.items() if name == unit):
        one = re.escape(spelling)
        if re.search(rf"[(\[/]\s?{one}\s?[)\]]", text):
            return True
        if spelling not in _ORDINARY_WORDS and re.search(rf"(?<![^\W_])(?<!\d )(?<!\d){one}(?![^\W_])(?! ?\d)", text):
            return True
    return False
