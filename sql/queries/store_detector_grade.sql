-- A grade of a night; what was told of it stays told.
insert into raw.detector_grade as t (
    run_id,
    measure,
    trials,
    hits,
    rate,
    low,
    high,
    median_delay,
    spoiled,
    limit_value,
    below,
    is_news
)
values (
    %(run_id)s,
    %(measure)s,
    %(trials)s,
    %(hits)s,
    %(rate)s,
    %(low)s,
    %(high)s,
    %(median_delay)s,
    %(spoiled)s,
    %(limit_value)s,
    %(below)s,
    %(is_news)s
)
on conflict (run_id, measure) do update set
    trials = excluded.trials,
    hits = excluded.hits,
    rate = excluded.rate,
    low = excluded.low,
    high = excluded.high,
    median_delay = excluded.median_delay,
    spoiled = excluded.spoiled,
    limit_value = excluded.limit_value,
    below = excluded.below,
    is_news = t.is_news or excluded.is_news;
