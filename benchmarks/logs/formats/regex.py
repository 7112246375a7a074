"""Any log whose lines fit a regular expression with named groups.

Groups: `throughput` or `step_time`, and optionally `step`, `epoch`, `steps` (of an epoch),
`samples` (of a step), `unit`, `time_unit`.
"""

import re

from logs.lines import LogError

TITLE = "the option `pattern`: a regular expression with named groups"
MARKER = re.compile("")
GROUPS = ("epoch", "samples", "step", "step_time", "steps", "throughput", "time_unit", "unit")


def read(lines, options):
    """Yield (line number, fields)."""
    try:
        pattern = re.compile(options.get("pattern") or "")
    except re.error as error:
        raise LogError("pattern: {}".format(error)) from error
    names = set(pattern.groupindex)
    unknown = sorted(names - set(GROUPS))
    if unknown or not names & {"throughput", "step_time"}:
        raise LogError(
            "pattern: found the groups {}; expected `throughput` or `step_time`, and others of "
            "{}".format(", ".join(sorted(names)) or "none", ", ".join(GROUPS))
        )
    for number, line in enumerate(lines, start=1):
        found = pattern.search(line)
        if found:
            fields = {name: text for name, text in found.groupdict().items() if text is not None}
            fields.setdefault("time_unit", options.get("time_unit"))
            yield number, fields
