"""YAML and JSON files, read with line numbers so that every error names its line.

A `Document` is the plain data of a YAML or JSON file with the line of every key and item. YAML's
parser, which knows the lines, reads JSON too.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from nightbench.core.complaints import Complaint, Key, describe
from nightbench.core.errors import UserError
from nightbench.core.printable import escaped


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong in a file."""

    line: int
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.key}: {self.message}" if self.key else self.message


class ConfigError(UserError):
    """Everything that is wrong with one file, one line for each problem."""

    def __init__(self, path: Path, problems: Iterable[Problem]) -> None:
        """Sort the problems by line; the message holds all of them."""
        self.path = path
        self.problems = tuple(sorted(set(problems)))
        shown = display(path)
        super().__init__("\n".join(f"{shown}:{p.line}: {p}" for p in self.problems))


@dataclass(frozen=True)
class Document:
    """The data of a file, the line of each of its keys and items, and what is wrong with them."""

    path: Path
    data: Mapping[str, Any]
    lines: Mapping[Key, int] = field(repr=False, compare=False)
    """The line of each key; 1 is the first."""
    problems: list[Problem] = field(default_factory=list)

    def problem(self, key: Sequence[str | int], message: str) -> Problem:
        """Name what is wrong at a key; the nearest enclosing one when the key is not written."""
        known = tuple(key)
        while known and known not in self.lines:
            known = known[:-1]
        return Problem(self.lines.get(known, 1), key_path(known), message)

    def complain(self, key: Sequence[str | int], message: str) -> None:
        """Add what is wrong at a key to the problems."""
        self.problems.append(self.problem(key, message))

    def add(self, complaints: Iterable[Complaint]) -> None:
        """Add what was found after the validation to the problems."""
        for each in complaints:
            if each.is_missing:
                line = self.problem(each.key[:-1], "").line
                message = f"is missing; expected: {each.message}"
                self.problems.append(Problem(line, key_path(each.key), message))
                continue
            first = f" (first on line {self.lines[each.first]})" if each.first is not None else ""
            tried = (each.key, *each.others)
            key = next((key for key in tried if key in self.lines), each.key)
            self.complain(key, each.message + first)

    def complain_of_name(self, key: str) -> None:
        """Add that the file calls itself otherwise than it is named, if it does."""
        found = self.data.get(key)
        of_folder = self.path.suffix == ".json"
        name = self.path.parent.name if of_folder else self.path.stem
        if isinstance(found, str) and found != name:
            what = "its folder" if of_folder else "the file"
            message = f'found {describe(found)}; expected the name of {what}, "{name}"'
            self.complain((key,), message)

    @property
    def error(self) -> ConfigError:
        """All that is wrong with the file."""
        return ConfigError(self.path, self.problems)


def display(path: Path) -> str:
    """Return the path as a user would type it: relative if it is below the folder."""
    try:
        return escaped(str(path.absolute().relative_to(Path.cwd())))
    except ValueError:
        return escaped(str(path))


def key_path(key: Sequence[str | int]) -> str:
    """Write a key as people read it: `matrix[1].frameworks[0]`."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        UserError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{display(path)}: no such file") from None
    except OSError as error:
        # Its text would repeat the path.
        raise UserError(f"{display(path)}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{display(path)}: cannot be read: {error}; save it as UTF-8") from error


def read_document(path: Path, chosen: Mapping[Key, str] = MappingProxyType({})) -> Document:
    """Read a YAML or JSON file whose top level is a mapping.

    `chosen` are keys whose value is one of the values in it.

    Raises:
        ConfigError: the file cannot be read, is no YAML (a `.json` file: no JSON), or has a key
            twice.
    """
    text = read_text(path)
    try:
        if path.suffix == ".json":
            _expect_json(path, text)
        data, lines = _parsed(path, text, chosen)
    except RecursionError:
        said = "found hundreds of nested lists or mappings; expected a few levels"
        raise ConfigError(path, [Problem(1, "", said)]) from None
    return Document(path, data, lines)


_YAML_REMEDIES = {
    r"character '\t'": "replace the tab by spaces",
    "found ','": "remove the comma: only a list in [ ] and a mapping in { } have commas",
    "mapping values are not allowed": "put a text with a colon in it in quotes",
    "expected ',' or ']'": "close the list with ]",
    "expected ',' or '}'": "close the mapping with }",
}
"""Sign of a mistake in the parser's message -> what corrects it."""


