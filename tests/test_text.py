"""Numbers with their nouns; what disarms hostile text is tested where it is used."""

from __future__ import annotations

import pytest

from overbench_tasks.text import number_of


@pytest.mark.parametrize(
    ("number", "forms", "text"),
    [
        (0, ("prompt",), "0 prompts"),
        (1, ("prompt",), "1 prompt"),
        (2, ("seed prompt",), "2 seed prompts"),
        (1, ("reply",), "1 reply"),
        (1234, ("reply",), "1,234 replies"),
        (2, ("day",), "2 days"),
        (1, ("half", "halves"), "1 half"),
        (3, ("half", "halves"), "3 halves"),
        (1, ("row is", "rows are"), "1 row is"),
        (0, ("row is", "rows are"), "0 rows are"),
    ],
)
def test_a_number_agrees_with_its_noun(number: int, forms: tuple[str, ...], text: str) -> None:
    assert number_of(number, *forms) == text
