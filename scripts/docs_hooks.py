"""What the documentation site needs beyond the files in docs/; mkdocs.yml names this file."""

import os.path
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent

#: Pages of the site that are not in docs/, by their place in it.
PAGES = {
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "reference/commands.md": "build/manuals/commands.md",
}

#: Tests read a second word behind a block's language; MkDocs would not recognise the block.
FENCE = re.compile(r"^( *```)(\w+) .*$", re.MULTILINE)
LANGUAGES = {"ipython": "python"}
LINK = re.compile(r"(\]\()([^)#:\s]+)([^)\s]*\))")


def on_files(files, config):
    for place, source in PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown, page, config, files):
    place = page.file.src_uri
    source = PAGES.get(place, f"docs/{place}")
    markdown = FENCE.sub(r"\1\2", markdown)
    for name, shown in LANGUAGES.items():
        markdown = re.sub(rf"^( *```){name}$", rf"\1{shown}", markdown, flags=re.MULTILINE)
    blocks = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.MULTILINE | re.DOTALL)

    def target(match):
        start, link, end = match.groups()
        return start + _on_site(link, source, place, config, files) + end

    blocks[::2] = [LINK.sub(target, prose) for prose in blocks[::2]]
    return "".join(blocks)


def _on_site(link, source, place, config, files):
    """A link between files of the repository, as a link between pages of the site."""
    path = os.path.normpath(os.path.join(os.path.dirname(source), link))
    pages = {source: place for place, source in PAGES.items()}
    target = pages.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
    if target and files.get_file_from_path(target):
        return os.path.relpath(target, os.path.dirname(place) or ".")
    if not (ROOT / path).exists():
        return link  # MkDocs reports it
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"{config.repo_url}/{kind}/main/{path}"
