"""What Airflow's UI says of the DAGs, in Markdown."""

from __future__ import annotations

NIGHTLY_DOC = """\
### {name}

{description}

Measures every case of the suite `{name}` on the cluster `{cluster}` at `{schedule}` (UTC).

1. **plan** waits for the night to begin, decides which cases it has room for, and stores that
   before anything is launched. What is left out is listed and comes first in the next night.
2. **preflight** looks at the nodes. Cases go around those that are ill, where others are left.
3. **measure** holds one task for each case, {at_once}: the nodes are prepared, then the gang is
   launched over SSH and watched until it has ended everywhere. A case that failed is not launched
   again by a retry; clear its task to measure it anew. A skipped one had no room in the night.
4. **ingest** checks and loads whatever came back; `nightbench_regressions` judges it.

Results: *Benchmarks* in the navigation, or the tab *Results* of a run.
"""

ON_DEMAND_DOC = """\
### Measure now

Measures a suite, or a part of it, when somebody asks: **Trigger** opens the form. What is left
empty stays as the suite has it.

Runs of the kind `nightly` feed the baselines of later verdicts; the others do not. A build is
written `LINE=VERSION`, `LINE=/path/to/file.whl` (on the control plane) or `LINE=/prefix` (on the
nodes), for example `pytorch=2.13.0`.
"""

REGRESSIONS_DOC = """\
### Verdicts and alerts

Runs when new medians have been loaded. Every planned case gets a verdict: ok, regressed,
improved, insufficient_data, failed or missing. What is news goes to the channels that the suite
names, once; the digest of each run lies in the state folder below `reports/`.
"""

CONFIRM_DOC = """\
### Before a night is told of

Runs when a night has suspected regressions. Each is measured again: the last good build and the
night's in turn on the same nodes, and once on others. The night's message waits for it, no longer
than the suite's `policy.confirm`, and says what came out.
"""

BISECT_DOC = """\
### Which version made it slower

**Trigger** asks for an alert, or for two versions and a case. Versions between are installed and
held against the good one by the paired method, half of them left out by each test, until the first
bad one is found or the budget is used up. A task that was ended goes on where it was when it is
cleared. The answer stands on the alert: `nightbench alert show ID`.
"""

DEADLINES_DOC = """\
### What is missing

Every quarter of an hour each suite with a schedule is held against what came of its nights. A
night that has brought nothing by its deadline (`night.deadline` of the suite; an hour after the
night's end unless given) is told once, to the suite's channels: no run, a run that is not
finished, one that nobody judged, or a whole cluster that is silent. What comes late ends it. A
suite whose DAG is paused promises nothing. `nightbench nights` lists them all.
"""

MAINTENANCE_DOC = """\
### Keeping house

Loads runs that wait in the spool, removes loaded runs and task logs after their time, ends
orphaned processes of ours on the nodes and removes environments that nothing has used for long.
Only processes that carry our mark are ever ended. Sends the messages about alerts that no night
has sent.
"""
