-- Grain: one row per series and night that made it noisy, or steady again.
create or replace view marts.fct_noise_event as
select
    e.case_id,
    e.cluster,
    e.run_id,
    r.suite,
    e.at,
    e.what,
    e.spread,
    e.max_spread,
    e.sentence,
    e.by_whom
from raw.noise_event as e
inner join raw.run as r on e.run_id = r.run_id;

comment on view marts.fct_noise_event is
'One row per series and night that made it noisy, or steady again';
