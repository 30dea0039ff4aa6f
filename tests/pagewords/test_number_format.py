from __future__ import annotations

import datetime

import pytest

from pagewords.number_format import contains_value, format_value

DAY = datetime.datetime(2024, 3, 12, 14, 5, 9)
ACCOUNTING = '_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-'


@pytest.mark.parametrize(
    ("value", "number_format", "shown"),
    [
        (0.19, "0%", "19%"),
        (0.195, "0.00%", "19.50%"),
        (4711, "00000000", "00004711"),
        (1234.5, '#,##0.00 "EUR"', "1,234.50 EUR"),
        (1234.5, "#,##0.00\\ [$€-407]", "1,234.50 €"),
        (-5, "0.00;[Red]0.00", "5.00"),
        (-5, "0.00;[Red]-0.00", "-5.00"),
        (-1234.5, "#,##0.00_);(#,##0.00)", "(1,234.50)"),
        (-1234, ACCOUNTING, "-1,234.00 €"),
        (0, ACCOUNTING, "- €"),
        (1234567, "#,##0,", "1,235"),
        (1234567, '0.0,,"M"', "1.2M"),
        (0, "0;;", ""),
        (-5, "0;;0", ""),
        (0.5, "# ?/?", "1/2"),
        (2.25, "# ??/??", "2 1/4"),
        (1.75, "# ?/8", "1 6/8"),
        (123456789, "000-00-0000", "123-45-6789"),
        (5551234567, "(000) 000-0000", "(555) 123-4567"),
        (12345, "0.00E+00", "1.23E+04"),
        (0.000123, "##0.0E+0", "123.0E-6"),
        (0.1 + 0.2, "General", "0.3"),
        (5, 'General "kg"', "5 kg"),
        (0.5, "#.00", ".50"),
        (1234.5678, "0.0#", "1234.57"),
        (1.005, "0.00", "1.01"),
        (-0.001, "0.00", "0.00"),
        (50, '[<10]"low "0;[>=10]"high "0', "high 50"),
        ("4711", '"ID-"@', "ID-4711"),
        ("x", "0;-0;0", "x"),
        ("x", "0;0;0;", ""),
        (True, "0", "TRUE"),
        (DAY, "dd.mm.yyyy", "12.03.2024"),
        (DAY, "ddd d-mmm-yy", "Tue 12-Mar-24"),
        (DAY, "h:mm AM/PM", "2:05 PM"),
        (DAY, "yyyy-mm-dd hh:mm:ss", "2024-03-12 14:05:09"),
        (DAY, "mm-dd-yy", "2024-03-12 14:05:09"),  # format 14 depends on the user's locale
        (DAY, "[$-407]d. mmmm yyyy", "2024-03-12 14:05:09"),  # German month names are not supported
        (datetime.timedelta(hours=30, minutes=5), "[h]:mm", "30:05"),
        (datetime.time(9, 30), "hh:mm", "09:30"),
        (5, "0" * 600, "5"),
        (5, "%" * 400 + "0", "%" * 400 + "5" + "0" * 800),
    ],
)  # fmt: skip
def test_value_is_formatted_by_its_number_format(value: object, number_format: str, shown: str) -> None:
    assert " ".join(format_value(value, number_format).split()) == shown


@pytest.mark.parametrize(
    ("shown", "value", "same"),
    [
        ("1,234.50 EUR", 1234.5, True),
        ("(1,234.50)", -1234.5, True),
        ("$ 5", 5, True),
        ("19%", 0.19, False),
        ("00004711", 4711, False),
        ("5.00", -5, False),
        ("1,235", 1234567, False),
        ("(555) 123-4567", 5551234567, False),
        ("12.03.2024", DAY, False),
        ("ID-4711", "4711", True),
    ],
)
def test_stored_value_is_repeated_unless_the_shown_text_contains_it(shown: str, value: object, same: bool) -> None:
    assert contains_value(shown, value) == same
