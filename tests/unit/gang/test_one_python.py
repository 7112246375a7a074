"""One Python for all nodes of a gang: what is tried, and what is said if there is none."""

from types import SimpleNamespace
from typing import Any

import pytest

from nightbench.gang import provisioning
from nightbench.gang.errors import EnvironmentUnavailable

JOB: Any = SimpleNamespace(build=SimpleNamespace(line="tiny"))


class Nodes:
    """Nodes with Pythons of their own; `downloads` are those that uv brings on each."""

    def __init__(self, have: dict[str, list[str]], downloads: tuple[str, ...] = ()) -> None:
        self.have, self.downloads = have, downloads
        self.transports: Any = {
            name: SimpleNamespace(node=name, address=f"{name}:22") for name in have
        }
        self.tried: list[tuple[str, str | None]] = []

    async def environment(
        self, transport: Any, job: Any, shipment: Any, on_event: Any, python: str | None = None
    ) -> Any:
        self.tried.append((transport.node, python))
        here = self.have[transport.node]
        found = python or (here[0] if here else self.downloads[0])
        if found not in (*here, *self.downloads):
            raise EnvironmentUnavailable.of(transport, f"no Python {found}")
        return provisioning._Environment(JOB, f"/{found}/python", found, tuple(here))


@pytest.mark.parametrize(
    ("have", "downloads", "expected"),
    [
        ({"n1": ["3.13"], "n2": ["3.13"]}, (), "3.13"),
        ({"n1": ["3.13", "3.12", "3.11"], "n2": ["3.12", "3.11"]}, (), "3.12"),
        ({"n1": ["3.12", "3.11"], "n2": ["3.13", "3.11"], "n3": ["3.11"]}, (), "3.11"),
        ({"n1": ["3.13"], "n2": ["3.11"]}, ("3.13",), "3.13"),
        ({"n1": ["3.11"], "n2": []}, ("3.13",), "3.13"),
    ],
)
async def test_all_nodes_have_one(
    monkeypatch: pytest.MonkeyPatch,
    have: dict[str, list[str]],
    downloads: tuple[str, ...],
    expected: str,
) -> None:
    nodes = Nodes(have, downloads)
    monkeypatch.setattr(provisioning, "_environment_on", nodes.environment)
    shipment: Any = None
    events: list[Any] = []
    found = await provisioning._environments(JOB, nodes.transports, shipment, events.append)
    assert {each.python for each in found.values()} == {expected}
    assert list(found) == list(have)


async def test_none_is_on_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes({"n1": ["3.13"], "n2": ["3.11"]})
    monkeypatch.setattr(provisioning, "_environment_on", nodes.environment)
    shipment: Any = None
    events: list[Any] = []
    with pytest.raises(EnvironmentUnavailable, match=r"n1: 3\.13; n2: 3\.11") as error:
        await provisioning._environments(JOB, nodes.transports, shipment, events.append)
    assert "Install a common Python on all nodes" in str(error.value)
    assert [python for _, python in nodes.tried] == [None, None, "3.13", "3.13", "3.11", "3.11"]
