"""Check the Markdown pages: links, paths, `make` targets and commands exist; layers agree.

In backticks and code blocks a `nightbench` command and its options must be those of the program.

The picture in docs/architecture.md has to show the layers of import-linter's contract. The comment
of each file in sql/queries/analysts has to begin with the paragraph of docs/questions*.md about it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import typer.main

from nightbench.cli.main import app

REPO = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
MAKE = re.compile(r"(?:^|`)\s*make ([a-z-]+)\b", re.MULTILINE)
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
PATH = re.compile(r"`((?:benchmarks|dags|docker|plugins|sql|tests)/[^`\s]*)`")
COMMAND = re.compile(r"(?:^ *|`)(nightbench (?:[^`#\n\\]|\\\n)*)", re.MULTILINE)
QUESTION = re.compile(r"^#{2,3} (\w+)\n\n([^#].+?)\n\n", re.MULTILINE | re.DOTALL)
LAYERS = re.compile(r"^```text layers\n(.*?)^```", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+\s+(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def faults(page: Path, targets: set[str]) -> list[str]:
    """Return what is wrong on one page, one line each."""
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = []
    for link in LINK.findall(prose):
        if re.match(r"[a-z]+:", link):
            continue  # another site: no network in a check
        path, _, anchor = link.partition("#")
        goal = (page.parent / path).resolve() if path else page
        if not goal.exists():
            found.append(f"{page}: link to {link}: no such file")
        elif anchor and goal.suffix == ".md" and anchor not in anchors(goal.read_text("utf-8")):
            found.append(f"{page}: link to {link}: no such heading")
    found += [
        f"{page}: `{path}`: no such path"
        for path in PATH.findall(prose)
        if not any(REPO.glob(re.sub(r"<[^>]*>", "*", path)))
    ]
    found += [
        f"{page}: make {name}: no such target in the Makefile"
        for name in MAKE.findall(text)
        if name not in targets
    ]
    return found


def command_faults(page: Path) -> list[str]:
    """Return the commands and options on a page that the program does not have."""
    found = []
    known_commands = typer.main.get_command(app).load_all()
    for said in COMMAND.findall(page.read_text(encoding="utf-8")):
        command: Any = None
        commands: dict[str, Any] = known_commands
        words = re.split(r"\s+", said.replace("\\\n", " ").split(">")[0])[1:]
        while words and commands and re.fullmatch("[a-z][a-z0-9-]*", words[0]):
            name = words.pop(0).rstrip(",")
            if name not in commands:
                found.append(f"{page}: {said.strip()}: no command {name}")
                break
            command = commands[name]
            commands = getattr(command, "commands", {})
        if command is None:
            continue
        command = commands.get(getattr(command, "default", ""), command)
        if command.name == "airflow":
            continue  # the rest is Airflow's
        known = {option for each in command.params for option in each.opts} | {"--help"}
        for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(words)):
            if option not in known:
                found.append(f"{page}: {said.strip()}: no option {option}")
    return found


def layer_faults(page: Path) -> list[str]:
    """Return where the layers that a page shows are not those of import-linter's contract."""
    document = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = document["tool"]["importlinter"]["contracts"]
    expected = next(each["layers"] for each in contracts if each["type"] == "layers")
    picture = LAYERS.search(page.read_text(encoding="utf-8"))
    if picture is None:
        return [f"{page}: found no block ```text layers; expected the layers of pyproject.toml"]
    lines = picture.group(1).splitlines()
    shown = [re.split(r"\s{2,}", line.strip())[0] for line in lines if line.strip()]
    if shown == expected:
        return []
    return [f"{page}: layers: found {shown}; expected those of pyproject.toml, {expected}"]


def question_faults(folder: Path) -> list[str]:
    """Return the questions in SQL whose comment does not begin as the documentation of the file."""
    found = []
    pages = [page.read_text(encoding="utf-8") for page in (REPO / "docs").glob("questions*.md")]
    described = {name: text for page in pages for name, text in QUESTION.findall(page)}
    for path in sorted(folder.glob("*.sql")):
        header = re.match(r"(?:-- .*\n)+", path.read_text(encoding="utf-8"))
        said = " ".join(header[0].replace("-- ", "").split()) if header else ""
        text = re.sub(r"\[([^\]]+)\]\([^)]+\)|\*(\w+)\*", r"\1\2", described.get(path.stem, ""))
        if not text or not said.startswith(" ".join(text.split())):
            found.append(f"{path}: found a comment other than the paragraph in docs/questions*.md")
    return found


def main() -> int:
    """Check every tracked page; return the exit status."""
    listing = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=REPO, capture_output=True, text=True, check=True
    )
    targets = set(TARGET.findall((REPO / "Makefile").read_text(encoding="utf-8")))
    pages = [REPO / name for name in listing.stdout.splitlines()]
    found = [fault for page in pages if page.exists() for fault in faults(page, targets)]
    found += [fault for page in pages if page.exists() for fault in command_faults(page)]
    found += layer_faults(REPO / "docs" / "architecture.md")
    found += question_faults(REPO / "sql" / "queries" / "analysts")
    print("\n".join(found) or f"{len(pages)} pages, all links and paths lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
