"""Label replies with a language model behind any OpenAI-compatible API.

``two-stage``, as in Pu et al. 2025 (section 3.1): the rules of :mod:`overbench_tasks.refusal` first, and
the judge for what they leave open. A reply that the rules call ``refused`` is settled, since they
are made to be precise there. Open is every other reply with something to read in it: what looks
complied may refuse in words no rule knows, and where ``partial`` begins takes a reader. (The paper
settles plain refusal phrases in the same way and sends every remaining reply to its judge.)

``judge``: every reply with something to read in it.

In both, an empty reply or an unfinished reasoning block stays ``unscored`` as the rules have it.
What the judge says counts only as :func:`~overbench_tasks.judge_prompt.parse_verdict` has it. No
answer gives ``unscored`` with reason ``judge_error``, an answer without a verdict ``unscored`` with
reason ``judge_unparseable``; both are asked again by the next run, and no verdict is asked for twice.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tqdm import tqdm

from overbench_tasks.chat.asking import run_in_thread
from overbench_tasks.chat.cache import Answer, Failure, JudgeCache, default_cache_file
from overbench_tasks.chat.client import ChatClient, OnOutcome, Request
from overbench_tasks.judge_prompt import JudgePrompt, parse_verdict
from overbench_tasks.judge_settings import JudgeSettings, JudgeSettingsError, api_key
from overbench_tasks.records import Verdict
from overbench_tasks.refusal import label_reply

__all__ = ["Exchange", "Judge", "JudgeSettings", "JudgeSettingsError"]

logger = logging.getLogger(__name__)

Exchange = tuple[str | None, str]
"""A prompt, None where it is unknown, and the reply to it; both as they were received."""

REASON_CHARS = 100
NO_VERDICT = "the last line of the answer is no verdict"


class Judge:
    """A judge that is ready to be asked. Whatever can be wrong with its settings is wrong here.

    Args:
        settings: default: all from the environment.
        cache_file: default: see :func:`~overbench_tasks.chat.cache.default_cache_file`.

    Raises:
        JudgeSettingsError: a missing key, an unusable prompt file or cache.
    """

    def __init__(self, settings: JudgeSettings | None = None, *, cache_file: Path | None = None) -> None:
        self.settings = settings or JudgeSettings.resolve()
        self._key = api_key(self.settings)
        self._prompt = JudgePrompt(self.settings.prompt_file, max_chars=self.settings.max_chars)
        self._cache_file = cache_file or default_cache_file()
        self.asked = self.cached = 0
        """Distinct requests of the last :meth:`label`: sent by it, and answered by earlier ones."""
        self.tokens: Counter[str] = Counter()
        """``prompt`` and ``completion`` tokens of the last :meth:`label`, and ``cached_prompt`` and
        ``cached_completion``, paid for by earlier ones."""
        try:
            JudgeCache(self._cache_file).__exit__(None, None, None)
        except (OSError, sqlite3.Error) as error:
            raise JudgeSettingsError(
                f"The judge's verdicts can't be kept in {self._cache_file}: {error}. Set OVERBENCH_CACHE to "
                "a folder that can be written, or move the file away if it is damaged."
            ) from error

    @property
    def versions(self) -> dict[str, str]:
        """What tells this judge's labels from another's, for the results."""
        return {
            "overbench_judge_mode": self.settings.mode,
            "overbench_judge_model": self.settings.model,
            "overbench_judge_version": self._prompt.version,
        }

    @property
    def summary(self) -> str:
        """What the last :meth:`label` asked and spent, in one line."""
        tokens = self.tokens
        return (
            f"Judge {self.settings.model}: {self.asked:,} replies asked now, {self.cached:,} judged earlier. "
            f"Tokens now: {tokens['prompt']:,} in, {tokens['completion']:,} out; "
            f"earlier: {tokens['cached_prompt']:,} in, {tokens['cached_completion']:,} out."
        )

    def label(self, exchanges: Sequence[Exchange]) -> list[Verdict]:
        """One verdict per exchange, in order.

        Equal requests are sent once. Verdicts are on file the moment they arrive, so that after an
        interruption at any time the next call asks for the rest. Works where an event loop is
        running. Raises nothing but KeyboardInterrupt.
        """
        verdicts: dict[int, Verdict] = {}
        requests: dict[int, Request] = {}
        unasked: Counter[str] = Counter()
        for index, (prompt, reply) in enumerate(exchanges):
            by_rules = label_reply(reply, prompt=prompt)
            settled = ("unscored", "refused") if self.settings.mode == "two-stage" else ("unscored",)
            if by_rules.label in settled:
                verdicts[index] = by_rules
                continue
            try:
                requests[index] = self._request(prompt, reply)
            except Exception as error:
                # A template of the user's may trip over any text in any way.
                verdicts[index] = self._verdict(Failure("not asked"))
                unasked[type(error).__name__] += 1
        if unasked:
            logger.warning("The judge's prompt file failed on replies, now unscored: %s.", dict(unasked))
        outcomes = self._outcomes({request.key: request for request in requests.values()})
        verdicts |= {index: self._verdict(outcomes[request.key]) for index, request in requests.items()}
        return [verdicts[index] for index in range(len(exchanges))]

    def _request(self, prompt: str | None, reply: str) -> Request:
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": [{"role": "user", "content": self._prompt.render(prompt, reply)}],
            "temperature": self.settings.temperature,
            "max_tokens": self.settings.max_tokens,
            **self.settings.extra_body,
        }
        data = json.dumps({name: value for name, value in body.items() if value is not None}, sort_keys=True)
        key = hashlib.sha256(f"{self.settings.url}\n{data}".encode()).hexdigest()
        return Request(key, data.encode())

    def _outcomes(self, requests: dict[str, Request]) -> dict[str, Answer | Failure]:
        """The outcome of every request, from the cache or else from the endpoint."""
        self.asked, self.cached, self.tokens = 0, 0, Counter()
        if not requests:
            return {}
        outcomes: dict[str, Answer | Failure] = {}
        client = ChatClient(self.settings, self._key)
        with ExitStack() as stack:
            cache = self._open_cache(stack)
            if cache is not None:
                outcomes |= self._cached(cache, list(requests))
                self.cached = len(outcomes)
            missing = [request for key, request in requests.items() if key not in outcomes]
            bar = stack.enter_context(tqdm(total=len(missing), desc="Judging", disable=None))

            def keep(request: Request, outcome: Answer | Failure) -> None:
                nonlocal cache
                outcomes[request.key] = outcome
                self.asked += 1
                if isinstance(outcome, Answer):
                    self._count_tokens("", outcome)
                if cache is not None and not self._keep(cache, request.key, outcome):
                    cache = None
                bar.update()

            if missing:
                self._ask(client, missing, keep)
        for request in missing:
            outcomes.setdefault(request.key, Failure("not asked"))
        self._warn(client, [outcomes[request.key] for request in missing], len(requests))
        return outcomes

    def _ask(self, client: ChatClient, requests: list[Request], keep: OnOutcome) -> None:
        try:
            run_in_thread(client.ask_all(requests, keep))
        except Exception as error:
            logger.warning("The judge could not go on: %s.", type(error).__name__)

    def _open_cache(self, stack: ExitStack) -> JudgeCache | None:
        try:
            return stack.enter_context(JudgeCache(self._cache_file))
        except (OSError, sqlite3.Error) as error:
            logger.warning("Verdicts will not be kept: %s can't be opened (%s).", self._cache_file, error)
            return None

    def _cached(self, cache: JudgeCache, keys: list[str]) -> dict[str, Answer]:
        try:
            # Read again under today's grammar; what it doesn't accept is asked again.
            found = {key: answer for key, answer in cache.answers(keys) if parse_verdict(answer.text)}
        except sqlite3.Error as error:
            logger.warning("Earlier verdicts can't be read from %s (%s).", self._cache_file, error)
            return {}
        for answer in found.values():
            self._count_tokens("cached_", answer)
        return found

    def _keep(self, cache: JudgeCache, key: str, outcome: Answer | Failure) -> bool:
        """Put the outcome on file, as an answer if it holds a verdict; tell whether that worked."""
        model = self.settings.model
        try:
            if isinstance(outcome, Failure):
                cache.add_failure(key, model, outcome.detail)
            elif parse_verdict(outcome.text) is None:
                cache.add_failure(key, model, NO_VERDICT, outcome.text)
            else:
                cache.add_answer(key, model, outcome)
        except sqlite3.Error as error:
            # Not tried again: a locked file would hold up every verdict until its time-out.
            logger.warning("Verdicts are no longer kept: %s fails (%s).", self._cache_file, error)
            return False
        return True

    def _count_tokens(self, prefix: str, answer: Answer) -> None:
        self.tokens[f"{prefix}prompt"] += answer.prompt_tokens
        self.tokens[f"{prefix}completion"] += answer.completion_tokens

    def _verdict(self, outcome: Answer | Failure) -> Verdict:
        by = f"judge:{self.settings.model}"
        if isinstance(outcome, Failure):
            return Verdict("unscored", "judge_error", by)
        label = parse_verdict(outcome.text)
        if label is None:
            return Verdict("unscored", "judge_unparseable", by)
        said = " ".join(outcome.text.rstrip().rpartition("\n")[0].split())
        return Verdict(label, said[:REASON_CHARS] or "judge's verdict", by)

    def _warn(self, client: ChatClient, new: Sequence[Answer | Failure], total: int) -> None:
        """Say once, loudly, how many replies stay without a verdict and why."""
        reasons = Counter(
            f"{verdict.reason}: {outcome.detail if isinstance(outcome, Failure) else NO_VERDICT}"
            for outcome in new
            if (verdict := self._verdict(outcome)).label == "unscored"
        )
        if not reasons:
            return
        lines = [f"  {count:,} x {reason}" for reason, count in reasons.most_common(5)]
        if client.stopped_because:
            lines.insert(0, f"  Asking stopped early: {client.stopped_because}.")
        rule = "!" * 88
        logger.warning(
            "\n%s\nOVERBENCH: %s of %s replies have no verdict from the judge and are unscored.\n%s\n"
            "Verdicts so far are kept. Run again to ask for the missing ones only.\n%s",
            *(rule, f"{sum(reasons.values()):,}", f"{total:,}", "\n".join(lines), rule),
        )
