-- Grain: one row per series: its newest good median. Drills, what was measured to confirm a
-- suspicion, and private builds are no part of a series.
create or replace view marts.latest_median as
select m.*
from raw.series as s
cross join
    lateral (
        -- Stops at the newest month that has one.
        select
            n.run_key,
            n.run_at
        from raw.measurement as n
        where
            n.series_key = s.series_key
            and n.is_good
            and n.run_kind not in ('drill', 'confirm')
            and not n.is_private_build
        order by n.run_at desc
        limit 1
    ) as newest
inner join marts.fct_measurement as m
    on
        s.series_key = m.series_key
        and newest.run_key = m.run_key
        and newest.run_at = m.started_at;

comment on view marts.latest_median is 'One row per series: its newest good median';
