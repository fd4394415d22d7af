"""The check for contamination on real checkpoints: the page shows what the script prints."""

from __future__ import annotations

from pathlib import Path

from contamination import BASE, OLDER, TUNED_ON, kept_advantages, table

from overbench.contamination.contamination import Finding, assess


def test_the_copy_that_was_tuned_on_the_prompts_is_found_and_no_other_checkpoint() -> None:
    findings = {
        checkpoint: assess(list(advantages.values())).finding
        for checkpoint, advantages in kept_advantages().items()
    }
    found = [checkpoint for checkpoint, finding in findings.items() if finding is Finding.FOUND]
    assert found == ["SmolLM2-135M, tuned on them"]
    assert {*OLDER.values(), f"SmolLM2-135M, tuned on {TUNED_ON} others"} <= findings.keys()
    assert findings[OLDER[BASE]] is Finding.NOT_FOUND


def test_the_page_has_what_the_script_prints() -> None:
    page = Path(__file__).parents[2] / "docs" / "measurements" / "contamination.md"
    assert "\n".join(table(kept_advantages())) in page.read_text(encoding="utf-8")
