-- A suite as the deadline check sees it now.
insert into raw.suite_watch (suite, cluster, timetable, since, seen_at)
values (%(suite)s, %(cluster)s, %(timetable)s, %(since)s, %(now)s)
on conflict (suite) do update set
    cluster = excluded.cluster,
    timetable = excluded.timetable,
    since = excluded.since,
    seen_at = excluded.seen_at;
