"""A comparison for people and programs: lines for a terminal, Markdown for a pull request, JSON, JUnit XML.

Names, categories, words and prompts are strangers' text: each form disarms them in its own way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Final
from xml.etree import ElementTree

from overbench.compare.changes import WORD_KINDS, GroupChange, MeasuredChange, PromptPair, RepeatNoise
from overbench.compare.decision import Decision, TargetComparison
from overbench_tasks.metrics import Rate
from overbench_tasks.text import escaped, number_of, printable

MOST_GROUPS: Final = 10
"""Of each kind, in the tables for people; JSON has all."""
MOST_PROMPTS: Final = 5
SHOWN_CHARS: Final = 120
MIN_REPEATED: Final = 20
"""Prompts with several replies, from which the noise of a target is told. JSON has it of any."""

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COLUMNS: Final = (
    "Metric", "Prompts", "n", "BASE", "NEW", "Increase", "95 % interval",
    "only BASE", "only NEW", "p", "p (Holm)",
)  # fmt: skip
_STATES: Final = {
    "worse": "got worse",
    "not_worse": "did not get worse",
    "not_shown_worse": "not shown to have got worse",
    "cannot_tell": "the data can't tell",
    "not_measured": "not measured",
}

Disarm = Callable[[str], str]


def terminal_lines(found: TargetComparison) -> list[str]:
    """The comparison for a terminal."""
    return [*_lines(found, printable, ""), "", f"Exit code {found.exit_code}."]


def markdown_page(found: TargetComparison) -> str:
    """The comparison for a pull request."""
    verdicts = "; ".join(f"{one.found.measure.title} {_STATES[one.state]}" for one in found.decisions)
    return "\n".join([f"### {verdicts[:1].upper()}{verdicts[1:]}", "", *_lines(found, escaped, "- ")]) + "\n"


def _lines(found: TargetComparison, disarm: Disarm, bullet: str) -> Iterator[str]:
    base, new = found.shown
    yield f"{bullet}BASE: {disarm(base)}"
    yield f"{bullet}NEW: {disarm(new)}"
    yield ""
    measured = [one for one in found.decisions if one.overall.n]
    if measured:
        yield _table(measured, disarm)
    for one in found.decisions:
        yield f"{bullet}{disarm(_sentence(one))}"
    for one in measured:
        for name, noise in zip(("BASE", "NEW"), one.found.noise, strict=True):
            if noise is not None and noise.prompts >= MIN_REPEATED:
                yield f"{bullet}{disarm(_noise(one, name, noise))}"
    yield from (f"{bullet}{disarm(note)}" for note in found.notes)
    for one in measured:
        yield from _examples(one, disarm)


def _sentence(one: Decision) -> str:
    title = one.found.measure.title.capitalize()
    return f"{title}: {_STATES[one.state]}. {one.why}"


def _noise(one: Decision, name: str, noise: RepeatNoise) -> str:
    return (
        f"{name} against itself, from {number_of(noise.prompts, 'prompt')} with several replies: of two "
        f"replies only one is {one.found.measure.verb} on {noise.disagreement:.4f} of them; 95 % of the "
        f"differences between two such runs lie within ±{noise.difference:.4f}."
    )


def _examples(one: Decision, disarm: Disarm) -> Iterator[str]:
    """Of the prompts on which NEW does more of what is measured."""
    newly = newly_counted(one.found)
    if not newly:
        return
    yield ""
    shown = min(MOST_PROMPTS, len(newly))
    verb = one.found.measure.verb.capitalize()
    yield f"{verb} by NEW and not, or less often, by BASE, {shown:,} of {len(newly):,}:"
    yield ""
    yield from (f"- {disarm(printable(pair.prompt)[:SHOWN_CHARS])}" for pair in newly[:shown])


def newly_counted(found: MeasuredChange) -> list[PromptPair]:
    """The prompts whose share rose, those that rose most first, else in BASE's order."""
    risen = [pair for pair in found.pairs if pair.new > pair.base]
    return sorted(risen, key=lambda pair: pair.base - pair.new)


def shown_groups(found: MeasuredChange) -> list[GroupChange]:
    """The first of each kind; of words only those with a rise."""
    by_kind: dict[str, list[GroupChange]] = {}
    for one in found.groups:
        if one.kind not in WORD_KINDS or one.increase > 0:
            by_kind.setdefault(one.kind, []).append(one)
    return [one for some in by_kind.values() for one in some[:MOST_GROUPS]]


