"""The suites of the shared Airflow: its tests add here what they trigger."""

from __future__ import annotations

from typing import Any

STEP_S = 0.1
"""Of `falls`. Long, so that what a busy machine adds to a sleep is small beside it."""
THREADS = 7
"""Of `falls`, which makes its series its own: other suites have nights of the plain one."""


def suites(inbox_url: str) -> dict[str, dict[str, Any]]:
    """Name -> what `live_airflow.write_suite` changes; alerts of `falls` go to the inbox."""
    return {
        "good": {},
        "torn": {"devices": "2x1", "env": '{FAKE_WEIGHTS_DIFFER: "1", FAKE_RANK: "1"}'},
        "dying": {"devices": "1x1", "env": '{FAKE_DIE_AT_STEP: "3"}'},
        # Everything that makes a process hard to end.
        "stubborn": {
            "devices": "2x1",
            "env": '{FAKE_HANG_AT_STEP: "3", FAKE_IGNORE_TERM: "1", FAKE_DAEMON: "1"}',
        },
        "torch": {
            "workload": "resnet50_v1.5",
            "framework": "pytorch",
            "devices": "1x1",
            "steps": 5,
            "repeats": 1,
        },
        "long": {"devices": "2x1", "steps": 24, "repeats": 3, "env": '{FAKE_STEP_S: "0.3"}'},
        # What is not known takes at least its time limit, 200 s: there is room for one. The number
        # of threads makes its series its own, which no other suite makes known.
        "short": {"devices": "[1x1, 2x1]\n    threads: 6", "env": "{}\nnight: {budget: 5m}"},
        # Preparing alone takes longer.
        "none": {"env": "{}\nnight: {budget: 20s}"},
        "many": {
            "devices": "1x1\n    threads: [1, 2, 3, 4]",
            "repeats": 1,
            # Twelve seconds each: on a busy machine the scheduler takes some to start the next one.
            "env": '{FAKE_STEP_S: "0.6"}',
        },
        "falls": {
            "devices": f"1x1\n    threads: {THREADS}",
            "steps": 10,
            "env": f'{{FAKE_STEP_S: "{STEP_S}"}}\nalerts: ["{inbox_url}"]',
        },
    }
