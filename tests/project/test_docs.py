"""The documentation says what is there: links, paths, and the pages that are drawn from code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import campaign_paper
import campaign_scale
import pytest
from test_plan import GENERATORS, OVERBENCH, OVERBENCH_TASKS, REPOSITORY

from overbench_tasks.labellers.classifier import ClassifierSettings
from overbench_tasks.labellers.judge import JudgeSettings

FOLDERS = ("docs", "overbench_tasks", "generators", "overbench", "task_configs", "tests", "benchmarks")
DOCS = [*REPOSITORY.glob("*.md"), *(file for name in FOLDERS for file in (REPOSITORY / name).rglob("*.md"))]
STAND_FOR_ANY = {
    "generators/prompt_filters/NAME.py",
    "overbench/report/sections/NAME_section.py",
    "overbench_tasks/labellers/NAME.py",
    "task_configs/NAME.yaml",
}


def block(file: str, name: str) -> list[str]:
    """The lines between ``<!-- name -->`` and ``<!-- /name -->``."""
    text = (REPOSITORY / file).read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
    assert found is not None, f"{file} has no block {name!r}"
    return found[1].splitlines()


def drawn_plan() -> Iterator[str]:
    """The tables of the plan on one page, overbench_tasks last."""
    yield "```"
    for package, rows, below in (("overbench", OVERBENCH, "generators and "), ("generators", GENERATORS, "")):
        yield f"{package + '/':<18} a part may use the rows below its own, and all of {below}overbench_tasks"
        for parts in reversed(rows):
            yield f"  {', '.join(parts)}"
        yield ""
    yield "overbench_tasks/   a part may use those beside it"
    for part, others in reversed(OVERBENCH_TASKS.items()):
        yield f"  {part:<17}{', '.join(others)}".rstrip()
    yield "```"


def test_the_plan_stands_in_contributing() -> None:
    assert block("CONTRIBUTING.md", "plan") == list(drawn_plan()), "\n".join(drawn_plan())


def test_the_pages_of_a_large_campaign_are_what_was_kept() -> None:
    page = "docs/measurements/campaign.md"
    assert "\n".join(block(page, "campaign scale")) == campaign_scale.kept_tables()
    assert block(page, "paper's campaign") == campaign_paper.paper_table(campaign_paper.Rates())


def test_the_readme_is_short() -> None:
    """In words: a limit on lines makes long lines."""
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").split()) <= 2100


def headings(file: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.casefold()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("file", DOCS, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_links_and_paths_lead_somewhere(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    wrong = []
    for link in re.findall(r"\]\(<?([^)>]+)>?\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path) if path else file
        if not target.exists() or (anchor and anchor not in headings(target)):
            wrong.append(link)
    inline = re.findall(
        r"`((?:overbench_tasks|generators|overbench|tests|task_configs|\.ci)/[\w./*-]*)`", text
    )
    wrong += [
        path for path in inline if path not in STAND_FOR_ANY and not list(REPOSITORY.glob(path.rstrip("/")))
    ]
    assert wrong == []


def test_the_scripts_of_the_benchmarks_are_listed() -> None:
    text = (REPOSITORY / "benchmarks/README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+\.py)`", text, re.MULTILINE)
    assert sorted(listed) == sorted(file.name for file in (REPOSITORY / "benchmarks").glob("*.py"))


def test_the_tables_of_settings_are_the_settings() -> None:
    """Of the judge with its defaults, of the classifier by name."""
    text = (REPOSITORY / "docs/background/judge.md").read_text(encoding="utf-8")
    judge, classifier = (
        text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        for heading in ("Settings of the judge", "A refusal detector as labeller")
    )
    row = re.compile(r"^\| `(\w+)` \| (.*?) \|", re.MULTILINE)
    assert sorted((name, default.strip("`").casefold()) for name, default in row.findall(judge)) == sorted(
        (name, str(field.get_default(call_default_factory=True)).casefold())
        for name, field in JudgeSettings.model_fields.items()
    )
    assert dict(row.findall(classifier)).keys() == ClassifierSettings.model_fields.keys()
