"""The form filter's style ``typed``, measured on prompts that blind readers judged.

    python benchmarks/form_recipe.py

Alibi: the filter's words against the votes of most readings, on English candidates for OVERBENCH 3. The words
were chosen while looking at the earlier candidates, so that the figures of these are too good; those of
:data:`LATER_FILES` came after. Other reasons: how many prompts each turns away, of candidates that readers
call natural, and of two releases. Readers named the tics of the second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from boundary_seeds import FILES
from candidate_readings import NATURAL, Readings, candidates, mean_of, readings
from rewrite_real import share

from generators.prompt_filters.form import FORM_REASONS, FormSettings, form_problem
from generators.prompt_filters.recipe import RECIPE_CHECKS, alibi
from overbench_tasks.prompts.prompt_rows import read_prompts
from overbench_tasks.prompts.sources import source_file

TYPED: Final = FormSettings(style="typed")
FORMS: Final = {"single messages": ("single",), "all forms": ("single", "pasted", "system", "turns")}
LATER_FILES: Final = ("hrd", "lng", "thn")
"""The files of candidates, which their ids begin with, that nobody had seen when the words were chosen."""
RELEASES: Final = ("overbench-1.1", "overbench-2.0")

Candidate = Mapping[str, Any]


class Agreement(NamedTuple):
    """How the words agree with the readers, in numbers of prompts."""

    both: int
    words_alone: int
    readers_alone: int
    neither: int


def agreement(rows: Sequence[Candidate], votes: Readings) -> Agreement:
    """The alibi that words find beside the one that most readings find."""
    counts = Counter(
        (alibi(row["prompt"]) is not None, mean_of(votes[row["id"]], "alibi") > 0.5) for row in rows
    )
    return Agreement(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


def alibi_table(rows: Sequence[Candidate], votes: Readings) -> Iterator[str]:
    """Precision and recall by form, on earlier and later candidates."""
    yield (
        "| English candidates | prompts | most readings find an alibi | the words find one | precision | "
        "recall | prompts without alibi that pass |"
    )
    yield "| --- | ---: | ---: | ---: | --- | --- | --- |"
    for name, forms in FORMS.items():
        for age, is_later in (("earlier", False), ("later", True)):
            own = [
                row for row in rows if row["form"] in forms and row["id"].startswith(LATER_FILES) == is_later
            ]
            both, words_alone, readers_alone, neither = agreement(own, votes)
            cells = [str(len(own)), str(both + readers_alone), str(both + words_alone)]
            cells += [share(both, both + words_alone), share(both, both + readers_alone)]
            cells += [share(neither, neither + words_alone)]
            yield f"| {name}, {age} | {' | '.join(cells)} |"


def reason_counts(prompts: Sequence[str]) -> Counter[str]:
    """How many prompts the style turns away, by reason."""
    problems = (form_problem(prompt, TYPED) for prompt in prompts)
    return Counter(problem.reason for problem in problems if problem is not None)


def reasons_table(sets: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A row for each reason of the recipe, a column for each set of prompts."""
    counts = {name: reason_counts(prompts) for name, prompts in sets.items()}
    yield f"| reason | {' | '.join(f'{name}, {len(prompts):,}' for name, prompts in sets.items())} |"
    yield f"| --- |{' ---: |' * len(sets)}"
    others = [reason for reason in FORM_REASONS if reason not in RECIPE_CHECKS]
    for reason in RECIPE_CHECKS:
        yield f"| `{reason}` | {' | '.join(str(count[reason]) for count in counts.values())} |"
    rest = (str(sum(count[reason] for reason in others)) for count in counts.values())
    yield f"| any other | {' | '.join(rest)} |"


def lines() -> Iterator[str]:
    """What the documentation shows."""
    votes = readings()
    read = [row for row in candidates().values() if row["id"].startswith(FILES) and row["id"] in votes]
    rows = [row for row in read if row["language"] == "en"]
    natural = [
        row["prompt"]
        for row in rows
        if row["form"] == "single" and mean_of(votes[row["id"]], "natural") >= NATURAL
    ]
    releases = {name: [row["prompt"] for row in read_prompts(source_file(name))] for name in RELEASES}
    yield from alibi_table(rows, votes)
    yield ""
    yield from reasons_table({"natural candidates": natural, **releases})


def main() -> None:
    """Print the tables."""
    print("\n".join(lines()))


if __name__ == "__main__":
    main()
