-- Causes of a cluster's alerts that have a group, not older than asked for.
select distinct on (c.alert_id)
    c.alert_id,
    a.cluster,
    c.kind,
    c.suspect,
    c.night,
    c.group_key
from raw.alert_cause as c
inner join raw.alert as a on c.alert_id = a.alert_id
where
    a.cluster = %(cluster)s
    and c.group_key <> ''
    and c.night >= %(since)s
order by c.alert_id asc, c.at desc;
