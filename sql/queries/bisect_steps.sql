-- The tests of a bisect, in their order.
select *
from marts.fct_bisect_step
where bisect_id = %(bisect_id)s
order by number;
