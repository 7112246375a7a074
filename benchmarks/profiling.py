"""The time of each operator in a step: a few profiled steps after all measurements.

A runtime with `profile(run)` calls `run()` once under its framework's own profiler and
returns `(name of the profiler, spans)`. Other runtimes get the functions that Python calls. A span
is `(path, calls, seconds)`. The path runs from the outermost operator to the one in which these
seconds were spent, without the seconds of operators inside it.
"""

import cProfile
import os
import pstats
import time

MOST_OPERATORS = 300
MOST_STACKS = 1500
"""Only the longest are kept, because a profile is part of rank.json, which states the rest."""


def profile(trainer, runtime, steps):
    """Train `steps` more steps under a profiler and return rank.json's `profile`."""
    lasted_s = []

    def run():
        began_s = time.monotonic()
        for _ in range(steps):
            trainer.step()
        runtime.device_sync()
        lasted_s.append(time.monotonic() - began_s)

    runtime.barrier()
    own = getattr(runtime, "profile", None)
    name, spans = own(run) if own else ("functions of Python", functions(run))
    runtime.barrier()
    return summary(name, spans, steps, lasted_s[0])


def summary(name, spans, steps, wall_s):
    """Return the document of spans; operators and stacks are sorted, longest first."""
    operators, stacks = {}, {}
    for path, calls, seconds in spans:
        known = operators.setdefault(path[-1], [0, 0.0])
        known[0] += calls
        known[1] += seconds
        # A semicolon separates the names of a stack, as in input files of flame graphs.
        stack = ";".join(part.replace(";", ",") for part in path)
        stacks[stack] = stacks.get(stack, 0.0) + seconds
    by_time = sorted(operators.items(), key=lambda item: -item[1][1])
    longest = sorted(((k, s) for k, s in stacks.items() if s > 0), key=lambda item: -item[1])
    return {
        "profiler": name,
        "steps": steps,
        "wall_s": wall_s,
        "operators": [[key, calls, s] for key, (calls, s) in by_time[:MOST_OPERATORS]],
        "stacks": [[key, s] for key, s in longest[:MOST_STACKS]],
        "left_out": max(len(by_time) - MOST_OPERATORS, 0),
    }


def nested(events):
    """Return the spans of events that are nested on their thread.

    Args:
        events: (thread, name, begin, duration) each, in seconds, in any order.
    """
    spans, thread = [], None
    open_spans = []  # [path, end, seconds that those within it took, duration]

    def close(begin, end):
        # Clocks are rounded: a span that overlaps without being inside counts as later.
        while open_spans and (open_spans[-1][1] <= begin or open_spans[-1][1] < end):
            path, _, within, duration = open_spans.pop()
            spans.append((path, 1, max(duration - within, 0.0)))

    forever = float("inf")
    for each, name, begin, duration in sorted(events, key=lambda e: (e[0], e[2], -e[3])):
        close(begin if each == thread else forever, begin + duration)
        thread = each
        if open_spans:
            open_spans[-1][2] += duration
        outer = open_spans[-1][0] if open_spans else ()
        open_spans.append([(*outer, name), begin + duration, 0.0, duration])
    close(forever, forever)
    return spans


def functions(run):
    """Call `run` and return the spans of the functions that this thread calls, by their callers."""
    profiler = cProfile.Profile()
    profiler.runcall(run)
    return [
        ((_name(caller), _name(function)), calls, seconds)
        for function, (*_, callers) in pstats.Stats(profiler).stats.items()
        for caller, (calls, _, seconds, _) in callers.items()
    ]


def _name(function):
    file, _, name = function
    return name if file == "~" else "{}:{}".format(os.path.basename(file), name)
