-- A series became noisy, or steady again. What a run said once it says for ever.
insert into raw.noise_event (
    case_id, cluster, run_id, at, what, spread, max_spread, sentence
)
values (
    %(case_id)s,
    %(cluster)s,
    %(run_id)s,
    %(at)s,
    %(what)s,
    %(spread)s,
    %(max_spread)s,
    %(sentence)s
)
on conflict do nothing;
