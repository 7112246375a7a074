"""The size and the seams of the house: modules and lines by room, and what breaks its rules.

    python tools/house.py            the table
    python tools/house.py --check    only what breaks a rule; exit code 1 where something does

Rules: a class name stands for one thing; no module is longer than `LONGEST` lines, on the
node side either; the control
plane and the agent know framework lines and their packages by data alone, never by name.
"""

from __future__ import annotations

import ast
import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTROL_PLANE = ROOT / "plugins" / "nightbench"
AGENT = ROOT / "benchmarks" / "nodeside"
LONGEST = 400


def main() -> int:
    """Print the table or the broken rules; return the exit code."""
    modules = sorted(path for path in CONTROL_PLANE.rglob("*.py"))
    broken = [
        *_shared_class_names(modules),
        *_long_modules([*modules, *(ROOT / "benchmarks").rglob("*.py")]),
        *_named_lines([*modules, *sorted(AGENT.glob("*.py"))]),
    ]
    if "--check" not in sys.argv[1:]:
        _print_table(modules)
    for sentence in broken:
        print(sentence)
    return 1 if broken and "--check" in sys.argv[1:] else 0


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def _print_table(modules: list[Path]) -> None:
    rooms: dict[str, list[int]] = defaultdict(list)
    for path in modules:
        inside = path.relative_to(CONTROL_PLANE)
        if path.name != "__init__.py":
            rooms[inside.parts[0] if len(inside.parts) > 1 else "."].append(_lines(path))
    print(f"{'room':16}{'modules':>8}{'lines':>8}{'median':>8}{'longest':>8}")
    for room, lines in [*rooms.items(), ("all", [n for each in rooms.values() for n in each])]:
        middle = statistics.median(lines)
        print(f"{room:16}{len(lines):8}{sum(lines):8}{middle:8.0f}{max(lines):8}")
    print("(without __init__.py)")


def _shared_class_names(modules: list[Path]) -> list[str]:
    where: dict[str, list[str]] = defaultdict(list)
    for path in modules:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(str(path.relative_to(ROOT)))
    return [
        f"class {name} is defined in {len(paths)} modules: {', '.join(paths)}"
        for name, paths in sorted(where.items())
        if len(paths) > 1
    ]


def _long_modules(modules: list[Path]) -> list[str]:
    lengths = {path.relative_to(ROOT): _lines(path) for path in modules}
    return [
        f"{path} has {length} lines; expected {LONGEST} at most"
        for path, length in lengths.items()
        if length > LONGEST
    ]


def _named_lines(modules: list[Path]) -> list[str]:
    """Strings in code, docstrings not, that are the name of a line or of its package."""
    names: set[str] = set()
    for path in (ROOT / "benchmarks" / "frameworks").glob("*/framework.json"):
        document = json.loads(path.read_text())
        names |= {document["line"], document.get("package", document["line"])}
    word = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
    found = []
    for path in modules:
        tree = ast.parse(path.read_text())
        prose = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        found += [
            f'{path.relative_to(ROOT)}:{node.lineno} names the line or package "{match[0]}"'
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in prose
            and (match := word.search(node.value))
        ]
    return found


if __name__ == "__main__":
    sys.exit(main())
