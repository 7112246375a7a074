"""The outcome of a suspected change that was measured again. Pure.

The drop of a night has to be distinguished from no drop at all. So the bound is between them:
half way, or at the suite's smallest change if that is nearer. An interval wholly below it
confirms, one wholly above it does not, and one that contains it is inconclusive. A change of
training is decided by the losses of the launches, as a night decides it.
"""

import dataclasses

from nightbench.config.experiment_requests import LEAST_ROUNDS
from nightbench.core.documents import from_document
from nightbench.core.losses import LaunchLosses
from nightbench.core.model import Build, TrainingKind
from nightbench.core.model.alerts import Confirmation, ConfirmationResult
from nightbench.detection.paired_training import PairedTraining, compare_training
from nightbench.experiments import paired_statistics
from nightbench.experiments.experiment_spool import Document
from nightbench.experiments.rounds import Arm
from nightbench.night.suspected_regressions import SuspectedRegression, TrainedBefore


def decide(low: float | None, high: float | None, effect: float) -> ConfirmationResult:
    """Return what an interval of a ratio means by `smallest_effect`; None: too few rounds."""
    if low is None or high is None:
        return ConfirmationResult.INCONCLUSIVE
    bound = 1 / (1 + effect)
    if high < bound:
        return ConfirmationResult.CONFIRMED
    return ConfirmationResult.NOT_CONFIRMED if low > bound else ConfirmationResult.INCONCLUSIVE


def confirmation(
    suspect: SuspectedRegression,
    builds: tuple[Build, Build] | None,
    here: Document,
    there: Document | str | None,
) -> Confirmation:
    """Return the outcome by the night's own nodes; its sentence adds what other nodes said.

    `builds` are the last good and the night's; None if they are the same. `there` is the result
    of other nodes, why there is none, or None if the cluster has no others.
    """
    found = _read(suspect, builds, here)
    if builds is None:
        level = f"the baseline of {suspect.baseline:.4g}"
        what = (
            "The framework has not changed since the last good night, so "
            f"{_label(suspect.bad, suspect.bad_version)} was measured again against "
            f"{'the losses of the last good nights' if suspect.trained else level}"
        )
    else:
        good, bad = builds
        what = (
            f"{_label(bad, suspect.bad_version)} compared with "
            f"{_label(good, suspect.good_version)}, interleaved"
        )
    if found.rounds < LEAST_ROUNDS:
        parts = [f"{what}: {_why_few(here)}"]
    elif suspect.trained is not None:
        parts = [f"{what}: {found.sentence}"]
    else:
        lost = f"the night's drop was {-suspect.change:.1%}"
        if suspect.low is not None and suspect.high is not None:
            lost += f" ({suspect.low:+.1%} to {suspect.high:+.1%})"
        parts = [f"{what}: {_figures(found, here)}, {lost}: {_words(found.outcome, builds)}"]
        if here.get("added"):
            parts.append(f"{here['added']} of these rounds were added: the first were unclear")
    if isinstance(there, str):
        parts.append(f"on other nodes: {there}")
    elif there is not None:
        other = _read(suspect, builds, there)
        words = f"{_figures(other, there)}: {_words(other.outcome, builds)}"
        parts.append(other.sentence if suspect.trained and other.sentence else words)
    return dataclasses.replace(found, sentence="; ".join(parts) + ".")


def pooled(here: Document, more: Document) -> Document:
    """Return the result of rounds and of those that were added to them, as one."""
    (first,), (second,) = here["cases"], more["cases"]
    rounds = [*first["rounds"], *second["rounds"]]
    found = paired_statistics.estimate([each["ratio"] for each in rounds], here["min_effect"])
    row = {**first, **dataclasses.asdict(found), "rounds": rounds, "stopped": second["stopped"]}
    row.update({key: [*first[key], *second[key]] for key in ("order", "dropped")})
    done = here["rounds"] + more["rounds"]
    return {**here, "cases": [row], "rounds": done, "added": second["n"], "more": more}


def inconclusive(why: str) -> Confirmation:
    """Return the outcome if nothing could be measured."""
    return Confirmation(ConfirmationResult.INCONCLUSIVE, f"The case was not measured again: {why}")


def _read(
    suspect: SuspectedRegression, builds: tuple[Build, Build] | None, result: Document
) -> Confirmation:
    (row,) = result["cases"]
    effect = result["min_effect"]
    if suspect.trained is not None:
        return _read_training(suspect.trained, builds, row)
    if builds is not None:
        ratio, low, high, n = row["ratio"], row["low"], row["high"], row["n"]
    else:
        launches = [each[arm] for each in row["rounds"] for arm in Arm]
        level = paired_statistics.estimate([v / suspect.baseline for v in launches], effect)
        ratio, low, high, n = level.ratio, level.low, level.high, level.n
    return Confirmation(decide(low, high, effect), "", ratio, low, high, n)


def _read_training(
    trained: TrainedBefore, builds: tuple[Build, Build] | None, row: Document
) -> Confirmation:
    """Return whether the night's build trains differently from the last good build or nights."""
    a, b = ([LaunchLosses(each) for each in row["losses"][arm]] for arm in Arm)
    found = from_document(PairedTraining, row["training"])
    if builds is None:
        a, b = [LaunchLosses(night) for night in trained.nights], [*a, *b]
        found = compare_training(a, b, trained.traits, is_one_build=True)
    outcome = {
        TrainingKind.CHANGED: ConfirmationResult.CONFIRMED,
        TrainingKind.SAME: ConfirmationResult.NOT_CONFIRMED,
    }.get(found.kind, ConfirmationResult.INCONCLUSIVE)
    sentence = f"on {', '.join(row['nodes'])} {found.sentence}: {_SAID[outcome]}"
    return Confirmation(outcome, sentence, rounds=len(b))


def _figures(found: Confirmation, result: Document) -> str:
    nodes = ", ".join(result["cases"][0]["nodes"])
    if found.ratio is None or found.low is None or found.high is None:
        return f"on {nodes} {_why_few(result)}"
    return (
        f"on {nodes} {found.ratio - 1:+.1%} ({found.low - 1:+.1%} to {found.high - 1:+.1%}, "
        f"n {found.rounds})"
    )


def _why_few(result: Document) -> str:
    row = result["cases"][0]
    return f"{row['n']} of {result['rounds']} rounds: {row['stopped'] or 'too few'}"


_SAID = {
    ConfirmationResult.CONFIRMED: "the change is confirmed",
    ConfirmationResult.NOT_CONFIRMED: "the change is not confirmed",
    ConfirmationResult.INCONCLUSIVE: "inconclusive",
}


def _words(outcome: ConfirmationResult, builds: tuple[Build, Build] | None) -> str:
    if outcome is ConfirmationResult.CONFIRMED:
        return "the drop is confirmed" if builds else "the case is still slower"
    if outcome is ConfirmationResult.NOT_CONFIRMED:
        return "the drop is not confirmed" if builds else "the level has recovered"
    return "inconclusive"


def _label(build: Build, version: str | None) -> str:
    if build.source == "index":
        return f"{build.line} {build.version or version or 'locked'}"
    return f"{build.line} {build.location}" + (f" ({version})" if version else "")
