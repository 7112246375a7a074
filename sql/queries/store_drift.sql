-- A series creeps, has crept on, or turned. Judged again, a run says it anew; told stays told.
insert into raw.drift as t (
    case_id,
    cluster,
    run_id,
    at,
    level,
    is_news,
    change,
    error,
    nights,
    since,
    seen_run_id,
    seen_at
)
values (
    %(case_id)s,
    %(cluster)s,
    %(run_id)s,
    %(at)s,
    %(level)s,
    %(is_news)s,
    %(change)s,
    %(error)s,
    %(nights)s,
    %(since)s,
    %(run_id)s,
    %(at)s
)
on conflict (case_id, cluster, run_id) do update set
    level = excluded.level,
    is_news = excluded.is_news,
    change = excluded.change,
    error = excluded.error,
    nights = excluded.nights,
    since = excluded.since,
    seen_run_id = excluded.seen_run_id,
    seen_at = excluded.seen_at,
    over_run_id = null,
    over_at = null;
