-- What alerts were put down to last.
select distinct on (alert_id)
    alert_id,
    kind,
    sentence,
    evidence,
    group_key
from raw.alert_cause
where alert_id = any(%(alert_ids)s)
order by alert_id asc, at desc;
