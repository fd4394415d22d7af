"""Shards of versions before 0.2, converted once: a ZIP file each, notes on shards that share a cache, and
empty files that said which shards were asked for."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from overbench.campaign.campaign_cells import CampaignCell, Shard
from overbench.campaign.cell_results import count_log
from overbench.campaign.engines.shards import ShardState, ShardStore
from overbench_tasks.errors import OverbenchError
from overbench_tasks.outcomes.logs import read_run, sample_logs

_EARLIER = re.compile(r"(\d+)-(\d+)\.zip(\.started)?")


def convert(
    cells: Sequence[CampaignCell], store: ShardStore, caches: Path, log: Callable[[str], object]
) -> None:
    """Convert the shards of unfinished cells. A damaged ZIP file is renamed, and its prompts are asked again.

    The caller holds the campaign's lock.

    Args:
        caches: the folder of the caches of the cells.
        log: called with a line for each damaged file.

    Raises:
        OSError: a file can't be written.
    """
    for cell in cells:
        store.files.invalidate_cache()
        for path in sorted(store.files.find(store.folder(cell))):
            match = _EARLIER.fullmatch(path.rpartition("/")[2])
            if match is not None and match[3] is None:
                _unpack(Shard(cell, int(match[1]), int(match[2])), path, store, log)
            elif match is not None:
                store.files.rm_file(path)
    by_path = {cell.path: cell for cell in cells}
    for note in sorted(caches.glob("*/*-*.json")):
        names = json.loads(note.read_text(encoding="utf-8"))
        cell_paths = {name.rpartition("/")[0] for name in names}
        if not cell_paths <= by_path.keys():
            continue  # of cells that are finished or can't be asked now
        for name in names:
            cell_path, _, file = name.rpartition("/")
            if (match := _EARLIER.fullmatch(file)) is not None:
                shard = Shard(by_path[cell_path], int(match[1]), int(match[2]))
                if not store.state(shard).is_begun:
                    store.write_state(shard, ShardState(cache=note.stem))
        note.unlink()


def _unpack(shard: Shard, path: str, store: ShardStore, log: Callable[[str], object]) -> None:
    with TemporaryDirectory() as folder:
        archive, output = Path(folder) / "shard.zip", Path(folder) / "output"
        store.files.get_file(path, str(archive))
        try:
            with zipfile.ZipFile(archive) as file:
                file.extractall(output)
            (run,) = map(read_run, sample_logs(output))
            counts = json.loads(run.results_file.read_text(encoding="utf-8"))["n-samples"]
            prompts = sum(count["effective"] for count in counts.values())
            result = count_log(run)
            result = replace(result, seconds=result.seconds * result.prompts / prompts)
            store.put(shard, [run.file, run.results_file], result)
        except (zipfile.BadZipFile, OverbenchError, ValueError, KeyError) as error:
            store.files.mv(path, f"{path}.damaged")
            log(f"{path} can't be read ({error}); its prompts are asked again. It is now {path}.damaged")
            return
    store.files.rm_file(path)
