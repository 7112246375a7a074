-- Grain: one row per test of a bisect.
create or replace view marts.fct_bisect_step as
select *
from raw.bisect_step;

comment on view marts.fct_bisect_step is 'One row per test of a bisect, with what it rests on';
