"""The documentation says what is there: links, paths, and the pages that are drawn from code."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import campaign_paper
import campaign_scale
import pytest
from test_plan import GENERATORS, OVERBENCH, OVERBENCH_TASKS, REPOSITORY

from overbench.compare.decision import CANNOT_TELL, WORSE
from overbench.report.sections import prompts_section
from overbench.review.label_quality import read_label_quality
from overbench_tasks.chat.batch_files import BatchPending
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.classifier import ClassifierSettings
from overbench_tasks.labellers.judge import JudgeSettings
from overbench_tasks.refusal import RULES_VERSION

sys.path.append(str(REPOSITORY / "docs"))
import make_reference

FOLDERS = ("docs", "overbench_tasks", "generators", "overbench", "task_configs", "tests", "benchmarks")
DOCS = [*REPOSITORY.glob("*.md"), *(file for name in FOLDERS for file in (REPOSITORY / name).rglob("*.md"))]
PLAIN = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
PLAIN += [*sorted((REPOSITORY / "docs" / "how-to").glob("*.md"))]
PLAIN += [*sorted((REPOSITORY / "docs" / "background").glob("*.md"))]
PLAIN.remove(REPOSITORY / "docs" / "background" / "glossary.md")  # a table
PLAIN += [*sorted((REPOSITORY / "docs" / "measurements").glob("*.md"))]
"""The pages whose sentences are measured."""
PUBLISHED = (
    "overbench_tasks/data",
    "benchmarks/data/release_v1/about.md",
    "benchmarks/data/release_v1/shown_in_round_2.md",
    "benchmarks/data/release_v2/about.md",
    "benchmarks/data/release_v2/categories.md",
    "benchmarks/data/release_v2/reading.md",
    "benchmarks/data/release_v2/report",
    "benchmarks/data/release_v2/writing.md",
    "benchmarks/data/release_v3/about.md",
    "benchmarks/data/release_v3/report",
    "tests/data/made_by_0.1",
)
"""Cards and reports of releases, held to their sums, and what their writers and readers were told."""
WRAPPED = [file for file in DOCS if not any(file.is_relative_to(REPOSITORY / name) for name in PUBLISHED)]
STAND_FOR_ANY = {
    "generators/prompt_filters/NAME.py",
    "overbench/guard/NAME_guard.py",
    "overbench/report/sections/NAME_section.py",
    "overbench_tasks/labellers/NAME.py",
    "task_configs/NAME.yaml",
}


def block(file: str, name: str) -> list[str]:
    """The lines between ``<!-- name -->`` and ``<!-- /name -->``."""
    text = (REPOSITORY / file).read_text(encoding="utf-8")
    match = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
    assert match is not None, f"{file} has no block {name!r}"
    return match[1].splitlines()


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


def test_the_readme_fits_two_screens() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 100 and len(text.split()) <= 700


def test_the_glossary_has_at_most_25_rows() -> None:
    text = (REPOSITORY / "docs/background/glossary.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\| ", text, re.MULTILINE)) - 2 <= 25


def prose(file: Path) -> list[str]:
    """The paragraphs and list items of a page, without code, tables, headings and the addresses of links."""
    text = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(#.*|\|.*|!\[.*|    .*)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^ *(?:[-*]|\d+\.) ", "\n", text, flags=re.MULTILINE)
    return [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]


def sentence_lengths(file: Path) -> list[tuple[int, str]]:
    """(words, sentence) of each sentence of a page's prose."""
    sentences = [
        sentence
        for paragraph in prose(file)
        for sentence in re.split(r"(?<=[.!?:])\**\s+(?=\S)", paragraph)
        if re.search(r"\w", sentence)
    ]
    return [(len(sentence.split()), sentence) for sentence in sentences]


