-- A snooze ends: a year ahead at most, as on the pages. A typing error in the year would silence
-- an alert for ever, and beyond the year 9999 no client in Python reads the row any more: the
-- lists fail, and with them the judging of every night of the cluster.
create or replace function triage.snooze_alert(
    p_alert_id bigint,
    p_until timestamptz,
    p_by text,
    p_why text default ''
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    was text;
begin
    perform triage.check_person(p_by);
    was := triage.live_alert(p_alert_id, 'snoozed');
    if p_until is null or p_until <= now() or p_until > now() + interval '366 days' then
        raise exception using message = 'an alert is snoozed until a time to come, a year ahead '
            || 'at most, found ' || coalesce(p_until::text, 'nothing');
    end if;
    update raw.alert set snoozed_until = p_until where alert_id = p_alert_id;
    insert into raw.alert_event (alert_id, what, from_state, to_state, by_whom, why)
    values (
        p_alert_id, 'snoozed', was, was, p_by,
        concat_ws(': ', 'until ' || to_char(p_until at time zone 'utc', 'YYYY-MM-DD HH24:MI')
            || ' UTC', nullif(p_why, ''))
    );
    return was;
end
$$;
comment on function triage.snooze_alert is
'No message of a live alert before a time, a year ahead at most';

update raw.alert set snoozed_until = now() + interval '366 days'
where snoozed_until > now() + interval '366 days';
