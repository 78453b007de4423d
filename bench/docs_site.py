"""What the documentation site is built with beside the pages themselves: the hook that mkdocs.yml names.

It adds the reference (every public name, from the docstrings), lists of proofs and decisions, the pages beside docs/ and the
outputs of the tutorials, and puts every page into the navigation. ``mkdocs build`` runs it; nothing is fetched.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
import nbformat

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))  # MkDocs loads this file by its path

import tutorials  # noqa: E402
from griffe_rooms import Rooms  # noqa: E402

DOCS = ROOT / "docs"
BESIDE = {"changelog.md": "CHANGELOG.md", "security.md": "SECURITY.md", "contributing.md": "CONTRIBUTING.md"}
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


@functools.cache
def package() -> griffe.Module:
    """The package as its sources say it is; nothing of it is run."""
    found = griffe.load("steelyard", search_paths=[ROOT / "src"], extensions=griffe.load_extensions(Rooms))
    assert isinstance(found, griffe.Module)
    return found


def rooms() -> dict[str, list[str]]:
    """Every public module that offers names, and the names: its ``__all__``, or what it defines without an underscore."""
    return {module.path: names for module in _public(package()) if (names := _names(module))}


def undocumented() -> list[str]:
    """Public names, and public methods of public classes, that say nothing about themselves."""
    found = (f"{room}.{name}" for room, names in rooms().items() for name in names)
    return sorted({inner for path in found for inner in _silent(path)})


def _silent(path: str) -> Iterator[str]:
    thing = _target(path)
    if not (thing.has_docstring or thing.is_module):
        yield path
    if thing.is_class:
        methods = (each for name, each in thing.members.items() if not name.startswith("_") and each.is_function)
        yield from (f"{path}.{method.name}" for method in methods if not method.has_docstring)


def _target(path: str) -> Any:
    """What a name stands for, wherever it is defined."""
    found = package()[path.removeprefix("steelyard.")]
    return found.final_target if found.is_alias else found


def _public(module: griffe.Module) -> Iterator[griffe.Module]:
    yield module
    for name, inner in sorted(module.modules.items()):
        if not name.startswith("_"):
            yield from _public(inner)


def _names(module: griffe.Module) -> list[str]:
    if module.path == "steelyard":
        return []  # its names are those of the rooms: a table of their own
    if module.exports is not None:
        return sorted((str(name) for name in module.exports), key=str.lower)
    defined = (name for name, found in module.members.items() if not found.is_alias and not found.is_module)
    return [name for name in defined if not name.startswith("_")]


@functools.cache
def reference() -> dict[str, str]:
    """The pages of the reference by their address."""
    pages = {f"reference/{path}.md": _room(path, names) for path, names in rooms().items()}
    return {"reference/index.md": _short_names() + _list_of_rooms(pages), **pages}


def _room(path: str, names: list[str]) -> str:
    door = f"# {path}\n\n::: {path}\n    options: {{members: false, show_root_heading: false, show_root_toc_entry: false}}\n"
    return door + "".join(
        f"\n::: {found}\n" for name in names for found in (f"{path}.{name}", *_class_of(f"{path}.{name}"))
    )


def _class_of(path: str) -> list[str]:
    """The class of its own module that a name is another name of."""
    thing = _target(path)
    other = thing.parent.members.get(str(thing.value)) if thing.is_attribute else None
    return [other.path] if other is not None and other.is_class else []


def _short_names() -> str:
    """Every ``sy.name``, with the first line of its docstring and a link to the rest."""
    import steelyard

    homes, called = steelyard._HOMES, steelyard._CALLED
    lines = [
        "# Reference",
        "",
        "`import steelyard as sy`; every name loads when it is first used.",
        "",
        "| name | what it is |",
        "|---|---|",
    ]
    for name in steelyard.__all__:
        room = f"steelyard.{homes[name] or name}"
        path = f"{room}.{called.get(name, name)}" if homes[name] else room
        anchor = f"#{path}" if homes[name] else ""
        lines.append(f"| [`sy.{name}`]({room}.md{anchor}) | {_sentence(_target(path))} |")
    return "\n".join(lines) + "\n"


def _sentence(thing: Any) -> str:
    said: str = thing.docstring.value.split("\n")[0]
    return said.replace("``", "`").replace("|", "\\|")


def _list_of_rooms(pages: dict[str, str]) -> str:
    listed = "".join(f"- [{Path(page).stem}]({Path(page).name})\n" for page in pages)
    return f"\n## All rooms\n\nWhat each folder or file of the package offers to others, names for those who extend it included.\n\n{listed}"


def listing(folder: str, opening: str) -> str:
    """A page that lists the pages of a folder by their titles."""
    found = ((page.name, _title(page)) for page in sorted((DOCS / folder).glob("*.md")))
    return opening + "".join(f"- [{title}]({name})\n" for name, title in found)


def _title(page: Path) -> str:
    found = TITLE.search(page.read_text(encoding="utf-8"))
    return found[1] if found else page.stem


def generated() -> dict[str, str]:
    """Every page that stands in no file of docs/."""
    beside = {page: _moved((ROOT / file).read_text(encoding="utf-8")) for page, file in BESIDE.items()}
    proofs = "# Proofs\n\nOne page for each claim: statement, argument, what the code must do.\n\n"
    decisions = "# Decisions\n\nWhy things are as they are, one choice a page.\n\n"
    lists = {"proofs/index.md": listing("proofs", proofs), "decisions/index.md": listing("decisions", decisions)}
    return {**reference(), **beside, **lists}


def _moved(text: str) -> str:
    """A page of the top folder as one of the site."""
    text = re.sub(r"\]\(docs/([^)]*)\)", r"](\1)", text)
    for page, file in BESIDE.items():
        text = text.replace(f"]({file})", f"]({page})")
    return text


# what MkDocs calls, in this order


def on_config(config: Any) -> Any:
    """Put the pages that no line of mkdocs.yml names into their sections."""
    listed = set(re.findall(r"[\w/.-]+\.md", str(config.nav)))
    config.nav = [page for entry in config.nav for page in _expanded(entry, listed)]
    return config


def _expanded(entry: Any, listed: set[str]) -> list[Any]:
    """``folder/*`` is every page of that folder that is named nowhere else."""
    if isinstance(entry, dict):
        ((title, inner),) = entry.items()
        return [
            {title: [page for each in inner for page in _expanded(each, listed)] if isinstance(inner, list) else inner}
        ]
    if not entry.endswith("*"):
        return [entry]
    folder = entry.removesuffix("*")
    if folder == "reference/":
        return [{Path(page).stem: page} for page in reference() if page not in listed]
    pages = sorted((DOCS / folder).glob("*.md"))
    return [name for page in pages if (name := page.relative_to(DOCS).as_posix()) not in listed]


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for page, text in generated().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to folders and to files beside docs/ are links to their pages here; tutorials show what their cells showed."""
    kept = DOCS / Path(page.file.src_uri).with_suffix(".ipynb")
    if kept.exists():
        link = f"\n\n[The same as a notebook]({kept.name}), to run it yourself.\n\n"
        markdown = tutorials.with_outputs(markdown, nbformat.read(kept, as_version=4)).replace("\n\n", link, 1)
    markdown = re.sub(r"\]\(((?:\.\./)?(?:proofs|decisions))/\)", r"](\1/index.md)", markdown)
    for here, file in BESIDE.items():
        markdown = markdown.replace(f"](../{file})", f"]({here})")
    return markdown
