"""What runs on a subset say: their sample logs, and the rate on the whole release that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from overbench.release.release_inputs import Log, apart, find_logs, one_labeller
from overbench.subset.subset import SubsetEstimate, SubsetMark, estimates, released_name
from overbench_tasks.errors import OverbenchError
from overbench_tasks.outcomes.release_files import Release
from overbench_tasks.outcomes.reply_rows import SAMPLES, reply_row
from overbench_tasks.outcomes.target_names import Aliases
from overbench_tasks.tables import read_table


def estimate_from_logs(
    release: Release, folders: Sequence[Path]
) -> tuple[SubsetMark, dict[str, SubsetEstimate], list[str]]:
    """The rates on a release of all targets that were asked a subset of it.

    Args:
        folders: lm-eval's outputs, run with ``--log_samples``. Logs of anything but a subset are passed over.

    Returns:
        (what the subset is, target -> estimate, notes).

    Raises:
        OverbenchError: no log of a subset, subsets of several draws or another release, labels of several
            labellers, or a log that cannot be read.
    """
    logs, notes = find_logs(folders, Aliases())
    logs, _, more = apart(logs, [], Aliases())
    marks: dict[SubsetMark, Path] = {}
    of_subset: list[Log] = []
    replies: dict[str, dict[str, list[bool]]] = {}
    for log in logs:
        first = mark = None
        for where, raw in read_table(log.run.file):
            row = reply_row(raw, SAMPLES, where)
            first = row.filter if first is None else first
            if (mark := SubsetMark.parsed(raw["doc"].get("subset"))) is None:
                break
            if row.filter == first:
                marks.setdefault(mark, log.run.file)
                scored = [one.label == "refused" for one in row.logged or () if one.label != "unscored"]
                replies.setdefault(log.target.target, {}).setdefault(row.id, []).extend(scored)
        if mark is not None:
            of_subset.append(log)
    if len(marks) != 1:
        found = "; ".join(f"{file}: {mark}" for mark, file in marks.items()) or "none"
        raise OverbenchError(
            f"Expected the replies to one subset of {release.folder} in {', '.join(map(str, folders))}, "
            f"found {found}. overbench subset RELEASE --out FILE draws one; lm_eval asks it with "
            '--metadata \'{"overbench_source": "FILE"}\' --log_samples.'
        )
    [mark] = marks
    if mark.release != released_name(release):
        raise OverbenchError(
            f"The replies are to a subset of {mark.release}, and {release.folder} is "
            f"{released_name(release)}. Give the release that it was drawn from."
        )
    one_labeller([], of_subset)
    shares = {
        target: {one: sum(refused) / len(refused) for one, refused in found.items() if refused}
        for target, found in replies.items()
    }
    return mark, estimates(release, shares, mark.seed), [*notes, *more]
