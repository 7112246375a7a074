-- Grain: one row per bisect.
create or replace view marts.fct_bisect as
select
    b.*,
    count(s.number) filter (where s.status = 'ended') as steps
from raw.bisect as b
left join raw.bisect_step as s on b.bisect_id = s.bisect_id
group by b.bisect_id;

comment on view marts.fct_bisect is
'One row per search for the first bad version; first_bad is the answer where outcome is found';
comment on column marts.fct_bisect.steps is 'Tests that have ended';
