"""The size and the seams of the house: modules and lines by room, and what breaks its rules.

    python tools/house.py            the table
    python tools/house.py --check    only what breaks a rule; exit code 1 if something does
    python tools/house.py --record   write the size of each package into tools/house_sizes.txt

Rules: a class name means one thing. No module is longer than `LONGEST` lines, on the node side
either. The control plane and the agent know framework lines and their packages by data alone, never
by name. No package has more lines than tools/house_sizes.txt allows: growth shows in a diff.
"""

from __future__ import annotations

import ast
import json
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTROL_PLANE = ROOT / "plugins" / "nightbench"
AGENT = ROOT / "benchmarks" / "nodeside"
LONGEST = 400
SIZES = ROOT / "tools" / "house_sizes.txt"
RECORD = "python tools/house.py --record"


def main() -> int:
    """Print the table or the broken rules, or record the sizes; return the exit code."""
    if "--record" in sys.argv[1:]:
        rows = sorted(_sizes().items())
        SIZES.write_text("".join(f"{lines:6} {package}\n" for package, lines in rows))
        return 0
    modules = sorted(path for path in CONTROL_PLANE.rglob("*.py"))
    broken = [
        *_shared_class_names(modules),
        *_long_modules([*modules, *(ROOT / "benchmarks").rglob("*.py")]),
        *_named_lines([*modules, *sorted(AGENT.glob("*.py"))]),
        *_grown_packages(),
    ]
    if "--check" not in sys.argv[1:]:
        _print_table(modules)
    for sentence in broken:
        print(sentence)
    return 1 if broken and "--check" in sys.argv[1:] else 0


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def _sizes() -> dict[str, int]:
    """Return the lines of Python of each package of plugins/nightbench, and of benchmarks."""
    found: dict[str, int] = defaultdict(int)
    listed = subprocess.run(
        ["git", "ls-files", "plugins/nightbench/*.py", "benchmarks/*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    for path in map(Path, listed):
        depth = 3 if path.parts[0] == "plugins" and len(path.parts) > 3 else 2
        package = "benchmarks" if path.parts[0] == "benchmarks" else "/".join(path.parts[:depth])
        if (ROOT / path).exists():
            found[package] += _lines(ROOT / path)
    return found


def _grown_packages() -> list[str]:
    allowed = {
        package: int(lines) for lines, package in map(str.split, SIZES.read_text().splitlines())
    }
    return [
        f"{package} has {lines} lines; expected {allowed.get(package, 0)} at most. Remove as many "
        f"as you add, or decide for the growth: {RECORD}"
        for package, lines in sorted(_sizes().items())
        if lines > allowed.get(package, 0)
    ]


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
