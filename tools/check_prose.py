"""Check the prose that users and maintainers read against the rules of tools/prose.toml.

    python tools/check_prose.py             print all findings
    python tools/check_prose.py FILE ...    print the findings of these files

It reads the documentation and decisions, the golden file of messages, help texts, other texts of
three words or more in the code and in JSON files of lines, workloads and contract, the texts of
the pages, and public docstrings, also of
attributes. It also reads comments of YAML, SQL, Dockerfiles, shell scripts and the Makefile, and
titles and descriptions of dashboards, charts, workflows and issue forms.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt

REPO = Path(__file__).resolve().parent.parent
FILES = re.compile(
    r"(README|CHANGELOG|CONTRIBUTING|SECURITY|docs/(adr/|reference/)?[^/]+|(benchmarks|tests|sql/\w+)/README)\.md"
    r"|(plugins|benchmarks)/.+\.py|benchmarks/(contract|frameworks|workloads)/.+\.json|tests/unit/golden/messages\.txt"
    r"|plugins/nightbench/(cli/template/.+\.md|report/templates/.+\.(txt|html))"
    r"|plugins/nightbench/web/ui/src/.+\.tsx?|(dags|plugins/nightbench/cli/template)/.+\.yaml"
    r"|Makefile|\.ci/.+|(docker|\.github|\.gitlab|sql)/(?!.*\.(csv|md)$).+"
)
LONGEST = 30  # words of a sentence
_END = re.compile(r"(?<=[.!?])[)\"]?\s+(?=[A-Z0-9\"(])")
_OPENING = re.compile(r"(What|Of)\b(?!.*\?$)")
_NO_TEXT = re.compile(r"\{%.*?%\}|\{#.*?#\}|<(style|script).*?</\1>|<[^>]+>", re.S)
_COMMENT = re.compile(r"(?:^ *#(?![!:]| syntax=).*\n)+|(?<= )##? .*\n", re.M)
_SQL_TEXT = re.compile(
    r"(?:^ *--(?! name: ).*\n)+|(?<=\bis)\s+'(?P<comment>(?:[^']|''|'\n\s*')*)'", re.M
)
_VALUE = re.compile(
    r"^(?P<indent>[ -]*)\"?(?:\w*title|description|label|placeholder|about|slice_name|content)\"?:"
    r"(?: [|>]-?\n(?P<block>(?:(?:(?P=indent) .*)?\n)+)| (?P<line>[^|>\n].*))",
    re.M,
)
_PAGE_TEXT = re.compile(
    r"//[^\n]*|/\*\*(?P<comment>.+?)\*/"
    r'|"(?P<string>[^"\n]*)"|`(?P<template>[^`]*)`'
    r"|(?<=[>}])(?P<jsx>[^<>{}=;*\"`]*[a-z] [a-z][^<>{}=;*\"`]*)(?=[<{])",
    re.S,
)
_SECTION = re.compile(r"^(?:Args|Returns|Yields|Raises|Attributes):\n(?:(?: {4}.*)?\n?)+", re.M)
_ITEM = re.compile(r"^(?:\w+:\n)? {4}\w[\w*. ,]{0,40}: ", re.M)
_RULES = tomllib.loads((REPO / "tools/prose.toml").read_text(encoding="utf-8"))
_TERMS = {re.compile(rf"\b(?:{key})\b", re.I): better for key, better in _RULES["terms"].items()}
_PLAIN = {"softbreak": " ", "hardbreak": " ", "code_inline": "Code", "image": ""}
_MARKDOWN = MarkdownIt().enable("table")
Finding = tuple[str, int, str, str]
"""Path, line, rule, and the sentence that breaks it."""


def faults(sentence: str) -> Iterator[str]:
    """Yield the rules that a sentence breaks."""
    if (length := len(re.findall(r"\b(?!Code\b)\w\S*", sentence))) > LONGEST:
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
    elif path.endswith((".html", ".txt")):
        text = _NO_TEXT.sub(lambda found: "\n" * found[0].count("\n") or " | ", text)
        for line, message in enumerate(re.sub(r"\{\{.*?\}\}", "X", text).splitlines(), 1):
            parts = [each.strip() for part in message.split(" | ") for each in _END.split(part)]
            yield from ((line, each) for each in parts)
    elif path.endswith(".py"):
        yield from _code(path, ast.parse(text))
    elif path.endswith(".json") and path.startswith("benchmarks/"):
        for found in re.finditer(r'(?<=: )"((?:[^"\\]|\\.)*)"', text):
            yield from _at(text, found, found[1] if len(found[1].split()) > 2 else "")
    elif path.endswith(".sql"):
        for found in _SQL_TEXT.finditer(text):
            shown = found["comment"] or re.sub(r"^ *-- ?", "", found[0], flags=re.M)
            yield from _at(text, found, re.sub(r"'\n\s*'", "", shown).replace("''", "'"))
    elif not path.endswith((".ts", ".tsx")):
        for found in _COMMENT.finditer(text):
            yield from _at(text, found, re.sub(r"^ *##? ?", "", found[0], flags=re.M))
        for found in _VALUE.finditer(text):
            yield from _at(text, found, (found["block"] or found["line"]).strip(' ",\n'))
    else:
        for found in _PAGE_TEXT.finditer(text):
            shown = found[found.lastgroup].strip("* \n") if found.lastgroup else ""
            if " " in shown or shown[:1].isupper():
                yield from _at(text, found, re.sub(r"\$\{[^}]*\}|\n *\*", " X ", shown))


def _at(text: str, found: re.Match[str], shown: str) -> Iterator[tuple[int, str]]:
    line = text.count("\n", 0, found.start()) + 1
    return ((line, each) for _, each in sentences(shown))


def _items(section: re.Match[str]) -> str:
    """Return the items of a section of a docstring as paragraphs, without their names."""
    return re.sub(r"^ {4,}", "", _ITEM.sub("\n\n", section[0]), flags=re.M)


def _code(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the sentences of texts and of public docstrings; each argument begins a sentence."""
    known: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            known |= {each.value for each in node.body[:1] if isinstance(each, ast.Expr)}
            shown = _SECTION.sub(_items, ast.get_docstring(node) or "")
            found = [each for _, each in sentences(shown)]
            decorators = map(ast.unparse, getattr(node, "decorator_list", []))
            if not any(".command(" in each for each in decorators):
                found = [] if getattr(node, "name", "").startswith("_") else found
        elif isinstance(node, ast.JoinedStr | ast.Constant) and node not in known:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            known.update(parts)
            shown = "".join(
                str(getattr(each, "value", "X")) if isinstance(each, ast.Constant) else "X"
                for each in parts
            )
            found = [each for _, each in sentences(shown)] if len(shown.split()) > 2 else []
        else:
            continue
        yield from ((getattr(node, "lineno", 1), each) for each in found)


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


def main(words: list[str]) -> int:
    """Print the findings of all files, or of some; return the exit code."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [each for each in listed if FILES.fullmatch(each) and Path(each).exists()]
    everything = [each for path in paths for each in check(path, Path(path).read_text("utf-8"))]
    findings, wrong = without(_RULES["exceptions"], everything)
    wrong += [f"{p}:{line}: {r}: {s}" for p, line, r, s in findings if not words or p in words]
    print("\n".join(wrong) or f"{len(paths)} files, no findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.chdir(REPO)
    sys.exit(main(sys.argv[1:]))
