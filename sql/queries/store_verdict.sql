-- What a run says about a series.
-- Writes only where something differs.
insert into raw.verdict as t (
    run_id,
    case_id,
    cluster,
    kind,
    sentence,
    value,
    baseline,
    change,
    history,
    smallest_slowdown,
    low,
    high,
    since,
    first_bad_run_id,
    last_good_run_id
)
values (
    %(run_id)s,
    %(case_id)s,
    %(cluster)s,
    %(kind)s,
    %(sentence)s,
    %(value)s,
    %(baseline)s,
    %(change)s,
    %(history)s,
    %(smallest_slowdown)s,
    %(low)s,
    %(high)s,
    %(since)s,
    %(first_bad_run_id)s,
    %(last_good_run_id)s
)
on conflict (run_id, case_id) do update set
    cluster = excluded.cluster,
    kind = excluded.kind,
    sentence = excluded.sentence,
    value = excluded.value,
    baseline = excluded.baseline,
    change = excluded.change,
    history = excluded.history,
    smallest_slowdown = excluded.smallest_slowdown,
    low = excluded.low,
    high = excluded.high,
    since = excluded.since,
    first_bad_run_id = excluded.first_bad_run_id,
    last_good_run_id = excluded.last_good_run_id
where t.* is distinct from excluded.*;
