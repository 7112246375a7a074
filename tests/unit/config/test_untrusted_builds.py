"""Builds from the form and from REST: where they may lie, and what a refusal tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightbench.config.builds import parse_untrusted_build, stage_wheels
from nightbench.core.errors import UserError
from nightbench.core.model import Cluster, ComparePolicy, EnvironmentPolicy, Node

NODES = (Node("n1", "10.0.0.1", "c"),)
LAB = Cluster("lab", NODES, environments=EnvironmentPolicy(prefix_roots=("/opt/fw", "~/fw/")))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("NIGHTBENCH_WHEELS", str(folder))
    return folder


def wheel(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"a wheel")
    return path


@pytest.mark.parametrize("path", ["/opt/fw/a", "/opt/fw/a/b", "~/fw/a"])
def test_a_prefix_below_a_root_of_the_cluster(path: str) -> None:
    assert parse_untrusted_build(f"pytorch={path}", LAB).location == path


@pytest.mark.parametrize(
    "path", ["/opt/fw", "/opt/fwx/a", "/opt/fw/../x", "/opt/fw//a", "/tmp/a", "~/x", "~root/fw/a"]
)
def test_a_prefix_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(UserError, match=r"expected a prefix below /opt/fw or ~/fw/ \(cluster lab"):
        parse_untrusted_build(f"pytorch={path}", LAB)
    with pytest.raises(UserError, match="prefix_roots, which is empty"):
        parse_untrusted_build("pytorch=/opt/fw/a", Cluster("bare", NODES))


def test_an_image_is_named_by_its_digest_and_lies_where_the_cluster_says() -> None:
    digest, other = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
    images = {"pytorch": f"elsewhere.example.org/torch@{digest}"}
    where = EnvironmentPolicy(images=images)
    lab = Cluster("lab", NODES, environments=where, compare=ComparePolicy(images=("reg/ci/",)))
    for name in (f"reg/ci/torch@{other}", images["pytorch"]):
        build = parse_untrusted_build(f"pytorch=image:{name}", lab)
        assert (build.source, build.location, build.digest) == ("image", name, name[-64:])
    for name in (f"reg/torch@{other}", f"reg/ci/../torch@{other}", f"reg/cix@{other}", other):
        with pytest.raises(UserError, match=r"expected an image below reg/ci/ \(cluster lab\)"):
            parse_untrusted_build(f"pytorch=image:{name}", lab)
    for name in ("reg/ci/torch:v2", "reg/ci/torch", f"reg/ci/torch@{digest[:-1]}"):
        with pytest.raises(UserError, match="with the digest, since a tag may later name another"):
            parse_untrusted_build(f"pytorch=image:{name}", lab)
    with pytest.raises(UserError, match=r"compare\.images, which is empty"):
        parse_untrusted_build(f"pytorch=image:reg/ci/torch@{other}", LAB)


def test_a_wheel_below_the_folder(wheels: Path) -> None:
    path = wheel(wheels / "ab/torch-2.0-py3-none-any.whl")
    build = parse_untrusted_build(f"pytorch={path}", LAB)
    assert (build.source, build.version, build.location) == ("wheel", "2.0", str(path))


def test_a_refused_wheel_does_not_tell_what_is_there(wheels: Path, tmp_path: Path) -> None:
    there = wheel(tmp_path / "secret/torch-2.0-py3-none-any.whl")
    (wheels / "link.whl").symlink_to(there)
    said = set()
    for path in (there, tmp_path / "none.whl", wheels / "../secret" / there.name, wheels / "x.whl"):
        with pytest.raises(UserError) as error:
            parse_untrusted_build(f"pytorch={path}", LAB)
        said.add(str(error.value).replace(str(path), "PATH"))
    assert said == {f'build: found "pytorch=PATH"; expected a wheel below {wheels}'}
    with pytest.raises(UserError, match="expected a wheel below"):
        parse_untrusted_build(f"pytorch={wheels / 'link.whl'}", LAB)


def test_a_wheel_of_the_command_line_is_copied_there(wheels: Path, tmp_path: Path) -> None:
    given = wheel(tmp_path / "torch-2.0-py3-none-any.whl")
    first = stage_wheels([f"pytorch={given}", "paddle3=3.0.0"])
    assert first == stage_wheels([f"pytorch={given}", "paddle3=3.0.0"])
    assert parse_untrusted_build(first[0], LAB).version == "2.0"
    given.write_bytes(b"another wheel of the same name")
    assert stage_wheels([f"pytorch={given}"])[0] != first[0]
    assert len(list(wheels.rglob("*.whl"))) == 2
