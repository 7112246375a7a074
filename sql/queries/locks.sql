-- Named locks that a reader cannot hold.

-- name: lock_for_transaction(lock_name)
-- Locks a name until the transaction ends.
insert into raw.lock (name) values (:lock_name)
on conflict (name) do update set name = excluded.name
returning name;

-- name: try_session_lock(lock_name)
-- Locks a name until the connection is closed; false if another one has it.
select raw.try_session_lock(:lock_name) as is_locked;
