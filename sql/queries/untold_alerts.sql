-- Cases whose alert this run opened and of which nobody has been told.
select case_id
from raw.alert
where
    opened_run_id = %(run_id)s
    and told_at is null
order by case_id;
