"""The shares of the drills that CI runs in turns: `pytest tests/drills --share 2/6`."""

from __future__ import annotations

SHARES = 6
LONGEST_S = 600

SECONDS = {
    "test_aarch64.py": 71,
    "test_airflow_chaos.py": 210,
    "test_airflow_faults.py": 340,
    "test_experiments_chaos.py": 470,
    "test_hosts.py": 20,
    "test_network.py": 420,
    "test_shared.py": 87,
}
"""File -> seconds on two cores; `--durations` of a share corrects them."""

ELSEWHERE = {
    "test_celery.py": "Redis and an S3 server",
    "test_compose.py": "a container engine",
    "test_containers.py": "a container engine",
    "test_incident.py": "a quarter of an hour",
    "test_kubernetes.py": "Kubernetes",
    "test_kubernetes_airflow.py": "Kubernetes",
    "test_kubernetes_faults.py": "Kubernetes",
    "test_kubernetes_groups.py": "Kubernetes 1.36 with PodGroups",
    "test_kubernetes_kueue.py": "Kubernetes 1.27 or newer with Kueue",
    "test_night.py": "a quarter of an hour",
    "test_reference_nights.py": "a machine without other work",
    "test_slurm.py": "Slurm",
}
"""File -> what it needs that a share does not have; `make drills` runs it."""


def shares() -> list[list[str]]:
    """Return the files of each share: the longest first, each to the share that is shortest."""
    found: list[list[str]] = [[] for _ in range(SHARES)]
    for name in sorted(SECONDS, key=lambda name: (-SECONDS[name], name)):
        min(found, key=seconds_of).append(name)
    for name in sorted(ELSEWHERE):
        min(found, key=lambda files: sum(each in ELSEWHERE for each in files)).append(name)
    return found


def seconds_of(files: list[str]) -> int:
    """Return how long the files of a share take."""
    return sum(SECONDS.get(name, 0) for name in files)


def share_of(text: str) -> list[str]:
    """Return the files of the share that an option names, as `2/6`.

    Raises:
        ValueError: there is no such share.
    """
    number, _, count = text.partition("/")
    if count != str(SHARES) or number not in map(str, range(1, SHARES + 1)):
        raise ValueError(f"found {text!r}; expected 1/{SHARES} to {SHARES}/{SHARES}")
    return shares()[int(number) - 1]
