"""A safe and an unsafe set as the prompts of one task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.neighbour_sets import NEIGHBOURS
from overbench_tasks.prompts.neighbours import neighbour_rows
from overbench_tasks.prompts.prompt_labels import of_label
from overbench_tasks.prompts.prompt_sets import Row, as_dataset, check_keys, prompt_file, read_prompts

if TYPE_CHECKING:
    import datasets


def load_balance(
    *,
    overbench_set: str,
    overbench_unsafe_set: str,
    overbench_source: str | None = None,
    overbench_unsafe_source: str | None = None,
    overbench_revision: str | None = None,
    **metadata: Any,
) -> dict[str, datasets.Dataset]:
    """The prompts of a safe and of an unsafe set, as lm-eval's ``custom_dataset`` wants them.

    Args:
        overbench_set: the safe set, where no source takes its place; from the task file.
        overbench_unsafe_set: the unsafe one, a neighbour.
        overbench_source: a neighbour by the name of its task, or a source as
            :func:`~overbench_tasks.prompts.prompt_sets.load_prompts` takes it. Its unsafe prompts, where it
            has any, are the unsafe side, unless that has a source of its own.
        overbench_unsafe_source: the same for the unsafe side; prompts of a file that doesn't say what they
            are count as unsafe.
        overbench_revision: see :func:`~overbench_tasks.prompts.neighbours.load_neighbour`; of the
            neighbours among the two.
        metadata: everything else lm-eval passes.

    Returns:
        see :func:`~overbench_tasks.prompts.prompt_sets.as_dataset`; safe and unsafe prompts in turn as long
        as there are both, so that a limit takes as many of each.

    Raises:
        OverbenchError: a set can't be had, has no prompt of its side, or a prompt is on both sides.
    """
    check_keys(metadata)
    unsafe: list[Row] = []
    safe_told: dict[str, Any]
    name = overbench_source or overbench_set
    if name in NEIGHBOURS:
        safe, safe_told = neighbour_rows(name, None, overbench_revision)
    else:
        file = prompt_file(overbench_set, overbench_source)
        rows = read_prompts(file)
        unsafe = [row for row in rows if row["prompt_label"] == "unsafe"]
        safe = [row for row in rows if row["prompt_label"] == "safe"]
        safe_told = {"overbench_prompts": file.name}
    unsafe_told = safe_told
    name = overbench_unsafe_source or overbench_unsafe_set
    if name in NEIGHBOURS and not (unsafe and overbench_unsafe_source is None):
        unsafe, unsafe_told = neighbour_rows(name, None, overbench_revision)
    elif overbench_unsafe_source is not None:
        file = prompt_file(overbench_set, overbench_unsafe_source)
        unsafe, unsafe_told = read_prompts(file, "unsafe"), {"overbench_prompts": file.name}
    safe = of_label("safe", safe, str(safe_told["overbench_prompts"]))
    unsafe = of_label("unsafe", unsafe, str(unsafe_told["overbench_prompts"]))
    if both := {row["id"] for row in safe} & {row["id"] for row in unsafe}:
        one = next(row["prompt"] for row in safe if row["id"] in both)
        raise OverbenchError(
            f"Expected each prompt on one side, found {len(both):,} on both, {one[:60]!r} among them "
            "(or rows with the same id). Mend one of the two sets."
        )
    told = {key: [safe_told.get(key), unsafe_told.get(key)] for key in {**safe_told, **unsafe_told}}
    return as_dataset(list(_in_turn(safe, unsafe)), **told)


def _in_turn(one: list[Row], other: list[Row]) -> Iterator[Row]:
    shorter = min(len(one), len(other))
    for pair in zip(one, other, strict=False):
        yield from pair
    yield from one[shorter:]
    yield from other[shorter:]
