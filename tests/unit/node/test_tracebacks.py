"""What a node reports of an exception in a rank."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from node_driver import one_node
from nodeside.tracebacks import LINES, read_failure

CODE = "/home/bench/code/abc"
FRAMES = f"""Traceback (most recent call last):
  File "{CODE}/rank.py", line 215, in <module>
    sys.exit(main())
  File "{CODE}/workloads/net/pytorch.py", line 12, in loss
    return cross_entropy(model(x), y)
  File "/opt/torch/nn/functional.py", line 3029, in cross_entropy
    return torch._C._nn.cross_entropy_loss(input, target)
"""
PLACE = " (workloads/net/pytorch.py, line 12)"


def failure(tmp_path: Path, text: str, env: dict[str, str] | None = None):
    log = tmp_path / "out.log"
    log.write_text(text)
    return read_failure(str(log), CODE, env or {})


def test_the_exception_has_its_place_in_the_author_s_code(tmp_path):
    found = failure(tmp_path, "step 1\n" + FRAMES + "ValueError: bad shape\n")
    assert found.exception == "ValueError: bad shape" + PLACE
    assert found.lines.startswith("Traceback")
    assert found.lines.endswith("ValueError: bad shape")
    assert CODE not in found.lines


def test_a_missing_package_names_the_file_of_the_line_s_packages(tmp_path):
    code, log = tmp_path / "code", tmp_path / "out.log"
    packages = "frameworks/thing/requirements-cpu.in"
    (code / packages).parent.mkdir(parents=True)
    (code / packages).touch()
    for module, said in (("scipy.linalg", f"; the line's packages are listed in {packages}"),
                         ("frameworks.think", "")):  # fmt: skip
        end = f"ModuleNotFoundError: No module named '{module}'"
        log.write_text(FRAMES.replace(CODE, str(code)) + end)
        found = read_failure(str(log), str(code), {}, packages).exception
        assert found == f"{end}{PLACE}{said}"
    log.write_text(FRAMES.replace(CODE, str(code)) + "ModuleNotFoundError: No module named 'x'")
    assert "packages" not in read_failure(str(log), str(code), {}, "absent.in").exception


def test_the_last_traceback_counts_and_what_follows_it_does_not_push_it_out(tmp_path):
    text = FRAMES + "KeyError: 'a'\n\nDuring handling of the above exception:\n\n" + FRAMES
    found = failure(tmp_path, text + "RuntimeError: b\n" + "leaked object\n" * 50)
    assert found.exception == "RuntimeError: b" + PLACE
    assert "RuntimeError: b" in found.lines
    assert len(found.lines.splitlines()) <= LINES


def test_pytorch_prefixes_the_lines_of_a_grouped_rank(tmp_path):
    text = "".join(f"[rank1]: {line}\n" for line in (FRAMES + "OSError: no").splitlines())
    assert failure(tmp_path, text).exception == "OSError: no" + PLACE


def test_a_syntax_error_names_file_and_line(tmp_path):
    text = FRAMES + f'  File "{CODE}/frameworks/new/trainer.py", line 3\n    def\n       ^\n'
    found = failure(tmp_path, text + "SyntaxError: invalid syntax\n")
    assert found.exception == "SyntaxError: invalid syntax (frameworks/new/trainer.py, line 3)"


@pytest.mark.parametrize("text", ["", "a\n" * 100 + "no data set in /data\n"])
def test_without_a_traceback_the_end_of_the_output_is_the_error(tmp_path, text):
    found = failure(tmp_path, text)
    assert found.exception is None
    assert found.lines.splitlines()[-1:] == text.splitlines()[-1:]
    assert len(found.lines.splitlines()) <= LINES


def test_secrets_are_masked(tmp_path):
    env = {"HF_TOKEN": "hf_verysecret", "PATH": "/usr/bin", "API_KEY": "1"}
    text = FRAMES + "OSError: hf_verysecret refused by https://me:pw@index.example.org/1\n"
    found = failure(tmp_path, text, env)
    assert found.exception == "OSError: *** refused by https://***@index.example.org/1" + PLACE
    assert "secret" not in found.lines


def test_endless_lines_are_cut(tmp_path):
    found = failure(tmp_path, FRAMES + "ValueError: " + "x" * 5000)
    assert len(found.exception) < 400
    assert len(found.lines) < 4096


def test_an_exception_in_a_rank_reaches_result_json(drive):
    node = drive(one_node(), params={"die_at_step": 3, "rank": 1, "die_raise": "no such layer"})
    node.go()
    result = node.result()
    ended, raised = result["reasons"]
    assert (ended["code"], ended["observed"]) == ("process_exited", "code 1")
    assert (raised["code"], raised["subject"]) == ("exception", "trainer-1")
    assert raised["observed"].startswith("RuntimeError: no such layer (frameworks/fake/faults.py, ")
    errors = {process["name"]: process["error"] for process in result["processes"]}
    assert errors["trainer-0"] is None, "it was ended, and did not fail"
    assert errors["trainer-1"].endswith("RuntimeError: no such layer")


def test_a_rank_failed_when_it_raised_and_not_when_it_had_ended(drive):
    knobs = {"die_at_step": 3, "rank": 1, "die_raise": "no such layer", "die_for_s": 2.0}
    node = drive(one_node(), params=knobs)
    node.go()
    (failed_s,) = (p["failed_s"] for p in node.result()["processes"] if p["error"])
    written = (node.repeat(1) / "trainer-1" / "out.log").stat().st_mtime
    assert time.time() - (time.monotonic() - failed_s) - written < 1.0
