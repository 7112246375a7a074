"""The time of each operator in a step: a few profiled steps after all measurements.

A runtime with `profile(run)` calls `run()` once under its framework's own profiler and
returns `(name of the profiler, spans)`. Other runtimes get the functions that Python calls. A span
is `(path, calls, seconds)`. The path runs from the outermost operator to the one in which these
seconds were spent, without the seconds of operators inside it.
"""

import sys
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
    """Call `run` and return the spans of the functions that this thread calls in it."""
    # [seconds of itself, calls, children by name] of each place in the tree of calls
    root = [0.0, 0, {}]
    open_calls = [root]
    last_s = [time.perf_counter()]

    def note(frame, event, argument):
        now_s = time.perf_counter()
        open_calls[-1][0] += now_s - last_s[0]
        if event in ("call", "c_call"):
            name = _name(frame.f_code) if event == "call" else _builtin_name(argument)
            child = open_calls[-1][2].setdefault(name, [0.0, 0, {}])
            child[1] += 1
            open_calls.append(child)
        elif len(open_calls) > 1:
            open_calls.pop()
        last_s[0] = time.perf_counter()

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    first = next(iter(root[2].values()))  # `run` itself
    return list(_spans(first, ()))


def _spans(place, path):
    for name, child in place[2].items():
        yield (*path, name), child[1], child[0]
        yield from _spans(child, (*path, name))


def _name(code):
    module = code.co_filename.rpartition("/")[2]
    return "{}:{}".format(module, getattr(code, "co_qualname", code.co_name))


def _builtin_name(function):
    module = getattr(function, "__module__", None) or type(getattr(function, "__self__", None))
    owner = module if isinstance(module, str) else module.__name__
    return "{}.{}".format(owner, getattr(function, "__qualname__", type(function).__name__))
