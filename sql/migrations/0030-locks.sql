-- Locks that only whoever may write can hold: any role may take an advisory lock, and with one of
-- ours a reader would stall judging.
create table raw.lock (
    name text primary key check (name <> ''),
    pid integer,
    backend_start timestamptz
);
comment on table raw.lock is 'Named locks; a row is locked for a transaction or owned by a session';
comment on column raw.lock.pid is 'Backend that owns it until it disconnects; null where none does';
comment on column raw.lock.backend_start is 'When that backend began: process ids are used again';

create function raw.try_session_lock(wanted text) returns boolean
language plpgsql
set search_path = pg_catalog
as $$
declare
    was raw.lock;
begin
    insert into raw.lock (name) values (wanted) on conflict do nothing;
    -- Sessions are looked at while the row is locked, and anew: an owner may have connected since
    -- this transaction looked at them before.
    select * into was from raw.lock where name = wanted for update;
    perform pg_stat_clear_snapshot();
    if exists (
        select from pg_stat_activity as owner
        where
            owner.pid = was.pid
            and owner.pid <> pg_backend_pid()
            -- Hidden where the owner logged in by a role that this one is no member of.
            and coalesce(owner.backend_start, was.backend_start) = was.backend_start
    ) then
        return false;
    end if;
    update raw.lock
    set
        pid = me.pid,
        backend_start = me.backend_start
    from pg_stat_activity as me
    where lock.name = wanted and me.pid = pg_backend_pid();
    return true;
end
$$;
comment on function raw.try_session_lock is
'Own a named lock until the session ends; false where another session owns it';
revoke execute on function raw.try_session_lock from public;
grant execute on function raw.try_session_lock to nightbench_loader;
