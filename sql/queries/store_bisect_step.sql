-- A test of a bisect as it stands. Writes only where something differs.
insert into raw.bisect_step as t (
    bisect_id, number, kind, version, against, comparison_id, status, result, why, ratio, low,
    high, rounds, wanted_rounds, min_effect, started_at, ended_at, spent_s
)
values (
    %(bisect_id)s,
    %(number)s,
    %(kind)s,
    %(version)s,
    %(against)s,
    %(comparison_id)s,
    %(status)s,
    %(result)s,
    %(why)s,
    %(ratio)s,
    %(low)s,
    %(high)s,
    %(rounds)s,
    %(wanted_rounds)s,
    %(min_effect)s,
    %(started_at)s,
    %(ended_at)s,
    %(spent_s)s
)
on conflict (bisect_id, number) do update set
    status = excluded.status,
    result = excluded.result,
    why = excluded.why,
    ratio = excluded.ratio,
    low = excluded.low,
    high = excluded.high,
    rounds = excluded.rounds,
    ended_at = excluded.ended_at,
    spent_s = excluded.spent_s
where t.* is distinct from excluded.*;
