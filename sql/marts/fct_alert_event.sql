-- Grain: one row per thing that happened to an alert.
create or replace view marts.fct_alert_event as
select *
from raw.alert_event;

comment on view marts.fct_alert_event is 'The history of each alert: who, when, from, to, why';
