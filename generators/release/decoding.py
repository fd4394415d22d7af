"""Whether all replies of one target were made with the same decoding settings.

A target's name does not tell how its replies were decoded, so logs with 64 and with 512 new tokens fall into
one target. That may be meant (a cut-off reply asked again), but must not go unseen: replies that were cut
short, or drawn at random, are labelled differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from generators.release.release_inputs import Log, PromptSource
from generators.targets.naming import Aliases

Differences = dict[str, dict[str, list[Any]]]
"""target -> setting -> its values, in the order in which they were met; None: a log does not set it."""

_TOKENS: Final = "max_gen_toks"


def differences(logs: Sequence[Log], sources: Sequence[PromptSource], aliases: Aliases) -> Differences:
    """The decoding settings in which the replies of a target differ.

    Compared are all settings of lm-eval's ``generation_kwargs`` between logs, and of refresh runs and earlier
    releases the number of new tokens, where they tell it.

    Returns:
        those targets and settings that differ only, by name.
    """
    seen: Differences = {}
    complete: dict[str, list[Mapping[str, Any]]] = {}
    for log in logs:
        complete.setdefault(log.target.target, []).append(log.run.generation)
    for target, told in complete.items():
        names = sorted({name for one in told for name in one})
        seen[target] = {name: _distinct(one.get(name) for one in told) for name in names}
    for target, tokens in _known_tokens(sources, aliases):
        values = seen.setdefault(target, {}).setdefault(_TOKENS, [])
        values[:] = _distinct([*values, tokens])
    found = {
        target: {name: values for name, values in settings.items() if len(values) > 1}
        for target, settings in sorted(seen.items())
    }
    return {target: settings for target, settings in found.items() if settings}


def _known_tokens(sources: Iterable[PromptSource], aliases: Aliases) -> list[tuple[str, int]]:
    targets = [source.target for source in sources if source.target]
    for source in sources:
        if source.release is not None:
            targets += [aliases.target(target) for target in source.release.targets()]
    return [(one.target, one.max_gen_toks) for one in targets if one.max_gen_toks is not None]


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Without repetition; 0 and 0.0 are one, and lists are compared as well."""
    distinct: list[Any] = []
    for value in values:
        if value not in distinct:
            distinct.append(value)
    return distinct


def described(settings: Mapping[str, Sequence[Any]]) -> str:
    """``max_gen_toks (64, 128); temperature (not set, 0.7)``."""
    return "; ".join(
        f"{name} ({', '.join('not set' if value is None else str(value) for value in values)})"
        for name, values in settings.items()
    )


def notes(found: Differences) -> list[str]:
    """What to tell people, a line per target."""
    return [
        f"The replies of {target} were made with different decoding settings: {described(settings)}. They "
        "count as one target's. Unless that is meant, leave out the logs of all settings but one."
        for target, settings in found.items()
    ]
