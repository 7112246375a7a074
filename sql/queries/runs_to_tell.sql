-- Runs whose message waited for suspects to be measured again, and waits no longer.
select distinct c.run_id
from raw.confirmation as c
inner join raw.alert as a on c.alert_id = a.alert_id and c.run_id = a.news_run_id
where
    c.asked_by = 'nightbench'
    and a.told_at is null
    and not exists (
        select 1
        from raw.confirmation as w
        where
            w.run_id = c.run_id
            and w.asked_by = 'nightbench'
            and w.state in ('wanted', 'running')
            and w.until > now()
    )
order by c.run_id;
