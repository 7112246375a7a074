"""Extra work of a trainer that only some kinds of runs need: it would distort all others."""

_VARIABLES = {"drill": "NIGHTBENCH_DRILL_SLEEP_S", "profile": "NIGHTBENCH_PROFILE_STEPS"}


def extra_of(job, kind):
    """Returns the number that a job of a kind of run holds; 0 in every job that holds none.

    A drill's is the sleep added to each step, in s; a profile's the steps under a profiler. Read
    from the job alone, never from the node's environment, which could disturb real nights.

    Raises:
        ValueError: a job of another kind holds it.
    """
    name = _VARIABLES[kind]
    value = float(job["env"].get(name, 0))
    if value and not job["run_id"].startswith(kind + "-"):
        raise ValueError("{} is for {}s alone: {}".format(name, kind, job["run_id"]))
    return value
