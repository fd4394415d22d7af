"""What a report says: its sections, from the numbers of :mod:`generators.release`."""

from __future__ import annotations

from collections.abc import Mapping

from generators.report.report_inputs import Inputs
from generators.report.sections.comparison_sections import significance_section, transfer_section
from generators.report.sections.prompt_sections import prompts_section
from generators.report.sections.rate_sections import categories_section, features_section, rates_section
from generators.report.sections.run_sections import labels_section, release_section, settings_section
from generators.report.sections.section import Report, highest_first, set_name, short_names
from generators.report.stats.rates import osr


def build(inputs: Inputs, title: str = "OVERBENCH report") -> Report:
    """Everything that ``inputs`` allow to be said; a section without data is left out."""
    names = short_names(inputs)
    main = inputs.sets[0]
    sections = [
        rates_section(inputs, names),
        features_section(main, names),
        categories_section(inputs, names),
        transfer_section(inputs, names),
        significance_section(main, names),
        prompts_section(inputs, names),
        labels_section(inputs, names),
        settings_section(inputs, names),
        release_section(inputs),
    ]
    notes = list(inputs.notes)
    if not any(main.matrix.source_targets):
        notes.append(
            "For which model each prompt was made is not in these logs, so transfer and leave-source-out "
            "rates are left out. They need a release: overbench aggregate."
        )
    return Report(title, _lead(inputs, names), tuple(notes), tuple(filter(None, sections)))


def _lead(inputs: Inputs, names: Mapping[str, str]) -> tuple[str, ...]:
    main = inputs.sets[0]
    rates = {target: rate for target, rate in osr(main.matrix).items() if rate.n}
    lead = [
        f"{len(main.matrix.targets)} models on harmless prompts: "
        f"{', '.join(set_name(one) for one in inputs.sets)}. Made from {', '.join(inputs.sources)}."
    ]
    if rates:
        order = highest_first(rates)
        told = [
            f"{names[target]}, {100 * rates[target].value:.1f} %"
            for target in dict.fromkeys((order[0], order[-1]))
        ]
        lead.append(
            f"Highest oversensitivity rate on {main.name}: {told[0]}"
            + (f"; lowest: {told[1]}." if len(told) > 1 else ".")
        )
    return tuple(lead)
