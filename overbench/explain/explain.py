"""Why does this target refuse this prompt? The words and the sentences of its instruction that do it.

Each prompt is asked as it is; where it is refused, its words are taken out, one by one and then several at a
time (:mod:`overbench.explain.trigger_search`), and the target is asked again each time, within a budget of
calls. Prompts are explained side by side: what all of them want to know next goes to the backend together.

A search is told by the answers alone, and answers are on file as soon as they came: after an interruption it
takes the same steps again, and asks only what is new.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from generators.targets.target import Question
from overbench.explain.explain_settings import FIRST_ASKED, ExplainSettings
from overbench.explain.explanation import AskedState, Explanation, FoundTriggers, State
from overbench.explain.inquiry import Answer, Inquiry, TargetRequest
from overbench.explain.text_parts import (
    TextPart,
    candidates,
    rarest_first,
    sentences_of,
    without,
    words_of,
)
from overbench.explain.trigger_search import Removal, TriggerSearch

ASKED_AGAIN: Final = 5
"""Where the first two replies differ, so many, to tell how often."""
MOST_SENTENCES_ALONE: Final = 8
"""An instruction of more sentences is bisected at once: one is found by few calls, and others that would do
alone are not looked for."""


class PromptToExplain(NamedTuple):
    """A prompt by its id."""

    id: str
    prompt: str


Steps = Generator[list[TargetRequest], list[Answer], Explanation]


def explanations(
    prompts: Sequence[PromptToExplain], settings: ExplainSettings, inquiry: Inquiry
) -> Iterator[Explanation]:
    """An explanation of each prompt, as they come to their end; ``side_by_side`` of them are at work.

    Raises:
        OverbenchError: as :meth:`~overbench.explain.inquiry.Inquiry.answers`.
    """
    waiting = iter(prompts)
    working: list[tuple[Steps, list[TargetRequest]]] = []
    while True:
        for one in islice(waiting, settings.side_by_side - len(working)):
            steps = _PromptSteps(one, settings).steps()
            working.append((steps, next(steps)))
        if not working:
            return
        answers = iter(inquiry.answers([request for _, wanted in working for request in wanted]))
        still: list[tuple[Steps, list[TargetRequest]]] = []
        for steps, wanted in working:
            try:
                still.append((steps, steps.send(list(islice(answers, len(wanted))))))
            except StopIteration as ended:
                yield ended.value
        working = still


class _PromptSteps:
    """One prompt's way to its explanation: yields what it wants to know, is sent the answers."""

    def __init__(self, prompt: PromptToExplain, settings: ExplainSettings) -> None:
        self._id, self._prompt = prompt
        self._settings = settings
        self._instruction = settings.target.system_instruction
        self._seen: dict[TargetRequest, Answer] = {}
        self._repeated = 0
        self._openings: tuple[str, ...] = ()
        self._turned_below = 0.0

    @property
    def _calls(self) -> int:
        return self._counted(lambda one: one.times)

    def _counted(self, size: Callable[[TargetRequest], int]) -> int:
        # Asked five times, a question was asked twice before: the longer request holds the shorter one.
        most: dict[tuple[Question, tuple[str, ...]], int] = {}
        for one in self._seen:
            key = (one.question, one.openings)
            most[key] = max(size(one), most.get(key, 0))
        return sum(most.values()) + self._repeated

    def _with_counts(self, found: Explanation) -> Explanation:
        return replace(found, calls=self._calls, requests=self._counted(lambda one: one.requests))

    def _ask(
        self, requests: Sequence[TargetRequest]
    ) -> Generator[list[TargetRequest], list[Answer], list[Answer]]:
        if new := [one for one in dict.fromkeys(requests) if one not in self._seen]:
            self._seen.update(zip(new, (yield new), strict=True))
            kept_back = self._settings.by_probability and not self._openings  # for the opening's probability
            again = []
            for one in new:
                failed = self._seen[one].failed
                if failed and self._calls + failed + kept_back <= self._settings.budget_calls:
                    self._repeated += failed
                    again.append(one)
            if again:
                self._seen.update(zip(again, (yield again), strict=True))
        return [self._seen[one] for one in requests]

    def steps(self) -> Steps:
        settings, question = self._settings, Question(self._prompt, self._instruction)
        greedy = settings.samples == 1
        [own] = yield from self._ask([TargetRequest(question, FIRST_ASKED if greedy else settings.samples)])
        if greedy and len(own.scored) > 1:
            most = max(FIRST_ASKED, min(ASKED_AGAIN, settings.budget_calls - self._repeated))
            [own] = yield from self._ask([TargetRequest(question, most)])
        state = _state(own, greedy)
        told = [
            one for one in own.verdicts if (one.blocked if state == "refused" else one.label == "unscored")
        ]
        reason = told[0].reason if told else ""
        found = Explanation(
            self._id, self._prompt, state, own.labels, own.replies[0], reason, settings.by, 0, 0
        )
        if state != "refused":
            return self._with_counts(found)
        if settings.by_probability:
            self._openings = openings_of(own, settings.opening_words)
            [begun] = yield from self._ask([TargetRequest(question, openings=self._openings)])
            self._turned_below = begun.log_probability - math.log(2)
            found = replace(found, openings=self._openings, opening_log_probability=begun.log_probability)
        if settings.units != "words" and self._instruction:
            found = replace(found, sentences=(yield from self._in_instruction(self._instruction)))
        if settings.units != "sentences":
            found = replace(found, words=(yield from self._in_prompt()))
        return self._with_counts(found)

    def _in_prompt(self) -> Generator[list[TargetRequest], list[Answer], FoundTriggers]:
        words = words_of(self._prompt)
        tried = candidates(words)
        if not without(self._prompt, words, tried[:1], self._settings.by):
            tried = []  # one word: without it there is nothing to ask
        search = TriggerSearch(tried, rarest_first(words, tried), most_alone=self._settings.most_alone)

        def variant(removal: Removal) -> tuple[str, Question | None]:
            text = without(self._prompt, words, removal, self._settings.by)
            return text, Question(text, self._instruction) if text else None

        return (yield from self._searched(search, words, tried, variant))

    def _in_instruction(
        self, instruction: str
    ) -> Generator[list[TargetRequest], list[Answer], FoundTriggers]:
        sentences = sentences_of(instruction)
        tried = list(range(len(sentences)))
        alone = 0 if len(tried) > MOST_SENTENCES_ALONE else len(tried)
        search = TriggerSearch(tried, most_alone=alone, all_first=True)

        def variant(removal: Removal) -> tuple[str, Question | None]:
            text = without(instruction, sentences, removal)
            return text, Question(self._prompt, text or None)

        return (yield from self._searched(search, sentences, tried, variant))

    def _searched(
        self,
        search: TriggerSearch,
        parts: Sequence[TextPart],
        tried: Sequence[int],
        variant: Callable[[Removal], tuple[str, Question | None]],
    ) -> Generator[list[TargetRequest], list[Answer], FoundTriggers]:
        openings: dict[int, float] = {}
        for batch in search.steps():
            asked = {removal: question for removal in batch if (question := variant(removal)[1])}
            # An empty prompt is not asked: there is no refusal left to turn, and no answer either.
            search.known.update(dict.fromkeys(batch, False))
            affordable = dict(islice(asked.items(), self._affordable(list(asked.values()))))
            for removal in asked.keys() - affordable.keys():
                del search.known[removal]
            wanted = [self._request(question) for question in affordable.values()]
            answers = yield from self._ask(wanted)
            for removal, answer in zip(affordable, answers, strict=True):
                search.known[removal] = self._turned(answer)
                if self._openings and len(removal) == 1:
                    openings[min(removal)] = answer.log_probability
            search.scores = {part: -value for part, value in openings.items()}
            if len(affordable) < len(asked):
                break
        found = _found(search, parts, tried, openings)
        if not found.shown:
            return found
        text, question = variant(frozenset(found.shown))
        found = replace(found, variant=text)
        if question is None or not self._affordable([question], replies=True):
            return found
        [then] = yield from self._ask([self._request(question, replies=True)])
        return replace(found, variant_reply=_turned_reply(then), variant_label=_most(then))

    def _request(self, question: Question, replies: bool = False) -> TargetRequest:
        if self._openings and not replies:
            return TargetRequest(question, openings=self._openings)
        return TargetRequest(question, self._settings.samples)

    def _affordable(self, questions: Sequence[Question], replies: bool = False) -> int:
        """How many of the questions, from the first on, the budget allows."""
        left = self._settings.budget_calls - self._calls
        for number, question in enumerate(questions):
            request = self._request(question, replies)
            left -= 0 if request in self._seen else request.times
            if left < 0:
                return number
        return len(questions)

    def _turned(self, answer: Answer) -> bool | None:
        if self._openings:
            return answer.log_probability < self._turned_below
        return answer.mostly("complied")


