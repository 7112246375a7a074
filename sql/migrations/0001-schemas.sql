-- The three layers and who may do what in them. The roles nightbench_owner (runs this),
-- nightbench_loader and nightbench_reader exist before; a migration only grants.
create schema raw;
create schema staging;
create schema marts;

comment on schema raw is
'Plans, results and verdicts: facts by month around cases and series';
comment on schema staging is
'Views over raw: facts with their run and axes, one generation of each case';
comment on schema marts is
'Views for analysts and pages; the comment of each view says what a row is';

grant usage on schema raw, staging, marts to nightbench_loader, nightbench_reader;

-- Tables and views that later migrations make are covered by these defaults.
alter default privileges in schema raw
grant select, insert, update on tables to nightbench_loader;
alter default privileges in schema raw grant select on tables to nightbench_reader;
alter default privileges in schema staging
grant select on tables to nightbench_loader, nightbench_reader;
alter default privileges in schema marts
grant select on tables to nightbench_loader, nightbench_reader;

create schema triage;
comment on schema triage is
'Functions that change alerts; there is no other way to change an alert';

-- Names and notes of people: short, and without control codes for the direction of text. Callers of
-- the functions of triage by SQL have the same limits as the pages and the command.
create function raw.is_plain(given text, longest integer) returns boolean
language sql immutable
set search_path = pg_catalog
return length(given) <= longest
and given !~ '[\u0001-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]';
comment on function raw.is_plain is
'No control characters, no codes for the direction of writing, and not too long';

-- Locks that need the right to write: any role may take an advisory lock, and with the same lock a
-- reader would stall judging.
create table raw.lock (
    name text primary key check (name <> ''),
    pid integer,
    backend_start timestamptz
);
comment on table raw.lock is 'Named locks; a row is locked for a transaction or owned by a session';
comment on column raw.lock.pid is
'PostgreSQL backend that owns the lock until it disconnects; null if no backend owns it';
comment on column raw.lock.backend_start is 'Start of that backend, because process ids are reused';
comment on column raw.lock.name is 'Name of the lock';

create function raw.try_session_lock(wanted text) returns boolean
language plpgsql
set search_path = pg_catalog
as $$
declare
    was raw.lock;
begin
    insert into raw.lock (name) values (wanted) on conflict do nothing;
    -- Sessions are read again while the row is locked: an owner may have connected since this
    -- transaction read them before.
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
'Takes a named lock until the session ends; false if another session owns it';
revoke execute on function raw.try_session_lock from public;
grant execute on function raw.try_session_lock to nightbench_loader;
