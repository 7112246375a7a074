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
    smallest_slowdown
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
    %(smallest_slowdown)s
)
on conflict (run_id, case_id) do update set
    cluster = excluded.cluster,
    kind = excluded.kind,
    sentence = excluded.sentence,
    value = excluded.value,
    baseline = excluded.baseline,
    change = excluded.change,
    history = excluded.history,
    smallest_slowdown = excluded.smallest_slowdown
where t.* is distinct from excluded.*;
