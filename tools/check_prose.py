"""Check the prose that users and maintainers read against the rules of tools/prose.toml.

    python tools/check_prose.py             compare the findings with tools/prose_baseline.txt
    python tools/check_prose.py FILE ...    print all findings of these files
    python tools/check_prose.py --update    lower the numbers in tools/prose_baseline.txt

It reads the documentation, the help texts of the command line, the golden file of messages and the
first sentence of each public docstring. `--update` never raises a number; a new file may have the
findings of files that are gone.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt

REPO = Path(__file__).resolve().parent.parent
BASELINE = Path("tools/prose_baseline.txt")
UPDATE = "python tools/check_prose.py --update"
FILES = re.compile(
    r"(README|CHANGELOG|CONTRIBUTING|SECURITY|docs/[^/]+|(benchmarks|tests|sql/migrations)/README)\.md"
    r"|(plugins|benchmarks)/.+\.py|tests/unit/golden/messages\.txt"
)
LONGEST = 30  # words of a sentence
_END = re.compile(r"(?<=[.!?])[)\"]?\s+(?=[A-Z0-9\"(])")
_OPENING = re.compile(r"(What|Of)\b(?!.*\?$)")
_RULES = tomllib.loads((REPO / "tools/prose.toml").read_text(encoding="utf-8"))
_TERMS = {re.compile(rf"\b(?:{key})\b", re.I): better for key, better in _RULES["terms"].items()}
_PLAIN = {"softbreak": " ", "hardbreak": " ", "code_inline": "Code", "image": ""}
_MARKDOWN = MarkdownIt().enable("table")
Finding = tuple[str, int, str, str]
"""Path, line, rule, and the sentence that breaks it."""


def faults(sentence: str) -> Iterator[str]:
    """Yield the rules that a sentence breaks."""
    if (length := len(re.findall(r"\w\S*", sentence))) > LONGEST:
        yield f"{length} words, at most {LONGEST}"
    if "unless given" in sentence:
        yield '"unless given": write "[default: X]"'
    if opening := _OPENING.match(sentence):
        yield f'opens with "{opening[1]}": begin with the subject or an imperative'
    for term, better in _TERMS.items():
        yield from (f'"{found[0]}": {better}' for found in term.finditer(sentence))


def sentences(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each sentence, without code; headings may open with "What"."""
    line, heading = 1, False
    for token in _MARKDOWN.parse(markdown):
        line = token.map[0] + 1 if token.map else line
        if token.type == "inline":
            kinds = [(each.type, each.content) for each in token.children or []]
            parts = [_PLAIN.get(kind, text) for kind, text in kinds]
            found = _END.split(" ".join("".join(parts).split()))
            yield from ((line, each) for each in found if not (heading and _OPENING.match(each)))
        heading = token.type == "heading_open"


def prose(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each sentence of a file that is checked."""
    if path.endswith(".md"):
        yield from sentences(text)
    elif path.endswith(".txt"):
        for line, message in enumerate(text.splitlines(), 1):
            yield from ((line, each) for each in _END.split(message))
    else:
        for node in ast.walk(ast.parse(text)):
            yield from ((getattr(node, "lineno", 1), each) for each in _strings(path, node))


def _strings(path: str, node: ast.AST) -> list[str]:
    """Return the sentences of a help text, or the first one of a public docstring."""
    commands = path.startswith("plugins/nightbench/cli/")
    if commands and isinstance(node, ast.keyword) and node.arg == "help":
        parts = [str(each.value) for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
        # A word alone is the name of a field whose text is the help.
        return [each for _, each in sentences("".join(p for p in parts if not p.isidentifier()))]
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    found = [each for _, each in sentences(ast.get_docstring(node) or "")]
    if commands and any(".command(" in ast.unparse(d) for d in getattr(node, "decorator_list", [])):
        return found
    return [] if getattr(node, "name", "").startswith("_") else found[:1]


def check(path: str, text: str) -> list[Finding]:
    """Return the findings of a file, in their order."""
    found = prose(path, text)
    return [(path, line, rule, each) for line, each in found for rule in faults(each)]


def without(
    exceptions: list[dict[str, str]], found: list[Finding]
) -> tuple[list[Finding], list[str]]:
    """Return the findings that are no exceptions, and a line for each unused exception."""
    unused = []
    for each in exceptions:
        kept = [f for f in found if f[0] != each["file"] or each["text"] not in f[3]]
        if kept == found:
            unused.append(f"tools/prose.toml: nothing needs the exception {each}")
        found = kept
    return found, unused


def shrinks(found: Counter[str], allowed: dict[str, int]) -> bool:
    """Return whether no file has more findings, nor new files more than those that are gone."""
    new = sum(number for path, number in found.items() if path not in allowed)
    gone = sum(number for path, number in allowed.items() if not Path(path).exists())
    return new <= gone and all(number >= found[path] for path, number in allowed.items())


def main(words: list[str]) -> int:
    """Compare with the baseline, update it, or print findings; return the exit code."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [each for each in listed if FILES.fullmatch(each) and Path(each).exists()]
    everything = [each for path in paths for each in check(path, Path(path).read_text("utf-8"))]
    findings, wrong = without(_RULES["exceptions"], everything)
    lines = {path: [f"{p}:{n}: {r}: {s}" for p, n, r, s in findings if p == path] for path in paths}
    if words and words != ["--update"]:
        print("\n".join(line for path in words for line in lines.get(path, [])) or "no findings")
        return 0
    found = Counter(each[0] for each in findings)
    rows = BASELINE.read_text("utf-8").splitlines() if BASELINE.exists() else []
    allowed = {path: int(number) for number, path in map(str.split, rows)}
    if words and (not rows or shrinks(found, allowed)):
        allowed = dict(found)
        BASELINE.write_text("".join(f"{found[path]:4} {path}\n" for path in sorted(found)), "utf-8")
    for path in sorted({*found, *allowed}):
        number, most = found[path], allowed.get(path, 0)
        if number > most:
            wrong += [*lines[path], f"{path}: found {number} findings; expected {most} at most"]
        elif number < most:
            wrong.append(f"{path}: found {number} findings, fewer than {most}: {UPDATE}")
    print("\n".join(wrong) or f"{len(paths)} files, {len(findings)} findings as in {BASELINE}")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.chdir(REPO)
    sys.exit(main(sys.argv[1:]))
