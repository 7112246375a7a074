-- Grain: one row per series that is noisy now: it runs on and alerts no more.
create or replace view marts.noisy_series as
select
    newest.case_id,
    newest.cluster,
    newest.suite,
    newest.run_id as since_run_id,
    newest.at as since_at,
    newest.spread,
    newest.max_spread,
    newest.sentence,
    newest.by_whom
from (
    select distinct on (case_id, cluster) *
    from marts.fct_noise_event
    order by case_id asc, cluster asc, at desc, run_id desc
) as newest
where newest.what = 'noisy';

comment on view marts.noisy_series is
'One row per series that is noisy now: it is measured and gets verdicts, but a drop opens no alert';
comment on column marts.noisy_series.spread is
'Relative standard deviation when it became noisy';