@pytest.mark.parametrize("file", PLAIN, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_no_sentence_is_long(file: Path) -> None:
    """A sentence of more than 35 words has to be read twice."""
    lengths = sentence_lengths(file)
    assert lengths, "a page without a sentence"
    assert median(words for words, _ in lengths) <= 18
    assert [sentence for words, sentence in lengths if words > 35] == []


@pytest.mark.parametrize("file", WRAPPED, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_no_line_is_long(file: Path) -> None:
    """Outside tables, code and what a script writes behind its mark; a picture is one line."""
    text = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^<!-- .*? -->\n(.+\n)*", "", text, flags=re.MULTILINE)
    lines = [line for line in text.splitlines() if not line.startswith(("|", "![", "<!--"))]
    assert [line for line in lines if len(line) > 120] == []


def test_the_reference_pages_are_what_the_code_says() -> None:
    for name, make in make_reference.PAGES.items():
        kept = (REPOSITORY / "docs" / "reference" / name).read_text(encoding="utf-8")
        assert kept == make(), f"{name}: python docs/make_reference.py"


def test_every_metric_of_a_task_file_is_described_and_no_other() -> None:
    metrics = {
        make_reference.metric_name(entry["metric"])
        for task in make_reference.tasks()
        for entry in task["metric_list"]
    }
    assert metrics == make_reference.METRICS.keys()


def test_the_exit_codes_are_those_of_the_code() -> None:
    named = {OverbenchError.exit_code, BatchPending.exit_code, WORSE, CANNOT_TELL}
    assert named | {0, 130} == make_reference.EXIT_CODES.keys()


def test_the_site_has_every_page() -> None:
    shown = re.findall(r"^ *- ([\w/-]+\.md)$", (REPOSITORY / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    pages = [file.relative_to(REPOSITORY / "docs").as_posix() for file in (REPOSITORY / "docs").rglob("*.md")]
    assert sorted(shown) == sorted(pages)


def test_the_readme_says_how_good_the_rules_are_on_the_sets_that_people_labelled() -> None:
    figures = [
        measurement.figures()["f1"]
        for measurement in read_label_quality()
        if measurement.labeller == f"rules {RULES_VERSION}"
        and measurement.labelled_set.name.startswith("xstest-")
    ]
    text = " ".join((REPOSITORY / "README.md").read_text(encoding="utf-8").split())
    assert len(figures) == 3
    assert f"their F1 of refusal is {min(figures):.3f} to {max(figures):.3f}." in text


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


def test_the_page_on_reports_names_sections_as_the_report_does() -> None:
    page = (REPOSITORY / "docs/how-to/read-report.md").read_text(encoding="utf-8")
    report = (REPOSITORY / "benchmarks/data/release_v2/report/report.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (.*)$|^(Before .*):$", report, re.MULTILINE)
    section_titles = {title for pair in titles for title in pair} | {prompts_section.TITLE}
    assert set(re.findall(r"\*\*(.*?)\*\*", page)) <= section_titles


def test_the_scripts_of_the_benchmarks_are_listed() -> None:
    text = (REPOSITORY / "benchmarks/README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+\.py)`", text, re.MULTILINE)
    assert sorted(listed) == sorted(file.name for file in (REPOSITORY / "benchmarks").glob("*.py"))


def test_the_tables_of_settings_are_the_settings() -> None:
    """Of the judge with its defaults, of the classifier by name."""
    text = (REPOSITORY / "docs/background/judge.md").read_text(encoding="utf-8")
    judge, classifier = (
        text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        for heading in ("Settings of the judge", "A classifier as labeller")
    )
    row = re.compile(r"^\| `(\w+)` \| (.*?) \|", re.MULTILINE)
    assert sorted((name, default.strip("`").casefold()) for name, default in row.findall(judge)) == sorted(
        (name, str(field.get_default(call_default_factory=True)).casefold())
        for name, field in JudgeSettings.model_fields.items()
    )
    assert dict(row.findall(classifier)).keys() == ClassifierSettings.model_fields.keys()
