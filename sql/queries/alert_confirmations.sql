-- What measuring an alert's suspect again said last, of the night that it is news of or later.
select distinct on (c.alert_id)
    c.alert_id,
    c.outcome,
    c.sentence,
    c.ratio,
    c.low,
    c.high,
    c.rounds
from raw.confirmation as c
inner join raw.alert as a on c.alert_id = a.alert_id
inner join raw.run as doubted on c.run_id = doubted.run_id
inner join raw.run as news on a.news_run_id = news.run_id
where
    c.alert_id = any(%(alert_ids)s)
    and c.state = 'ended'
    and doubted.started_at >= news.started_at
order by c.alert_id asc, c.ended_at desc, c.confirmation_id desc;
