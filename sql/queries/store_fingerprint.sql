-- A node's hardware and software as found.
-- Writes only where something differs.
insert into raw.fingerprint as t (
    fingerprint_id,
    document
)
values (
    %(fingerprint_id)s,
    %(document)s
)
on conflict (fingerprint_id) do update set
    document = excluded.document
where t.* is distinct from excluded.*;
