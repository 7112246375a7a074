-- An alert whose fall grows is notified again.
alter table raw.alert add column grown_from double precision;
comment on column raw.alert.grown_from is
'Change that was notified before it grew; null once its growth has been notified';
grant update (grown_from) on raw.alert to nightbench_loader;

alter table raw.alert_event drop constraint alert_event_what_check;
alter table raw.alert_event add constraint alert_event_what_check check (
    what in ('opened', 'continued', 'grew', 'moved', 'over', 'snoozed', 'woke', 'assigned')
);

create function triage.grow_alert(p_alert_id bigint, p_run_id text) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    found raw.alert;
    notified double precision;
begin
    select * into found from raw.alert where alert_id = p_alert_id for update;
    if found.alert_id is null or found.state not in ('open', 'acknowledged')
        or found.told_at is null or found.news_run_id = p_run_id then
        return false;
    end if;
    select change into notified from raw.verdict
    where run_id = found.news_run_id and case_id = found.case_id;
    update raw.alert set told_at = null, news_run_id = p_run_id, grown_from = notified
    where alert_id = p_alert_id;
    insert into raw.alert_event (alert_id, what, from_state, to_state, by_whom, why, run_id)
    values (
        p_alert_id, 'grew', found.state, found.state, 'nightbench',
        'from ' || to_char(100 * notified, 'FM990.0') || ' % to '
            || to_char(100 * found.change, 'FM990.0') || ' %', p_run_id
    );
    return true;
end
$$;
comment on function triage.grow_alert is
'The change of a live alert has grown since it was notified, so it is notified again; false where '
'it waits for its message anyway';
revoke execute on function triage.grow_alert from public;
grant execute on function triage.grow_alert to nightbench_loader;
