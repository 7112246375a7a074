-- One night of a shadow: it is judged once.
insert into raw.shadow_verdict (
    suite, case_id, cluster, month, shadow, night, run_id, at, size, kind, change, since, outcome
)
values (
    %(suite)s,
    %(case_id)s,
    %(cluster)s,
    %(month)s,
    %(shadow)s,
    %(night)s,
    %(run_id)s,
    %(at)s,
    %(size)s,
    %(kind)s,
    %(change)s,
    %(since)s,
    %(outcome)s
)
on conflict do nothing;
