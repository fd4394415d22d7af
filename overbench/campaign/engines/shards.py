"""Shards of a cell's prompts, and where finished ones are kept: some place that all nodes see."""

from __future__ import annotations

import shutil
import time
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from overbench.campaign.campaign_cells import CampaignCell, hashed
from overbench.campaign.task_specs import TaskSpec
from overbench_tasks.errors import OverbenchError

_PROMPTS: Final = ".prompts"
"""No target is called so."""
_STARTED: Final = ".started"
"""Behind the name of a shard: the file that says since when it is asked for."""


@dataclass(frozen=True)
class Shard:
    """Consecutive prompts of a cell.

    Attributes:
        start, stop: the first, from 0, and the one behind the last.
    """

    cell: CampaignCell
    start: int
    stop: int

    @property
    def name(self) -> str:
        """Its file: cells and the cut of each stay the same as a campaign grows, and so do their shards."""
        return f"{self.cell.place}/{self.start:09d}-{self.stop:09d}.zip"

    def __len__(self) -> int:
        return self.stop - self.start


def shards_of(cell: CampaignCell, most: int) -> list[Shard]:
    """All of a cell, with ``most`` prompts each but for the last."""
    count = cell.task_spec.prompts
    return [Shard(cell, start, min(start + most, count)) for start in range(0, count, most)]


def packed(shards: Iterable[Shard], most: int) -> list[tuple[Shard, ...]]:
    """Shards that one lm_eval asks, so that small sets share a loaded model.

    Args:
        most: prompts together; at most one shard of a task, whose prompts lm_eval takes once.
    """
    found: list[list[Shard]] = []
    for shard in shards:
        last = found[-1] if found else []
        tasks = {one.cell.task_spec.task for one in last}
        fits = sum(map(len, last)) + len(shard) <= most and shard.cell.task_spec.task not in tasks
        if last and fits:
            last.append(shard)
        else:
            found.append([shard])
    return [tuple(one) for one in found]


class ShardStore:
    """Finished shards: what lm_eval wrote, a ZIP file each, there whole or not at all.

    Args:
        address: a folder, or any address of fsspec's: ``s3://bucket/folder``.

    Raises:
        OverbenchError: nothing that is installed knows such addresses.
    """

    def __init__(self, address: str) -> None:
        from fsspec.core import url_to_fs

        try:
            self._files, self._root = url_to_fs(address)
        except (ImportError, ValueError) as error:
            raise OverbenchError(
                f"ray.shards: {address} can't be used: {error}. Expected a folder or an address of fsspec's."
            ) from error

    def _place(self, shard: Shard) -> str:
        return f"{self._root.rstrip('/')}/{shard.name}"

    def _there(self, place: str) -> bool:
        self._files.invalidate_cache()
        return bool(self._files.exists(place))

    def has(self, shard: Shard) -> bool:
        return self._there(self._place(shard))

    def keep_prompts(self, asked: TaskSpec) -> None:
        """Keep a set's prompts as its task reads them, so that each shard reads its own alone.

        Raises:
            OverbenchError: they can't be had, or have changed.
        """
        place = self._prompts(asked)
        if not self._there(place):
            rows = asked.rows()
            with self._whole(place) as partial:
                rows.save_to_disk(self._files.unstrip_protocol(partial), num_shards=1)

    def kept_prompts(self, sets: Iterable[TaskSpec]) -> dict[str, str]:
        """Task -> where its prompts are, of those that are kept."""
        places = {one.task: self._prompts(one) for one in sets}
        return {task: self._files.unstrip_protocol(one) for task, one in places.items() if self._there(one)}

    def _prompts(self, asked: TaskSpec) -> str:
        read = hashed({"reading": asked.reading, "prompts": asked.prompts_hash})
        return f"{self._root.rstrip('/')}/{_PROMPTS}/{read}"

    def put(self, shard: Shard, files: Sequence[Path]) -> None:
        """Keep a shard's files, each below the name of its folder."""
        with TemporaryDirectory() as folder, self._whole(self._place(shard)) as partial:
            made = Path(folder) / "shard.zip"
            with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
                for file in files:
                    out.write(file, f"{file.parent.name}/{file.name}")
            self._files.put_file(str(made), partial)

    @contextmanager
    def _whole(self, place: str) -> Iterator[str]:
        """Another place for a file or folder, which takes its own once it is there, or leaves nothing."""
        partial = f"{place}.{uuid.uuid4().hex}.partial"
        self._files.makedirs(place.rpartition("/")[0], exist_ok=True)
        try:
            yield partial
            self._files.mv(partial, place, recursive=self._files.isdir(partial))
        except BaseException:
            with suppress(Exception):
                self._files.rm(partial, recursive=True)
            raise

    def note_start(self, shards: Iterable[Shard]) -> None:
        """Let the status know, until :meth:`forget_start`, that one lm_eval asks for these shards."""
        now = str(time.time()).encode()
        for shard in shards:
            place = f"{self._place(shard)}{_STARTED}"
            self._files.makedirs(place.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(place, now)

    def forget_start(self, shards: Iterable[Shard]) -> None:
        for shard in shards:
            with suppress(FileNotFoundError):
                self._files.rm_file(f"{self._place(shard)}{_STARTED}")

    def progress(self, shards: Sequence[Shard]) -> tuple[list[Shard], list[float]]:
        """How far a cell is: those of its shards that are kept; and since when others are being asked for, in
        seconds since 1970, the same for those that one lm_eval asks for. A lost worker's are among them until
        they are asked for again."""
        if not shards:
            return [], []
        self._files.invalidate_cache()
        there = set(self._files.find(self._place(shards[0]).rpartition("/")[0]))
        kept = [one for one in shards if self._place(one) in there]
        started = []
        for shard in shards:
            place = self._place(shard)
            if place not in there and f"{place}{_STARTED}" in there:
                with suppress(FileNotFoundError, ValueError):  # it ends, or begins, at this moment
                    started.append(float(self._files.cat_file(f"{place}{_STARTED}")))
        return kept, started

    @contextmanager
    def opened(self, shard: Shard) -> Iterator[zipfile.ZipFile]:
        """A shard's files.

        Raises:
            OverbenchError: it is damaged.
        """
        place = self._place(shard)
        with TemporaryDirectory() as folder:
            here = Path(folder) / "shard.zip"
            with self._files.open(place, "rb") as source, here.open("wb") as out:
                shutil.copyfileobj(source, out)
            try:
                with zipfile.ZipFile(here) as found:
                    yield found
            except zipfile.BadZipFile as error:
                raise OverbenchError(
                    f"{place} can't be read: {error}. Delete it; its prompts are asked again."
                ) from error
