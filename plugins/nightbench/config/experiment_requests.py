"""Requests for experiments: two builds compared, or versions searched for the first slower one.

The form of `nightbench_experiments`, the API and the command line all make one. `experiments` plans
and measures it. The request of an acceptance is here as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from nightbench.config.compare_builds import MERGE_BASE, committed
from nightbench.config.request_fields import Line, Names, Short, Switch, option, refuse_unknown
from nightbench.config.validate import checked
from nightbench.core.model import Reason

LEAST_ROUNDS = 3
"""A t interval of two values covers anything."""
MOST_ROUNDS = 1000

_Rounds = Annotated[int, option("Rounds", "How", ge=LEAST_ROUNDS, le=MOST_ROUNDS, strict=True)]
_MinEffect = Annotated[float, option("Smallest effect", "How", ge=0.0001, le=0.5, strict=True)]


@dataclass(frozen=True)
class CompareRequest:
    """Two builds, and the cases and rounds in which they are compared.

    Values are checked where they are read (`from_params`): a bisect has rounds of its own.
    """

    a: Annotated[Line, option("Build A")]
    """Reference build: LINE=VERSION, LINE=/PREFIX, LINE=FILE.whl, LINE=https://…/FILE.whl,
    LINE=upload:SHA256/FILE.whl, LINE=image:NAME@sha256:… or LINE=commit:REPOSITORY@COMMIT. If B is
    a commit, A may be empty: A is then the commit at which B left its branch."""
    b: Annotated[Line, option("Build B")]
    """Build to compare with A: of the same framework line, written in the same forms."""
    suite: Annotated[Line, option("Suite")]
    """Suite with the cases to measure."""
    cluster: Annotated[Line | None, option("Cluster")] = None
    """Cluster to run on [default: the suite's own]."""
    cases: Annotated[Names, option("Cases")] = ()
    """Cases of the suite, by name [default: all of the line]."""
    rounds: _Rounds = 7
    """Number of rounds for each case. A round is a launch of A and a launch of B."""
    min_effect: _MinEffect = 0.01
    """Smallest difference that matters; 0.01 is 1 %."""
    budget_s: Annotated[
        float | None, option("Seconds at most", "How", ge=60, le=48 * 3600, strict=True)
    ] = None
    """Limit of the measuring time in seconds [default: no limit]."""
    priority: Annotated[Literal["high", "normal", "low"], option("Priority", "How")] = "normal"
    """Priority among the requests that wait for the same cluster."""
    note: Annotated[Line, option("Note", "Why")] = ""
    """Description of the request in a sentence."""
    change_url: Annotated[Line, option("URL of the change", "Why")] = ""
    """URL of the pull request or change. A newer request for the same URL replaces this request."""
    change_commit: Annotated[Short, option("Commit of the change", "Why")] = ""
    """Hash of the compared commit."""
    profile: Annotated[Switch, option("Profile", "How")] = False
    """Afterwards, launch both builds once more with a profiler."""
    fork: Annotated[Switch, option("From a fork", "Why")] = False
    """The build comes from outside the team: the request waits until an operator allows it."""
    seed: int = 1
    frameworks: str = ""
    workloads: str = ""
    strategies: str = ""
    scale: str | None = None
    outside_hours: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> CompareRequest:
        """Read fields of the form or of a body; those that are empty have their defaults.

        Raises:
            UserError: a field is unknown or missing, or holds what it cannot.
        """
        refuse_unknown(params, cls)
        known = dict(params)
        if not known.get("a") and (of := committed(str(known.get("b", "")))):
            known["a"] = f"{known['b'].partition('=')[0]}=commit:{of[0]}@{MERGE_BASE}"
        return checked(cls, known)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> CompareRequest:
        """Return the request that an experiment or the run.json of a comparison holds."""
        return cls(
            **{each.name: document[each.name] for each in fields(cls) if each.name in document}
        )


@dataclass(frozen=True)
class BisectRequest:
    """Versions to search, and limits; the alert names what is empty."""

    case_id: str = ""
    suite: Annotated[Line, option("Suite")] = ""
    """Suite of the case."""
    cluster: Annotated[Line | None, option("Cluster")] = None
    """Cluster to run on [default: the suite's own]."""
    good: Annotated[Line, option("Good version", "Bisect")] = ""
    """Last version that is known to be fast."""
    bad: Annotated[Line, option("Bad version", "Bisect")] = ""
    """Version that is known to be slower."""
    versions: Annotated[Names, option("Versions", "Bisect")] = ()
    """Versions to search between good and bad [default: all that a node can install]."""
    # From the first step on all versions that are searched, ascending, with good and bad.
    line: str = ""
    """Known once the nodes have been examined."""
    budget_s: Annotated[float, option("Seconds at most", "How", gt=0, strict=True)] = 4 * 3600.0
    """Limit of the measuring time. The time of earlier, interrupted calls counts."""
    most_tests: Annotated[int, option("Tests at most", "Bisect", ge=1, strict=True)] = 20
    """Limit of the number of versions that are tested."""
    rounds: _Rounds = 5
    """Rounds of each test."""
    min_effect: _MinEffect = 0.01
    """Smallest drop to search for; 0.01 is 1 %."""
    metric: Annotated[Literal["throughput", "training"], option("Metric", "Bisect")] = "throughput"
    """Searched change: lower `throughput`, or different `training`. An alert sets this field."""
    seed: int = 1
    alert_id: Annotated[int | None, option("Alert", "Bisect", ge=1, strict=True)] = None
    """Alert whose framework version changed. The alert's data fill the empty fields."""
    outside_hours: bool = False
    left_out: dict[str, tuple[Reason, ...]] = field(default_factory=dict)
    """Nodes that are not used, with the reasons."""


@dataclass(frozen=True)
class AcceptRequest:
    """The configurations of framework lines that an acceptance tries on a cluster."""

    cluster: Annotated[Line, option("Cluster")]
    """Cluster on which to try the configurations: a file of dags/clusters."""
    lines: Annotated[Names, option("Lines")] = ()
    """Framework lines to include [default: all]."""
    modes: Annotated[Names, option("Configurations")] = ()
    """Configurations to include, such as `single bf16` [default: all]."""
    again: Annotated[Switch, option("Again", "How")] = False
    """Also retest configurations that passed."""
    untried: Annotated[Switch, option("Untried", "How")] = True
    """Also try configurations that were never run on this kind of device."""
    outside_hours: Annotated[Switch, option("Outside the hours", "How")] = False
    """Also measure outside the cluster's allowed hours."""
