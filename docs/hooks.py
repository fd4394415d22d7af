"""A hook of mkdocs: links from a page to files of the repository that are no pages.

The Markdown keeps relative links, which work where the repository is read. In the site, a picture is copied.
A link becomes the file's name, or a link into ``repo_url`` if the configuration has one. A link to a missing
file fails.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\((\.\.?/[^)#\s]+)(#[^)\s]*)?\)")
PICTURES = "repository"


def outside(page: Path, path: str) -> str | None:
    """The repository's path of a link's target; None if the target is below docs."""
    target = (page.parent / path).resolve()
    if target.is_relative_to(REPOSITORY / "docs"):
        return None
    if not target.exists():
        raise PluginError(f"{page}: {path} leads nowhere")
    return target.relative_to(REPOSITORY).as_posix()


def on_files(files: Files, config: Any) -> Files:
    """Adds the pictures that lie outside docs."""
    for page in list(files.documentation_pages()):
        for mark, _, path, _ in LINK.findall(page.content_string):
            name = outside(Path(page.abs_src_path), path) if mark else None
            if name and files.get_file_from_path(f"{PICTURES}/{name}") is None:
                files.append(
                    File.generated(config, f"{PICTURES}/{name}", abs_src_path=str(REPOSITORY / name))
                )
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Points links at the site's copies, or into the repository."""

    def replaced(link: re.Match[str]) -> str:
        mark, text, path, _ = link.groups()
        name = outside(Path(page.file.abs_src_path), path)
        if name is None:
            return link[0]
        if mark:
            start = Path(page.file.src_uri).parent.as_posix()
            return f"![{text}]({os.path.relpath(f'{PICTURES}/{name}', start)})"
        return (
            f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{name})"
            if config.repo_url
            else f"{text} (`{name}`)"
        )

    return LINK.sub(replaced, markdown)
