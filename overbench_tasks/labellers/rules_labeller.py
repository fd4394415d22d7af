"""The labeller ``rules``: phrases and conditions, with no model. See :mod:`overbench_tasks.refusal`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from overbench_tasks.labellers.labeller import Labeller, LabellerKind, no_settings
from overbench_tasks.records import Pair, Verdict
from overbench_tasks.refusal import RULES_VERSION, label_reply

VERSIONS: Final = {"overbench_rules_version": RULES_VERSION}


def label_by_rules(pairs: Sequence[Pair]) -> list[Verdict]:
    """The rules as a :data:`~overbench_tasks.records.LabelReplies`."""
    return [label_reply(reply, prompt=prompt) for prompt, reply in pairs]


KIND: Final[LabellerKind] = LabellerKind(
    name="rules",
    name_format="rules {overbench_rules_version}",
    read_settings=no_settings("rules"),
    make=lambda settings: Labeller(KIND.name_of(VERSIONS), label_by_rules, versions=VERSIONS),
    filter="rules",
    detects_evasion=True,
    before_evasion=("0.", "1.", "2."),  # rules 3.0 brought stock evasions; the share is a lower bound
    in_processes=True,
)
