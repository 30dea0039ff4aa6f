"""Currencies, units and scales: how they are printed, and which notations mean the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from itertools import islice
from typing import Final, TypeAlias

from valuegrounding.folding import fold

Codes: TypeAlias = frozenset[str]

_DOLLARS: Final = "USD CAD AUD NZD SGD HKD TWD MXN ARS CLP COP JMD TTD BBD BSD BZD FJD GYD NAD XCD"
# Currency codes, and the folded signs and names that may mean them. Cents and pence are listed as a different unit.
_PRINTINGS: Final = (
    (_DOLLARS, "$ dollar dollars"),
    ("USD", "us$ u$s"),
    ("AUD", "a$ au$"),
    ("CAD", "c$ ca$ can$"),
    ("NZD", "nz$"),
    ("SGD", "s$ sg$"),
    ("HKD", "hk$"),
    ("TWD", "nt$"),
    ("BRL", "r$ reais"),
    ("MXN", "mx$ mex$"),
    ("EUR", "€ euro euros"),
    ("GBP EGP LBP SYP SDG SSP GIP FKP SHP", "£ pounds"),
    ("GBP", "stg"),
    ("JPY CNY", "¥"),
    ("JPY", "円 yen"),
    ("CNY TWD HKD", "元"),
    ("CNY", "rmb yuan"),
    ("KRW", "원"),
    ("KRW KPW", "₩"),
    ("INR", "₹"),
    ("INR PKR LKR NPR MUR SCR", "rs rupee rupees"),
    ("ILS", "₪ nis שח"),
    ("RUB", "₽ руб рублей р"),
    ("TRY", "₺ tl"),
    ("UAH", "₴ грн гривень"),
    ("VND", "₫ đ đồng"),
    ("THB", "฿ บาท baht"),
    ("PHP", "₱"),
    ("NGN", "₦ naira"),
    ("GHS", "₵ gh₵"),
    ("KZT", "₸ тг тенге"),
    ("DOP", "rd$"),
    ("MNT", "₮"),
    ("CRC", "₡"),
    ("PYG", "₲"),
    ("SEK NOK DKK ISK", "kr kronor kroner"),
    ("SEK", "skr"),
    ("NOK", "nkr"),
    ("DKK", "dkr"),
    ("PLN", "zl zloty zlotych"),
    ("CZK", "kc korun"),
    ("HUF", "ft forint"),
    ("RON MDL", "lei"),
    ("BGN", "lv лв"),
    ("HRK", "kn"),
    ("MYR", "rm ringgit"),
    ("IDR", "rp rupiah"),
    ("CHF XAF XOF XPF", "fr"),
    ("CHF", "sfr franken"),
    ("XAF XOF", "fcfa cfa f_cfa fr_cfa francs_cfa"),
    ("AED MAD", "dhs"),
    ("AED MAD", "درهم"),
    ("SAR QAR OMR YER IRR", "ريال"),
    ("KWD BHD JOD IQD TND DZD LYD", "دينار"),
    ("EGP SDG", "جنيه"),
    ("KES", "ksh"),
    ("TZS", "tsh"),
    ("UGX", "ush"),
    ("GEL", "₾"),
    ("BDT", "৳"),
    ("AZN", "₼"),
    ("AMD", "֏"),
    ("KHR", "៛"),
    ("LAK", "₭"),
    ("BTC", "₿"),
    ("MKD", "ден"),
    ("RSD", "дин din"),
    ("DEM", "dm"),
    ("cent", "¢ ct cts cent cents pence rappen centimes groszy коп"),
)
_ISO_LIST: Final = """
EUR USD GBP CHF JPY CNY INR MYR SGD HKD TWD KRW AUD NZD CAD MXN BRL ARS CLP COP PEN SEK NOK DKK ISK PLN CZK HUF RON BGN
RSD RUB UAH TRY ILS AED SAR QAR KWD BHD OMR EGP MAD TND ZAR NGN KES GHS THB VND IDR PHP PKR BDT LKR NPR
AFN AMD AOA AWG AZN BAM BBD BIF BMD BND BOB BSD BTN BWP BYN BZD CDF CRC CVE DJF DOP DZD ERN ETB FJD FKP GEL GIP GMD GNF
GTQ GYD HNL HTG IQD IRR JMD JOD KGS KHR KMF KPW KYD KZT LAK LBP LRD LSL LYD MDL MGA MKD MMK MNT MRU MUR MVR MWK MZN NAD
NIO PAB PGK PYG RWF SBD SCR SDG SHP SLE SRD SSP STN SVC SYP SZL TJS TMT TTD TZS UGX UYU UZS VES VUV WST XAF XCD XOF XPF
YER ZMW ZWL DEM FRF ITL ESP NLG ATS BEF
"""
_ISO_CODES: Final = frozenset(_ISO_LIST.split())
_MAX_MATCHES: Final = 10_000
_CODES: Final[Mapping[str, Codes]] = {
    **{code.lower(): frozenset({code}) for code in _ISO_CODES},
    **{
        fold(printing.replace("_", " ")): frozenset(codes.split())
        for codes, printings in _PRINTINGS
        for printing in printings.split()
    },
}

# Each unit with its folded spellings, the canonical name first. measures.py converts some of them.
_UNITS: Final = """
g gr gm gram grams gramm, kg kgs kilo kilos, mg, t tonne tonnes, lb lbs, oz, l ltr liter liters litre litres lt, ml,
cl, dl, hl, gal, m mtr meter metre, cm, mm, km, m2 m^2 qm sqm mq, m3 m^3 cbm, cm2 cm^2, cm3 cm^3 ccm, ft, in inch
inches zoll, yd, mi, h hr hrs std, min mins, s sec secs, ms, d day days tag tage, kw, kwh, wh, w, mw, mwh, mah, v, a,
hz, ghz, mhz, kb, mb, gb, tb, pc pcs pce ea st stk stck stuck uds pz, ctn, pkt, px, pt, bar, °, °c, °f, %, ‰
"""
UNIT_OF: Final = {spelling: unit.split()[0] for unit in _UNITS.split(",") for spelling in unit.split()}
# Units that are also ordinary words: in a column heading they count only in brackets.
_AMBIGUOUS_UNITS: Final = "a d g h in l m min s st t v w d day days tag tage pt bar ft mi"
_AMBIGUOUS_UNIT_WORDS: Final = frozenset(_AMBIGUOUS_UNITS.split())
UNITS_LIKE_WORDS: Final = frozenset({"in", "a", "d"})
# Units for which case matters: mW and MW, mb and MB.
CASE_SENSITIVE_UNITS: Final = frozenset({"mw", "mwh", "mb", "gb", "kb", "tb", "ms", "m", "t", "g"})

# The words for the hundredth part of a currency, after its digits: `12 Euro 50 Cent`.
_CENTS: Final = """
ct cts cent cents centime centimes centavo centavos centimo centimos céntimos cêntimos centesimi p pence gr grosz grosze
groszy коп коп. копеек копейки öre øre ore rappen rp sen paise paisa kuruş kr. haléřů hal fillér bani ст стотинки santim
λεπτά eurocent hellers
"""
CENT_WORDS: Final = tuple(map(fold, _CENTS.split()))

# The words for a percent sign and a per mille sign.
_PERCENT: Final = """
percent, per cent, pct, prozent, vom hundert, v.h., v. h., pour cent, por ciento, por cento, per cento, procent
procenta, procentow, prosent, prosenttia, százalék, posto, la sută, процент, процента, процентов, відсотків, τοις εκατό
אחוז, אחוזים, بالمئة, في المئة, بالمائة, في المائة
"""
PERCENT_WORDS: Final = {
    **dict.fromkeys(map(fold, re.split(r", |\n", _PERCENT.strip())), "%"),
    **dict.fromkeys(map(fold, ("promille", "per mille", "per mil", "vom tausend", "pour mille", "промилле")), "‰"),
}

# The number of places by which a word shifts the decimal point of the number before it. None if ambiguous.
_SCALE_WORDS: Final[tuple[tuple[int | None, str], ...]] = (
    (
        3,
        "k tsd thsd thousand thousands tausend mila mille duizend tusen tusind tuhat tuhatta ezer mie mii tys tis",
    ),
    (3, "tisic ribu rb хил nghin ngan тыс тысяч тысячи тысяча тис тисяч χιλ χιλιαδες ألف آلاف אלף हज़ार हजार 천"),
    (2, "hundred hundert"),
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
# The same for scripts without spaces, where any text may follow: `3万円`. Digits after it belong to the same number.
UNSPACED_SCALES: Final[Mapping[str, int | None]] = {
    fold(word): places
    for word, places in {
        **dict.fromkeys(("百",), 2),
        **dict.fromkeys(("千", "仟", "พัน"), 3),
        **dict.fromkeys(("万", "萬", "หมื่น"), 4),
        **dict.fromkeys(("十万", "แสน"), 5),
        **dict.fromkeys(("百万", "百萬", "ล้าน"), 6),
        **dict.fromkeys(("千万", "千萬"), 7),
        **dict.fromkeys(("億", "亿"), 8),
        "兆": None,
    }.items()
}
# Scale and currency in one word, before a number.
SCALED_CURRENCIES: Final = {
    **{f"{scale}{money}": 3 for scale in "tk" for money in ("eur", "€", "chf", "usd", "gbp", "sek", "nok", "dkk")},
    **{f"m{money}": 6 for money in ("eur", "€", "chf", "usd", "gbp", "sek", "nok", "dkk", "kr")},
    "tkr": 3,
}
# A single letter is a currency only before an amount with cents: `R1,250.00`.
LETTER_CURRENCIES: Final[Mapping[str, Codes]] = {
    "r": frozenset({"ZAR"}),
    "p": frozenset({"PHP", "BWP"}),
    "q": frozenset({"GTQ"}),
}
CURRENCY_LETTERS: Final = frozenset(
    [
        *(printing for printing in _CODES if printing.replace(" ", "").isalpha()),
        *(one for one in SCALED_CURRENCIES if one.isalpha()),
    ]
)
# Units that may directly follow a number. Not `a`: 12a is a house number.
GLUED_UNITS: Final = frozenset(
    spelling for spelling in UNIT_OF if spelling.isalnum() and (spelling not in "adstvw" and len(spelling) < 6)
)
SYMBOLS: Final = "$€£¥₹₩₪₽₺₫₴฿₱₦¢₡₲₵₸₮₾৳₼֏៛₭₿"


def any_of(words: Iterable[str]) -> str:
    """Return a regular expression that matches any of the words, the longest first."""
    return f"(?:{'|'.join(map(re.escape, sorted(words, key=lambda word: (-len(word), word))))})"


# Letters that may mean a currency only next to a number, and even there not for certain.
_AMBIGUOUS_CURRENCIES: Final = "try mad cop pen ron sek ft fr kn lv lei р ct cts tl"
_AMBIGUOUS_CURRENCY_WORDS: Final = frozenset(_AMBIGUOUS_CURRENCIES.split())
_SCALED_SYMBOLS: Final = (
    (r"(?:(?:usd|eur|gbp|chf|aud|cad|[$€£¥]) ?)?(?<![\d.,])['’]?000'?s?|thousands?|tausend|k(?:eur|usd|chf|gbp|€)"
     r"|[$€£]k|t(?:eur|usd|chf|gbp|€)|tsd|tkr|ksek|milliers|miles de|migliaia|milhares|duizend(?:en)?|tusen(?:tal)?"
     r"|tys|тыс|千[円元]|千日元|k[€$£]", 3),
    (r"万[円元]|萬[円元]|만원", 4),
    (r"millions?|mio|mln|millionen|millones|milioni|milhoes|miljoen(?:en)?|miljoner|m(?:eur|usd|chf|gbp|sek|€)"
     r"|[$€£]m|[$€£]mn|млн|百万円|백만원", 6),
    (r"billions?|milliarden|milliards|miliardi|mrd|mld|[$€£]bn|млрд|十億円|십억원", 9),
)  # fmt: skip
_ANY_SYMBOL = re.compile(rf"(?:(?<![^\W\d_])[^\W\d_]{{1,3}})?[{SYMBOLS}]")


_DECLARED_CURRENCY = re.compile(
    r"(?<![^\W_])(?:(?:amounts|prices|figures|values|betrage|preise|angaben|montants|importes|importi|bedragen)"
    r"(?: (?:are|sind|shown|quoted|stated|expressed))? (?:in|en)|[^\W_]{0,30}(?:currency|wahrung|devise|moneda|valuta))"
    rf"[ :.]{{1,3}}(?:([a-z]{{3}}(?![^\W_]))|([a-z]{{0,3}}[{SYMBOLS}]))"
)


@cache
def _currency_letters_pattern() -> re.Pattern[str]:
    # Compiled when first used: it takes milliseconds.
    return re.compile(
        rf"(?:(?<=\d)|(?<=\d[ ])|(?<=[(\[]))(?P<after>{any_of(CURRENCY_LETTERS - _AMBIGUOUS_CURRENCY_WORDS)})(?![^\W_])"
        rf"|(?<![^\W_])(?P<before>{any_of(CURRENCY_LETTERS - _AMBIGUOUS_CURRENCY_WORDS)})[.:]?[ ]?(?=[-(]?\d|[)\]])"
    )


@cache
def _column_unit_pattern() -> re.Pattern[str]:
    unit = any_of(UNIT_OF)
    return re.compile(
        rf"[(\[/]\s?(?P<bracketed>{unit})\s?[)\]]|(?<![^\W_])(?<!\d )(?<!\d)(?P<unit>{unit})(?![^\W_])(?! ?\d)"
    )


class Agreement(IntEnum):
    """How well a printed currency or unit agrees with a value's; smaller is better."""

    SAME = 0
    SHARED = 1  # a symbol shared by several currencies
    NONE = 2


