"""The checker of prose: every rule, each kind of file, exceptions."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from nightbench.core.package_files import CHECKOUT as REPO


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    assert REPO is not None
    spec = importlib.util.spec_from_file_location("check_prose", REPO / "tools/check_prose.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("sentence", "rules"),
    [
        ("The detector reports a drop of 3 %.", []),
        (" ".join(["word"] * 30) + ".", []),
        (" ".join(["word"] * 31) + ".", ["31 words, at most 30"]),
        ("The newest run unless given.", ['"unless given": write "[default: X]"']),
        ("What a night shows.", ['opens with "What": begin with the subject or an imperative']),
        ("Of a night: its noise.", ['opens with "Of": begin with the subject or an imperative']),
        ("What does n mean?", []),
        ("Offer a node; whatever runs.", []),
        (
            "The controls fell.",
            ['"fell": drop, decrease; as a verdict: regression', '"The controls": '],
        ),
        ("A control measurement of the control plane falls back; it controls a gang.", []),
        ("It is due to an error in mode 0600.", []),
        ("It BRINGS a build.", ['"BRINGS": yield, give, add']),
    ],
)
def test_each_rule_is_found_and_nothing_else(
    tool: ModuleType, sentence: str, rules: list[str]
) -> None:
    found = list(tool.faults(sentence))
    assert len(found) == len(rules)
    assert all(each.startswith(rule) for each, rule in zip(found, rules, strict=True))


def test_sentences_of_a_page_have_no_code_and_headings_may_open_with_what(tool: ModuleType) -> None:
    page = """# What it is

It runs `told 1. Told`. See
[the page](held.md).

```console
nightbench told
```

| cell | What is told |
|---|---|
| a | b |

- item
"""
    assert list(tool.sentences(page)) == [
        (3, "It runs Code."),
        (3, "See the page."),
        *((10, "cell"), (10, "What is told"), (12, "a"), (12, "b"), (14, "item")),
    ]


def test_help_and_public_docstrings_are_read_as_a_whole(tool: ModuleType) -> None:
    code = '''"""Module. Told."""
LIMIT_S = 1.0
"""Limit of a night that is told."""
@app.command()
def show(run: Annotated[str, Option("--run", help="A run." f" {X} It is told.")]):
    """Show. More."""
def other():
    """Other.

    More of it:
        continued.

    Args:
        first: of it. All.
        second: of them.

    Returns:
        Nothing.
    """
def _private():
    """Told."""
'''

    def found(path: str) -> set[str]:
        return {sentence for _, sentence in tool.prose(path, code)}

    expected = {"Module.", "Limit of a night that is told.", "Show.", "More.", "Other.", "A run."}
    expected |= {"X It is told.", "Told.", "More of it: continued.", "of it.", "All.", "of them."}
    expected |= {"Returns: Nothing."}
    assert found("plugins/nightbench/cli/a.py") == expected
    assert tool.check("a.txt", "Good.\nNobody came. It stood.\n") == [
        ("a.txt", 2, tool_rule, sentence)
        for tool_rule, sentence in (
            (
                '"Nobody": the actor: users with permission to, the operator, the DAG',
                "Nobody came.",
            ),
            ('"stood": is listed in, is in', "It stood."),
        )
    ]


def test_an_exception_is_for_one_file_and_must_be_needed(tool: ModuleType) -> None:
    found = [("a.md", 1, "rule", "It is told."), ("b.md", 1, "rule", "It is told.")]
    exceptions = [{"file": "a.md", "text": "is told", "reason": "r"}]
    assert tool.without(exceptions, found) == (found[1:], [])
    kept, unused = tool.without([{"file": "c.md", "text": "told", "reason": "r"}], found)
    assert kept == found
    assert len(unused) == 1


def test_every_exception_has_a_reason(tool: ModuleType) -> None:
    assert all(set(each) == {"file", "text", "reason"} for each in tool._RULES["exceptions"])
    assert all(each["reason"] for each in tool._RULES["exceptions"])


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        (
            "plugins/nightbench/a.py",
            'raise UserError(f"{a} is told. " "Good text.")\nfield = "held"',
            ["X is told.", "Good text."],
        ),
        (
            "plugins/nightbench/web/ui/src/a.tsx",
            'import "./told";\n// is told\n/** Shown when\n * told. */\n<b title="It is told">\n'
            "  A page\n  is told\n</b>\n`${a ? b : c} is told`\n`told`\n<Text>{x} is told</Text>",
            [
                *("Shown when X told.", "It is told", "A page is told", "X is told", "is told"),
            ],
        ),
        (
            "dags/suites/a.yaml",
            "# One comment\n# is told.\na: told b # It is told\n",
            ["One comment is told.", "It is told"],
        ),
        (
            "sql/migrations/0001-a.sql",
            "-- name: told(a)\n-- It is told.\ncomment on column a.b is\n'It''s told '\n'twice';\n",
            ["It is told.", "It's told twice"],
        ),
        (
            "sql/grafana/dashboards/a.json",
            '{\n "title": "It is told",\n "query": "told",\n "description": "Also told."\n}\n',
            ["It is told", "Also told."],
        ),
        (
            ".github/actions/a/action.yml",
            "description: It is told\ninputs:\n  a:\n    description: >-\n      Also\n      told\n"
            "    default: told\n",
            ["It is told", "Also told"],
        ),
        ("Makefile", "a: b  ## print what is told\n\ttold\n", ["print what is told"]),
    ],
)
def test_texts_of_code_pages_and_suites_are_read(
    tool: ModuleType, path: str, text: str, found: list[str]
) -> None:
    assert tool.FILES.fullmatch(path)
    read = [sentence for _, sentence in tool.prose(path, text)]
    assert [each for each in read if "told" in each or "Good" in each] == found


def test_a_finding_fails_until_it_is_corrected(
    tool: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(tool._RULES, "exceptions", [])
    tool.subprocess.run(["git", "init", "-q"], check=True)
    (tmp_path / "README.md").write_text("It is told.\n")
    (tmp_path / "SECURITY.md").write_text("It is reported.\n")
    assert tool.main([]) == 1
    assert capsys.readouterr().out.startswith('README.md:1: "told": ')
    assert tool.main(["SECURITY.md"]) == 0
    (tmp_path / "README.md").write_text("It is detected.\n")
    assert tool.main([]) == 0
