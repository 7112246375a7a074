"""Extra work of a trainer that only some kinds of runs need, because it distorts measurements."""

_VARIABLES = {"drill": "NIGHTBENCH_DRILL_SLEEP_S", "profile": "NIGHTBENCH_PROFILE_STEPS"}


def extra_of(job, kind):
    """Return the extra number of a drill or profile job; 0 if the job has none.

    For a drill it is the sleep added to each step, in s; for a profile, the steps under a profiler.
    It is read from the job only: the node's environment could disturb real nights.

    Raises:
        ValueError: the job has the number, but is of another kind.
    """
    name = _VARIABLES[kind]
    value = float(job["env"].get(name, 0))
    if value and not job["run_id"].startswith(kind + "-"):
        raise ValueError("{} is for {}s alone: {}".format(name, kind, job["run_id"]))
    return value
