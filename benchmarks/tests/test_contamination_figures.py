"""The check for contamination on real checkpoints: the page shows what the script prints."""

from __future__ import annotations

from pathlib import Path

from contamination import OLDER, kept_advantages, table

from overbench.contamination.contamination import Finding, assess


def test_checkpoints_that_are_older_than_the_prompts_are_cleared() -> None:
    kept = kept_advantages()
    for checkpoint in OLDER.values():
        assert assess(kept[checkpoint]).finding is Finding.NOT_FOUND


def test_the_page_has_what_the_script_prints() -> None:
    page = Path(__file__).parents[2] / "docs" / "measurements" / "contamination.md"
    assert "\n".join(table(kept_advantages())) in page.read_text(encoding="utf-8")