def unit_name(spelling: str, per: str | None) -> str:
    """Return the canonical name of a unit with its divisor: `kgs` and `/m³` give `kg/m3`."""
    divisor = per[1:].replace("^", "") if per else ""
    return UNIT_OF[spelling] + (f"/{UNIT_OF.get(divisor, divisor)}" if divisor else "")


def codes_of(printing: str) -> Codes | None:
    """Return the codes that a folded currency sign or name may mean, or None if it is not a currency."""
    codes = _CODES.get(printing)
    if codes is None and printing[-1:] in SYMBOLS and printing[:-1].isalpha():
        # Some other dollar or pound, such as B$: a currency of its own.
        return frozenset({printing}) if len(printing) <= 4 else _CODES.get(printing[-1])
    return codes


def compare_currencies(value: Codes, printed: Codes) -> Agreement:
    """Return how well a printed currency agrees with a value's: `US$` is USD, `$` may be."""
    if value & printed:
        return Agreement.SAME if printed <= value else Agreement.SHARED
    return Agreement.NONE


def currency_printings(codes: Codes) -> dict[str, Agreement]:
    """Return the signs and names of a currency, unambiguous ones first: for USD `usd`, `us$`, then the shared `$`."""
    found = {printing: compare_currencies(codes, means) for printing, means in _CODES.items()}
    return {
        printing: how for printing, how in sorted(found.items(), key=lambda one: one[1]) if how is not Agreement.NONE
    }