def _parsed(
    path: Path, text: str, chosen: Mapping[Key, str]
) -> tuple[dict[str, Any], Mapping[Key, int]]:
    try:
        root = _root(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        said = f"not valid YAML: found the character U+{error.character:04X}; expected text"
        raise ConfigError(path, [Problem(line, "", said)]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        said = " ".join(part for part in (error.context, error.problem) if part)
        remedy = next((f"; {do}" for sign, do in _YAML_REMEDIES.items() if sign in said), "")
        raise ConfigError(path, [Problem(line, "", f"not valid YAML: {said}{remedy}")]) from None
    except yaml.YAMLError as error:
        raise ConfigError(path, [Problem(1, "", f"not valid YAML: {error}")]) from None
    reader = _Reader(chosen)
    data = reader.value(root, ()) if root is not None else None
    if reader.problems:
        raise ConfigError(path, reader.problems)
    if not isinstance(data, dict):
        message = f"found {describe(data)}; expected a mapping of keys to values"
        raise ConfigError(path, [Problem(1, "", message)])
    return data, reader.lines


def _root(text: str) -> yaml.Node | None:
    """Parse by libyaml, which takes a tenth of the time; PyYAML's own errors say more.

    Raises: RecursionError: more than `MOST_LEVELS`. libyaml itself would overflow the stack, which
        ends the process.
    """
    level = 0
    try:
        for event in yaml.parse(text, _FastLoader):
            level += isinstance(event, yaml.CollectionStartEvent)
            level -= isinstance(event, yaml.CollectionEndEvent)
            if level > MOST_LEVELS:
                raise RecursionError
        found: yaml.Node | None = yaml.compose(text, _FastLoader)
    except yaml.YAMLError:
        found = yaml.compose(text, _Loader)
    return found


def _expect_json(path: Path, text: str) -> None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        said = f"not valid JSON, in column {error.colno}: {error.msg}"
        raise ConfigError(path, [Problem(error.lineno, "", said)]) from None
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(path, [Problem(1, "", f"not valid JSON: {error}")]) from None


class _Loader(yaml.SafeLoader):
    """YAML 1.2's plain scalars: `on`, `22:00`, `010` and dates are text, not surprises."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?[0-9]+[eE][-+]?[0-9]+", "-+0123456789"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), list(_first)
    )


class _FastLoader(yaml.CSafeLoader):
    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


MOST_LEVELS = 100
"""Most lists and mappings of a file that are inside each other."""

MOST_VALUES = 200_000
"""Most values of a file; aliases of aliases in a few lines of YAML stand for billions."""

_SCALARS = frozenset({"str", "int", "float", "bool", "null"})


class _Reader:
    """Turns YAML nodes into data, remembers lines, and finds keys that stand twice."""

    def __init__(self, chosen: Mapping[Key, str]) -> None:
        self._chosen = dict(chosen)
        self.lines: dict[Key, int] = {}
        self.problems: list[Problem] = []
        self._loader = _Loader("")
        self._open: list[int] = []
        self._values = 0

    def value(self, node: yaml.Node, key: Key) -> Any:
        self._values += 1
        if self._values >= MOST_VALUES:
            if self._values == MOST_VALUES:
                self._complain(node, key, f"found more than {MOST_VALUES:,} values in this file")
            return None
        self.lines.setdefault(key, node.start_mark.line + 1)
        if id(node) in self._open:
            self._complain(node, key, "an anchor must not contain itself")
            return None
        self._open.append(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, key)
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, (*key, i)) for i, item in enumerate(node.value)]
            return self._scalar(node, key)
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, key: Key) -> Any:
        data: dict[str, Any] = {}
        word = self._chosen.pop(key, None)
        for name_node, item in node.value:
            line = name_node.start_mark.line + 1
            if not isinstance(name_node, yaml.ScalarNode):
                self._complain(name_node, key, "a key must be a word")
                continue
            name = str(name_node.value)
            if name in data:
                first = self.lines[*key, name]
                message = f"found this key twice (first on line {first}); expected it once"
                self.problems.append(Problem(line, key_path((*key, name)), message))
                continue
            self.lines[*key, name] = line
            if word is None:
                data[name] = self.value(item, (*key, name))
            elif name == word:
                return self.value(item, key)
        return data

    def _scalar(self, node: yaml.Node, key: Key) -> Any:
        if node.tag.removeprefix("tag:yaml.org,2002:") not in _SCALARS:
            self._complain(node, key, f'found the tag "{node.tag}"; expected a plain value')
            return None
        try:
            str(node.value).encode()
        except UnicodeEncodeError:
            self._complain(node, key, "found half of a surrogate pair; write the character itself")
            return None
        try:
            return self._loader.construct_object(node)
        except (ValueError, yaml.YAMLError) as error:
            self._complain(node, key, f'found "{node.value}", which cannot be read: {error}')
            return None

    def _complain(self, node: yaml.Node, key: Key, message: str) -> None:
        self.problems.append(Problem(node.start_mark.line + 1, key_path(key), message))
