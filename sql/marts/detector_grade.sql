-- Grain: one row per graded night and measure: how well the suite's detector did up to that night.
create or replace view marts.detector_grade as
select
    r.suite,
    r.cluster,
    g.run_id,
    r.started_at,
    g.measure,
    g.trials,
    g.hits,
    g.rate,
    g.low,
    g.high,
    g.median_delay,
    g.spoiled,
    g.limit_value,
    g.below,
    g.is_news
from raw.detector_grade as g
inner join staging.run as r on g.run_id = r.run_id;

comment on view marts.detector_grade is
'One row per graded night, once a week, and measure: power by size class, and false alarms';
comment on column marts.detector_grade.trials is
'Slowdowns injected into the 90 days up to the night, or nights of copies without a change';
comment on column marts.detector_grade.rate is
'Share of slowdowns detected within 14 nights; false alarms: in 1,000 nights';
comment on column marts.detector_grade.median_delay is
'Nights after the first slow one until it was detected; 0 on that night';
