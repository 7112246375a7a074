-- Grain: one row per news of a live alert, and per alert that a run ended, that is still to be sent.
create or replace view staging.unnotified_alert as
with news as (
    select
        'alert' as kind,
        alert_id,
        news_run_id as news
    from raw.alert
    where
        state in ('open', 'acknowledged')
        and (snoozed_until is null or snoozed_until <= now())
    union all
    select
        'alert_end' as kind,
        alert_id,
        resolved_run_id as news
    from raw.alert
    where state = 'resolved' and resolved_run_id is not null
)

select
    n.kind,
    n.alert_id::text as subject,
    n.news,
    n.alert_id
from news as n
where not exists (
    select from raw.delivery as d
    where
        d.kind = n.kind
        and d.subject = n.alert_id::text
        and d.news = n.news
        and d.channel = ''
);

comment on view staging.unnotified_alert is
'Live alerts that have news, and alerts that ended, of which no message is sent yet; without '
'snoozed alerts';
comment on column staging.unnotified_alert.kind is 'alert or alert_end, as in raw.delivery';
comment on column staging.unnotified_alert.subject is 'alert_id as in raw.delivery';
comment on column staging.unnotified_alert.news is 'Run that made the item new';
comment on column staging.unnotified_alert.alert_id is 'Number of the alert';
