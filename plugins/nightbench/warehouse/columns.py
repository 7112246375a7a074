"""Columns from classes of the model: the axes of a case, and lists of columns in views."""

import re
from dataclasses import MISSING, fields
from typing import get_args, get_type_hints

from nightbench.config.validate import fields_of
from nightbench.core.model import MAX_BATCH, Case, Strategy
from nightbench.warehouse.to_row import MEASUREMENT_COLUMNS

_LIST = re.compile(r"/\* (\w+) of (\w+) \*/")
_LISTS = {
    "axes": [each.name for each in fields(Case) if each.name != "batch_size_per_device"],
    "figures": [
        name
        for name in MEASUREMENT_COLUMNS
        if name not in {"unit", "minimum", "maximum", "mad", "found_batch_size"}
        and name not in {"definition_digest", "fingerprint_id"}
    ],
}
"""Columns of `/* axes of s */` and `/* figures of m */`; the views name the others themselves."""


def listed(text: str) -> str:
    """Return the text of a view with its lists of columns, for tables s and m."""
    return _LIST.sub(
        lambda found: "".join(f"{found[2]}.{name}, " for name in _LISTS[found[1]]), text
    )


def axis_columns() -> str:
    """Return statements that add a generated column to raw.case for each axis that has none."""
    kinds, columns, comments = get_type_hints(Case), [], list[str]()
    for axis in fields(Case):
        of = get_args(kinds[axis.name]) or (kinds[axis.name],)
        kind = "integer" if int in of else "double precision" if float in of else "text"
        # `max` is no number; a case that was stored before the axis existed has the default.
        value = f"nullif(axes ->> '{axis.name}', '{MAX_BATCH}')" if int in of else ""
        value = value or f"axes ->> '{axis.name}'"
        if axis.name == "sync":  # only parameter servers have it
            value = f"case when axes ->> 'strategy' = 'parameter_server' then {value} end"
        elif axis.default not in (MISSING, None):
            value = f"case when axes ? '{axis.name}' then {value} else '{axis.default}' end"
        may_lack = axis.default is None or axis.name in ("sync", "batch_size_per_device")
        least = f"{axis.name} >= {0 if axis.name == 'pservers' else 1}"
        rule = least if int in of else f"{axis.name} <> ''" if kind == "text" else "true"
        if of == (Strategy,):
            rule = f"strategy in ({', '.join(repr(str(each)) for each in Strategy)})"
        columns.append(
            f"add column if not exists {axis.name} {kind} {'' if may_lack else 'not null'} "
            f"check ({rule}) generated always as (({value})::{kind}) stored"
        )
        meaning = str(fields_of(Case)[axis.name].description).rstrip(".").replace("'", "''")
        comments.append(f"comment on column raw.\"case\".{axis.name} is '{meaning}';")
    index = 'create index if not exists case_by_work on raw."case" (workload, framework);'
    return "\n".join([f'alter table raw."case" {", ".join(columns)};', *comments, index])
