-- What a run put an alert down to.
-- Writes only where something differs.
insert into raw.alert_cause as t (
    alert_id,
    run_id,
    kind,
    suspect,
    sentence,
    evidence,
    group_key,
    first_bad_run_id,
    last_good_run_id,
    night
)
values (
    %(alert_id)s,
    %(run_id)s,
    %(kind)s,
    %(suspect)s,
    %(sentence)s,
    %(evidence)s,
    %(group_key)s,
    %(first_bad_run_id)s,
    %(last_good_run_id)s,
    %(night)s
)
on conflict (alert_id, run_id) do update set
    kind = excluded.kind,
    suspect = excluded.suspect,
    sentence = excluded.sentence,
    evidence = excluded.evidence,
    group_key = excluded.group_key,
    first_bad_run_id = excluded.first_bad_run_id,
    last_good_run_id = excluded.last_good_run_id,
    night = excluded.night,
    at = clock_timestamp()
where
t.kind is distinct from excluded.kind
or t.suspect is distinct from excluded.suspect
or t.sentence is distinct from excluded.sentence
or t.evidence is distinct from excluded.evidence
or t.group_key is distinct from excluded.group_key
or t.first_bad_run_id is distinct from excluded.first_bad_run_id
or t.last_good_run_id is distinct from excluded.last_good_run_id
or t.night is distinct from excluded.night;
