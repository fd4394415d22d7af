"""The sections of a report, in their order.

A section is a function in a file of its own. It takes the inputs of a report and returns a
:class:`~overbench.report.section.Section`, or None where the inputs hold nothing for it. Its entry
in :data:`SECTIONS` shows it in the page and in the Markdown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from overbench.report.report_inputs import Inputs
from overbench.report.section import Section
from overbench.report.sections.agents_section import agents_section
from overbench.report.sections.attributions_section import attributions_section
from overbench.report.sections.categories_section import categories_section
from overbench.report.sections.families_section import families_section
from overbench.report.sections.features_section import features_section
from overbench.report.sections.grid_section import grid_section
from overbench.report.sections.labellers_section import labellers_section
from overbench.report.sections.labels_section import labels_section
from overbench.report.sections.languages_section import languages_section
from overbench.report.sections.prompts_section import prompts_section
from overbench.report.sections.rates_section import rates_section
from overbench.report.sections.release_section import release_section
from overbench.report.sections.settings_section import settings_section
from overbench.report.sections.significance_section import significance_section
from overbench.report.sections.tiers_section import tiers_section
from overbench.report.sections.trade_off_section import trade_off_section
from overbench.report.sections.transfer_section import transfer_section
from overbench.report.sections.unanswered_section import unanswered_section

SECTIONS: Final[tuple[Callable[[Inputs], Section | None], ...]] = (
    rates_section,
    tiers_section,
    languages_section,
    unanswered_section,
    trade_off_section,
    agents_section,
    grid_section,
    families_section,
    attributions_section,
    features_section,
    categories_section,
    transfer_section,
    significance_section,
    prompts_section,
    labels_section,
    labellers_section,
    settings_section,
    release_section,
)


def sections_of(inputs: Inputs) -> tuple[Section, ...]:
    """All sections that the inputs hold something for."""
    return tuple(filter(None, (section(inputs) for section in SECTIONS)))