def _state(own: Answer, greedy: bool) -> AskedState:
    if greedy and len(own.scored) > 1:
        return "answers_differ"
    scored = [label for label in own.labels if label != "unscored"]
    if not scored or 2 * len(scored) < len(own.labels):
        return "unscored"
    return "refused" if 2 * scored.count("refused") > len(scored) else "not_refused"


def openings_of(own: Answer, words: int) -> tuple[str, ...]:
    """The first words of the target's own first refusal, white space as it came, and the usual openings.

    None begins with another: of two, the shorter stays. In the same order in each process, since replies are
    kept by them.
    """
    refusal = next(reply for reply, label in zip(own.replies, own.labels, strict=True) if label == "refused")
    usual = Path(__file__).with_name("refusal_openings.txt").read_text(encoding="utf-8").splitlines()
    begun = re.match(rf"\s*(?:\S+\s+){{0,{words - 1}}}\S+", refusal)
    every = sorted({*usual, *([begun[0]] if begun else [])}, key=lambda one: (len(one), one))
    return tuple(
        one
        for number, one in enumerate(every)
        if not any(one.startswith(shorter) for shorter in every[:number])
    )


def _turned_reply(answer: Answer) -> str:
    complied = (
        reply for reply, label in zip(answer.replies, answer.labels, strict=True) if label == "complied"
    )
    return next(complied, answer.replies[0])


def _most(answer: Answer) -> str:
    return max(answer.labels, key=answer.labels.count)


def _found(
    search: TriggerSearch, parts: Sequence[TextPart], tried: Sequence[int], openings: dict[int, float]
) -> FoundTriggers:
    triggers = tuple(tuple(sorted(one)) for one in search.triggers)
    best = search.best_known()
    unscored = sum(turned is None for turned in search.known.values())
    state: State
    if triggers:
        state = "found"
    elif not tried:
        state = "nothing_to_take_out"
    elif not search.complete:
        state = "budget_ended"
    else:
        state = "unscored" if unscored else "refuses_whatever_is_left"
    return FoundTriggers(
        parts=tuple(parts),
        tried=tuple(tried),
        state=state,
        triggers=triggers,
        best=tuple(sorted(best)) if best and not triggers else None,
        alone={min(one): turned for one, turned in search.known.items() if len(one) == 1},
        openings=openings,
        unscored=unscored,
    )
