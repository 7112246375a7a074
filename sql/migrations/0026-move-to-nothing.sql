-- A move to no state is refused in words: before, a row of raw.alert was refused by its constraint,
-- and the whole row stood in the message.
create or replace function triage.move_alert(
    p_alert_id bigint,
    p_to text,
    p_by text,
    p_why text default '',
    p_reason text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
begin
    perform triage.check_person(p_by);
    if p_to is null then
        raise exception using message = 'an alert becomes acknowledged, resolved, dismissed or '
            || 'open, found nothing';
    end if;
    return triage.apply_move(p_alert_id, p_to, p_by, p_why, p_reason, null);
end
$$;