def _table(decisions: list[Decision], disarm: Disarm) -> str:
    """In the form of lm-eval's own."""
    from pytablewriter import MarkdownTableWriter
    from pytablewriter.style import Align, Style

    rows = []
    for one in decisions:
        metric = f"{one.found.measure.name} ↓"
        for change in [one.overall, *shown_groups(one.found)]:
            name = "all" if change.kind == "all" else f"{change.kind}: {disarm(change.name[:SHOWN_CHARS])}"
            rows.append([metric, name.replace("|", "¦") if disarm is printable else name, *_figures(change)])
            metric = ""
    right = [Style(align=Align.LEFT)] * 2 + [Style(align=Align.RIGHT)] * (len(_COLUMNS) - 2)
    writer = MarkdownTableWriter(
        headers=list(_COLUMNS), value_matrix=rows, column_styles=right, type_hints=["str"] * len(_COLUMNS)
    )
    return str(writer.dumps())


def _figures(change: GroupChange) -> list[str]:
    low, high = change.interval
    return [
        f"{change.n:,}",
        f"{change.base.value:.4f}",
        f"{change.new.value:.4f}",
        f"{change.increase:+.4f}",
        f"[{low:+.4f}, {high:+.4f}]",
        *(
            f"{count:,.0f}" if count == round(count) else f"{count:,.1f}"
            for count in (change.only_base, change.only_new)
        ),
        *(
            "" if math.isnan(p) else "<0.0001" if p < 0.0001 else f"{p:.4f}"
            for p in (change.p, change.p_holm)
        ),
    ]


def as_json(found: TargetComparison) -> dict[str, Any]:
    """The comparison for a program: rates in [0, 1], null for what has no value."""
    return {
        "base": found.base,
        "new": found.new,
        "exit_code": found.exit_code,
        "settings": found.settings.model_dump(),
        "notes": list(found.notes),
        "measures": {one.found.measure.name: _measure_json(one) for one in found.decisions},
    }


def _measure_json(one: Decision) -> dict[str, Any]:
    asked, unscored = one.found.asked, one.found.unscored
    return {
        "state": one.state,
        "why": one.why,
        "asked": {"base": asked[0], "new": asked[1], "both": asked[2]},
        "unscored": {"base": unscored[0], "new": unscored[1]},
        **_change_json(one.overall),
        "groups": [
            {"kind": group.kind, "name": group.name, **_change_json(group)} for group in one.found.groups
        ],
        "noise": {
            name: None if noise is None else asdict(noise)
            for name, noise in zip(("base", "new"), one.found.noise, strict=True)
        },
        "risen": [pair.prompt for pair in newly_counted(one.found)],
    }


def _change_json(change: GroupChange) -> dict[str, Any]:
    def rate(of: Rate) -> dict[str, Any]:
        return {"value": _number(of.value), "ci95": [_number(of.low), _number(of.high)]}

    return {
        "n": change.n,
        "base": rate(change.base),
        "new": rate(change.new),
        "increase": _number(change.increase),
        "increase_ci95": [_number(end) for end in change.interval],
        "only_base": change.only_base,
        "only_new": change.only_new,
        "p": _number(change.p),
        "p_holm": _number(change.p_holm),
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def junit_xml(found: TargetComparison) -> str:
    """A test case for each measure: a failure where it got worse, an error where the data can't tell."""
    states = [one.state for one in found.decisions]
    suite = ElementTree.Element(
        "testsuite",
        name=xml_text(f"overbench compare: {' -> '.join(found.shown)}"),
        tests=str(len(states)),
        failures=str(states.count("worse")),
        errors=str(states.count("cannot_tell")),
        skipped=str(states.count("not_measured")),
    )
    results = {"worse": "failure", "cannot_tell": "error", "not_measured": "skipped"}
    for one in found.decisions:
        measure = one.found.measure
        case = ElementTree.SubElement(suite, "testcase", classname="overbench.compare", name=measure.title)
        if one.state in results:
            told = ElementTree.SubElement(case, results[one.state], message=xml_text(_sentence(one)))
            told.text = xml_text(_table([one], printable)) if one.overall.n else None
    output = ElementTree.SubElement(suite, "system-out")
    output.text = xml_text("\n".join(terminal_lines(found)))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def xml_text(text: str) -> str:
    """Text that XML 1.0 can hold, every other character as U+FFFD; the writer escapes the rest."""
    return _NOT_IN_XML.sub("\ufffd", text)
