-- A suite as the deadline check last saw it.
select
    cluster,
    timetable,
    since,
    seen_at
from raw.suite_watch
where suite = %(suite)s;
