-- What people made of the alerts of the last year: how many ended in which way.
select
    cluster,
    count(*) as alerts,
    count(*) filter (where state in ('open', 'acknowledged')) as live,
    count(*) filter (where dismissed_as = 'false_alarm') as false_alarms,
    count(*) filter (where dismissed_as = 'intended') as intended,
    count(*) filter (where dismissed_as = 'wont_fix') as wont_fix,
    count(*) filter (where state = 'resolved') as resolved
from marts.fct_alert
where opened_at > now() - interval '365 days'
group by cluster
order by cluster;
