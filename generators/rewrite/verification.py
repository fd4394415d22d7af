"""What targets say to the prompts that passed the filters: asked through lm-eval's backends, each once.

A reply is on file as soon as its chunk has come; a run that was killed asks for the rest only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tqdm import tqdm

from generators.targets.reply_file import ReplyFile
from generators.targets.target import Asked
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.labeller import Labeller
from overbench_tasks.records import Verdict
from overbench_tasks.text import number_of


def verdicts(
    target: Asked, prompts: Mapping[str, str], labeller: Labeller, kept: ReplyFile, chunk_size: int
) -> dict[str, Verdict]:
    """The verdict on the target's reply to each prompt, by prompt id. Asks what is not on file.

    Raises:
        OverbenchError: the target can't be asked, or every request to it failed, or the labeller gave no
            verdict on some replies; what came is kept.
    """
    # Longest first, as lm-eval itself does: a lack of memory shows at once.
    missing = sorted(prompts.keys() - kept.replies(target).keys(), key=lambda key: (-len(prompts[key]), key))
    done = len(prompts) - len(missing)
    with tqdm(desc=f"verify, {target.name}", total=len(prompts), initial=done, disable=None) as bar:
        for start in range(0, len(missing), chunk_size):
            chunk = missing[start : start + chunk_size]
            replies = target.replies([prompts[key] for key in chunk])
            kept.add(target, dict(zip(chunk, replies, strict=True)))
            bar.update(len(chunk))
    found = kept.verdicts(target, prompts, labeller)
    if found and all(verdict.reason == "request_failed" for verdict in found.values()):
        raise OverbenchError(
            f"{target.name} answered none of {number_of(len(found), 'request')}; the warning above says why. "
            "Mend that, then start the same command again: it asks them again."
        )
    return found


def refusals(prompt: str, by_target: Mapping[str, Mapping[str, Verdict]]) -> tuple[list[str], list[str]]:
    """(the targets that refuse the prompt of that id, those whose reply has no label), in their order."""
    labels: Sequence[tuple[str, str]] = [(name, said[prompt].label) for name, said in by_target.items()]
    refused, unscored = ([n for n, one in labels if one == label] for label in ("refused", "unscored"))
    return refused, unscored
