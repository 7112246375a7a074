-- A bisect as it stands. Writes only where something differs.
insert into raw.bisect as t (
    bisect_id, alert_id, case_id, cluster, suite, line, good, bad, versions, state, outcome,
    last_good, first_bad, suspects, sentence, notes, ratio, budget_s, spent_s, requested_by,
    started_at, ended_at
)
values (
    %(bisect_id)s,
    %(alert_id)s,
    %(case_id)s,
    %(cluster)s,
    %(suite)s,
    %(line)s,
    %(good)s,
    %(bad)s,
    %(versions)s,
    %(state)s,
    %(outcome)s,
    %(last_good)s,
    %(first_bad)s,
    %(suspects)s,
    %(sentence)s,
    %(notes)s,
    %(ratio)s,
    %(budget_s)s,
    %(spent_s)s,
    %(requested_by)s,
    %(started_at)s,
    %(ended_at)s
)
on conflict (bisect_id) do update set
    state = excluded.state,
    outcome = excluded.outcome,
    last_good = excluded.last_good,
    first_bad = excluded.first_bad,
    suspects = excluded.suspects,
    sentence = excluded.sentence,
    notes = excluded.notes,
    ratio = excluded.ratio,
    budget_s = excluded.budget_s,
    spent_s = excluded.spent_s,
    ended_at = excluded.ended_at
where t.* is distinct from excluded.*;
