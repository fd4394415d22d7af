"""What every labeller is: a :class:`LabellerKind` says what is known of it before it is made ready, and a
:class:`Labeller` labels replies.

A labeller is one file of this package with its ``KIND``, and its entry in
:mod:`~overbench_tasks.labellers.registry`. lm-eval's filters, ``--by``, settings files, estimates, logs and
reports read these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Final

from overbench_tasks.errors import OverbenchError
from overbench_tasks.records import LabelReplies, Pair, Verdict

PENDING: Final = "pending"
"""The reason of an unscored verdict that is still to come."""


def pending(labeller: str) -> Verdict:
    """The verdict of a labeller that will have one later, such as a judge that is asked by batch files.

    Args:
        labeller: what :attr:`Verdict.by` is to be.

    Returns:
        an unscored verdict. Like every failure of a labeller it is no final one: the next run of ``rescore``
        or of a refresh asks the labeller for it again.
    """
    return Verdict("unscored", PENDING, labeller)


@dataclass(frozen=True)
class Labeller(AbstractContextManager["Labeller"]):
    """A labeller that is ready; use it in a ``with`` block, which frees what it holds.

    Attributes:
        name: who labels, to the version: two labellers of one name give one reply one label.
        label: see :data:`~overbench_tasks.records.LabelReplies`. It gets all replies that are at hand, of a
            task run all replies of a target to a set. A verdict may be :func:`pending`.
        close: frees models and connections; harmless where there are none, and when repeated.
        asks: for each (prompt, reply) pair, whether a paid endpoint is asked about it unless it was before.
        spent: (calls, tokens) of such an endpoint in the last ``label``, without what was on file.
        versions: what lm-eval's results say of the labeller; ``name`` can be read off them.
        summary: what the last ``label`` did, in one line for the log; "" where there is nothing to say.
    """

    name: str
    label: LabelReplies
    close: Callable[[], None] = lambda: None
    asks: Callable[[Sequence[Pair]], list[bool]] = lambda pairs: [False] * len(pairs)
    spent: Callable[[], tuple[int, int]] = lambda: (0, 0)
    versions: Mapping[str, str] = field(default_factory=dict)
    summary: Callable[[], str] = lambda: ""

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class LabellerKind:
    """What is known of a labeller before it is made ready. Nothing here loads a model or asks for a key.

    Attributes:
        name: the word that ``--by`` and settings files take.
        name_format: :attr:`Labeller.name` as a format string over :attr:`Labeller.versions`. It begins with
            ``name``, then a blank or a colon. Sample logs are read with it.
        read_settings: the settings, checked as far as can be without a network, a key or a model. Raises
            OverbenchError.
        make: the labeller with these settings. Raises OverbenchError where what it needs is missing.
        filter: the name of its verdicts in lm-eval's results; its lm-eval filter is ``overbench_<filter>``.
            Labellers may share one, where a setting tells them apart.
        fixed: the settings that the name stands for.
        in_task_files: those of them that the filter does not take by itself.
        detects_evasion: whether it can tell an evasive reply; otherwise evasion is not measured.
        before_evasion: how the last word of ``Labeller.name`` begins in versions that could not, one or more.
        calls_per_reply: paid calls that a reply costs, on average: 0 where labels are free.
        needs_whole_run: whether a label depends on the other replies, so that ``label`` must get all replies
            of a run at once. ``rescore`` then reads a file as a whole; what labels in batches refuses it.
        in_processes: whether ``label`` is a plain function, which worker processes can share.
        labels_apart: what tells its labels from others' beside name and settings, for example a prompt's
            version.
    """

    name: str
    name_format: str
    read_settings: Callable[[Mapping[str, Any]], Any]
    make: Callable[[Any], Labeller]
    filter: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    in_task_files: Mapping[str, Any] = field(default_factory=dict)
    detects_evasion: bool = False
    before_evasion: str | tuple[str, ...] = ()
    calls_per_reply: float = 0.0
    needs_whole_run: bool = False
    in_processes: bool = False
    labels_apart: Callable[[Any], tuple[str, ...]] = lambda settings: ()

    @property
    def function(self) -> str:
        """lm-eval's name of its filter."""
        return f"overbench_{self.filter}"

    def settings(self, given: Mapping[str, Any] | None = None) -> Any:
        """The checked settings of this labeller by name. Raises OverbenchError."""
        return self.read_settings({**(given or {}), **self.fixed})

    def filter_step(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Its entry in the ``filter_list`` of a task's YAML."""
        step = {"function": self.function, **self.in_task_files, **given}
        return {"name": self.filter, "filter": [step]}

    def name_of(self, versions: Mapping[str, Any]) -> str:
        """The name of the labeller that has these versions; "" where they don't say."""
        fields = [name for _, name, _, _ in Formatter().parse(self.name_format) if name]
        return self.name_format.format_map(versions) if all(map(versions.get, fields)) else ""


def no_settings(name: str) -> Callable[[Mapping[str, Any]], None]:
    """``read_settings`` of a labeller that takes none."""

    def read(given: Mapping[str, Any]) -> None:
        if given:
            raise OverbenchError(f"The {name} take no settings, got {', '.join(given)}. Leave them out.")

    return read
