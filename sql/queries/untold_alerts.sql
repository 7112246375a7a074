-- Cases whose alert this run has to tell of and of which nobody has been told; who sleeps is quiet.
select case_id
from raw.alert
where
    news_run_id = %(run_id)s
    and told_at is null
    and (snoozed_until is null or snoozed_until <= now())
order by case_id;
