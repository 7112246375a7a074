-- What a verdict rests on, for whoever tells of it later; which message told what on which channel.
alter table raw.verdict add column low double precision;
alter table raw.verdict add column high double precision;
alter table raw.verdict add column since timestamptz;
alter table raw.verdict add column first_bad_run_id text;
alter table raw.verdict add column last_good_run_id text;
comment on column raw.verdict.low is
'With high: 95 % interval of the level''s relative change, for regressed and improved';
comment on column raw.verdict.since is 'First night at the new level';
comment on column raw.verdict.first_bad_run_id is 'Run of that night';
comment on column raw.verdict.last_good_run_id is
'Last run before the change; of a failed or missing case the last one with a value';

alter table raw.alert add column end_told_at timestamptz;
update raw.alert set end_told_at = now()
where closed_at is not null;
comment on column raw.alert.end_told_at is
'When its recovery was told, or found to have no channel; null: not ended by a run, or to be told';

create table raw.message (
    message_id bigint generated always as identity primary key,
    suite text not null check (suite <> ''),
    night date not null,
    kind text not null check (kind in ('night', 'urgent')),
    channel text not null check (channel <> ''),
    run_id text not null references raw.run (run_id),
    title text not null,
    sent_at timestamptz not null default clock_timestamp()
);
create unique index message_one_for_each_night on raw.message (suite, night, channel)
where kind = 'night';
comment on table raw.message is 'What was sent: at most one message of a night for each channel';
comment on column raw.message.night is 'Day on which the night begins, by the suite''s own clock';
comment on column raw.message.channel is 'Place and kind of the channel; never its URL';
comment on column raw.message.run_id is 'Run that was judged when it was sent';

create table raw.message_item (
    message_id bigint not null references raw.message (message_id),
    alert_id bigint not null references raw.alert (alert_id),
    what text not null check (what in ('news', 'ended')),
    of_run_id text not null references raw.run (run_id),
    primary key (message_id, alert_id, what)
);
create index message_item_by_alert on raw.message_item (alert_id);
comment on table raw.message_item is 'The alerts that a message told of';
comment on column raw.message_item.of_run_id is
'Run that made it news: it opened, reopened or woke the alert, or ended it';

-- Whose a new alert is, as the suite's file says. People have the last word: nobody is put in who
-- was ever assigned, or taken away.
create function triage.route_alert(p_alert_id bigint, p_owner text, p_run_id text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    was text;
begin
    select state into was from raw.alert
    where alert_id = p_alert_id and owner is null for update;
    if was is null or nullif(trim(p_owner), '') is null or exists (
        select 1 from raw.alert_event where alert_id = p_alert_id and what = 'assigned'
    ) then
        return false;
    end if;
    update raw.alert set owner = trim(p_owner) where alert_id = p_alert_id;
    insert into raw.alert_event (alert_id, what, from_state, to_state, by_whom, why, run_id)
    values (p_alert_id, 'assigned', was, was, 'nightbench', 'to ' || trim(p_owner), p_run_id);
    return true;
end
$$;
comment on function triage.route_alert is
'Gives a new alert its owner; false where somebody was assigned before';

grant select, insert on raw.message, raw.message_item to nightbench_loader;
grant update (end_told_at) on raw.alert to nightbench_loader;
revoke execute on function triage.route_alert from public;
grant execute on function triage.route_alert to nightbench_loader;
