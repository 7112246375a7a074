-- A suite as the deadline check sees it now. Another cluster or timetable begins anew.
insert into raw.suite_watch as t (suite, cluster, timetable, since, seen_at)
values (%(suite)s, %(cluster)s, %(timetable)s, %(now)s, %(now)s)
on conflict (suite) do update set
    since = case
        when
            (t.cluster, t.timetable) = (excluded.cluster, excluded.timetable)
            -- One that the last check did not see was gone then, and is new again.
            and not exists (
                select 1 from raw.deadline_check as c where c.checked_at > t.seen_at
            )
            then t.since
        else excluded.since
    end,
    cluster = excluded.cluster,
    timetable = excluded.timetable,
    seen_at = excluded.seen_at
returning since;