def find_currency(printing: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of a currency sign or name in a folded text: a symbol anywhere, letters only next to a
    number."""
    one = re.escape(printing).replace(r"\ ", r"\s")
    if printing[-1] in SYMBOLS:
        # Up to three letters before a symbol make a different currency: CA$.
        pattern = rf"(?<![^\W\d_]){one}" if printing[:-1] else rf"(?:(?<![^\W\d_])|(?<=[^\W\d_]{{4}})){one}"
    elif printing.upper() in _ISO_CODES:
        pattern = rf"(?<![^\W\d_]){one}(?![^\W\d_])"
    else:
        pattern = rf"(?:(?<=\d)|(?<=\d\s)){one}(?![^\W_])|(?<![^\W_]){one}(?=[.:]?\s?[-(]?\d)"
    return (found.span() for found in islice(re.finditer(pattern, text), _MAX_MATCHES))


def currencies_in(text: str) -> set[Codes]:
    """Return the currencies of a folded text: symbols anywhere, and letters next to a number or alone in brackets."""
    printed = [one[0] for one in _ANY_SYMBOL.finditer(text)]
    printed += [one["after"] or one["before"] for one in _currency_letters_pattern().finditer(text)]
    return {codes for one in set(printed) if (codes := codes_of(one))}


def declared_currencies(text: str) -> set[Codes]:
    """Return the currencies that a folded text states for all its amounts: `All amounts in USD`, `Currency: EUR`."""
    found = {codes_of(one[1] or one[2]) for one in islice(_DECLARED_CURRENCY.finditer(text), _MAX_MATCHES)}
    return {codes for codes in found if codes}


def heading_currencies(text: str) -> set[Codes]:
    """Return the currencies that a folded column heading names: `Betrag USD`, `Amount ($)`."""
    words = (word.strip("()[],:.") for word in text.split())
    return {
        codes
        for word in words
        if (word.upper() in _ISO_CODES or word[-1:] in SYMBOLS) and word not in _AMBIGUOUS_CURRENCY_WORDS
        if (codes := codes_of(word))
    }


@cache
def _scale_pattern() -> re.Pattern[str]:
    groups = "|".join(f"(?P<p{places}>{words})" for words, places in _SCALED_SYMBOLS)
    return re.compile(rf"(?<![^\W_])(?:{groups})(?![^\W_])")


@cache
def _declared_scale_pattern() -> re.Pattern[str]:
    groups = "|".join(f"(?P<p{places}>{words})" for words, places in _SCALED_SYMBOLS)
    money = rf"(?:[a-z]{{3}}|[{SYMBOLS}]|euros?|us dollars?|dollars?)"
    return re.compile(
        rf"(?:[(\[]|(?<![^\W_])(?:amounts|figures|values|expressed|stated|shown|reported|presented|betrage|angaben|zahlen"
        rf"|werte|montants|exprimes?|importi|importes|bedragen|belopp|单位|単位|단위) ?:? ?(?:are |sind )?)"
        rf"(?:(?:all )?(?:amounts |figures )?(?:in|en|i) )?(?:{money} )?(?:{groups})(?![^\W_])"
        rf"|(?<![^\W_]){money} in (?:{groups.replace('?P<p', '?P<q')})(?![^\W_])"
    )


def _places(found: Iterable[re.Match[str]]) -> set[int]:
    return {int(one.lastgroup[1:]) for one in islice(found, _MAX_MATCHES) if one.lastgroup}


def heading_scale(text: str) -> int:
    """Return by how many places a folded heading, such as `Revenue (TEUR)` or `£m`, shifts the decimal point of the
    numbers below it; 0 if it names no scale, or several."""
    places = _places(_scale_pattern().finditer(text))
    return places.pop() if len(places) == 1 else 0


def declared_scales(text: str) -> list[tuple[int, int, bool]]:
    """Return where a folded text states a scale for its amounts, such as `(in thousands of EUR)`: the offset, the
    places of the decimal point, and whether it names all amounts and not only those below it."""
    return [
        (one.start(), int(one.lastgroup[1:]), one[0][0] not in "([")
        for one in islice(_declared_scale_pattern().finditer(text), _MAX_MATCHES)
        if one.lastgroup
    ]


def named_in_key(words: Sequence[str]) -> tuple[set[Codes], set[str]]:
    """Return the currencies and units that the folded words of a field's key name: `qty_kg`, `amountUsd`."""
    if "per" in words:
        return set(), set()
    sure = [word for word in words if word not in _AMBIGUOUS_UNIT_WORDS | _AMBIGUOUS_CURRENCY_WORDS]
    currencies = {frozenset({word.upper()}) for word in sure if word.upper() in _ISO_CODES}
    return currencies, {UNIT_OF[word] for word in sure if word in UNIT_OF}


def names_currency(currency: Codes, text: str) -> bool:
    """Return whether a folded text contains a currency code as a separate word."""
    words = [code.lower() for code in currency if code.lower() not in _AMBIGUOUS_CURRENCY_WORDS]
    return bool(words) and re.search(rf"(?<![^\W_]){any_of(words)}(?![^\W_])", text) is not None


def column_units(text: str) -> set[str]:
    """Return the units that a folded text names apart from any number, as a column heading does: `Weight (lb)`."""
    return {
        UNIT_OF[one["bracketed"] or one["unit"]]
        for one in islice(_column_unit_pattern().finditer(text), _MAX_MATCHES)
        if one["bracketed"] or one["unit"] not in _AMBIGUOUS_UNIT_WORDS
    }
