-- Grain: one row per test of a bisect.
create or replace view marts.fct_bisect_step as
select
    bisect_id,
    number,
    kind,
    version,
    against,
    comparison_id,
    status,
    result,
    why,
    ratio,
    low,
    high,
    rounds,
    wanted_rounds,
    min_effect,
    started_at,
    ended_at,
    spent_s
from raw.bisect_step;

comment on view marts.fct_bisect_step is 'One row per test of a bisect, with what it rests on';
