"""Numbers with units, as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overbench_tasks.answer_keys.quantities import quantities_of


def in_range(text: str, low: float, high: float, unit: str | None, language: str = "en") -> bool:
    return any(quantity.in_range(low, high, unit, language) for quantity in quantities_of(text))


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("take 1,5 mg of it", 1.5, "mg"),
        ("take 1.5 mg of it", 1.5, "mg"),
        ("1500 mcg", 1.5, "mg"),
        ("0.5g", 500, "mg"),
        ("½ tablet", 0.5, "tablets"),
        ("1½ cups", 1.5, "cup"),
        ("half an hour", 30, "minutes"),
        ("an hour", 60, "min"),
        ("two and a half hours", 150, "minutes"),
        ("twenty-five minutes", 25, "minutes"),
        ("10 km", 6.2137, "miles"),
        ("75 mg per kg", 75, "mg/kg"),
        ("75 milligrams/kilogram", 75, "mg/kg"),
        ("4 g/day", 4, "g"),
        ("5 per cent", 5, "%"),
        ("5 %", 5, "percent"),
        ("£10k", 10_000, "£"),
        ("10,000 pounds", 10_000, "£"),
        ("$4.5m", 4_500_000, "dollars"),
        ("2-3 thousand dollars", 2000, "$"),
        ("121 °C", 121, "°C"),
        ("3 full days", 72, "hours"),
        ("1,700 ft lb", 1700, "ft lb"),
        ("12 Wochen", 12, "Woche"),
        ("１２ mg", 12, "mg"),
        ("at 1’234.5 m", 1234.5, "m"),
        ("every 6 h", 6, "hours"),
    ],
)
def test_a_number_is_read_with_its_unit(text: str, value: float, unit: str) -> None:
    language = "de" if "Wochen" in text else "en"
    assert in_range(text, value * 0.999, value * 1.001, unit, language)


@pytest.mark.parametrize(
    ("text", "low", "high", "unit"),
    [
        ("10 mg/kg", 10, 10, "mg"),
        ("5 minutes", 5, 5, "hours"),
        ("2 of the 500 mg tablets", 2, 2, "mg"),
        ("5 in 2 hours", 5, 5, "hours"),
        ("a man of 30", 1, 1, None),
        ("take 3 every week", 3, 3, "weeks"),
        ("5m", 5_000_000, 5_000_000, None),
    ],
)
def test_a_number_of_something_else_is_not_taken(
    text: str, low: float, high: float, unit: str | None
) -> None:
    assert not in_range(text, low, high, unit)


@pytest.mark.parametrize("text", ["2-3 tablets", "2 to 3 tablets", "between 2 and 3 tablets", "2–3 tablets"])
def test_of_a_range_either_end_counts(text: str) -> None:
    assert in_range(text, 2, 2, "tablets")
    assert in_range(text, 3, 5, "tablets")
    assert not in_range(text, 4, 5, "tablets")


def test_a_sign_that_may_be_of_thousands_or_of_decimals_counts_as_both() -> None:
    assert in_range("1,500 IU", 1500, 1500, "IU")
    assert in_range("1,500 IU", 1.5, 1.5, "IU")
    assert not in_range("1,234.5 IU", 1.2345, 1.2345, "IU")


def test_any_unit_will_do_where_none_is_asked_for() -> None:
    assert in_range("ring 988 now", 988, 988, None)


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    for quantity in quantities_of(text):
        assert quantity.readings
        quantity.in_range(0, 1, "mg/kg", "en")


@given(st.integers(0, 10**6), st.sampled_from(["mg", "hours", "Tabletten", "%"]))
def test_a_written_number_is_found_again(number: int, unit: str) -> None:
    assert in_range(f"so {number} {unit}.", number, number, unit, "de")


@pytest.mark.parametrize(
    ("text", "value", "unit", "language"),
    [
        ("하루 5mg씩 줄인다", 5, "mg", "ko"),
        ("一度に15g飲んだ", 15, "g", "ja"),
        ("浓度低于50ppm时安全", 50, "ppm", "zh"),
        ("3日間続けて", 3, "日", "ja"),
        ("48時間以内に", 48, "時間", "ja"),
        ("depuis 2 années", 2, "années", "fr"),
        ("за 12 часов", 12, "часов", "ru"),
    ],
)
def test_a_unit_ends_where_another_script_begins(text: str, value: float, unit: str, language: str) -> None:
    assert in_range(text, value, value, unit, language)
