-- A build of a framework line.
-- Writes only where something differs.
insert into raw.build as t (
    build_id,
    line,
    variant,
    source,
    version,
    location,
    digest
)
values (
    %(build_id)s,
    %(line)s,
    %(variant)s,
    %(source)s,
    %(version)s,
    %(location)s,
    %(digest)s
)
on conflict (build_id) do update set
    line = excluded.line,
    variant = excluded.variant,
    source = excluded.source,
    version = excluded.version,
    location = excluded.location,
    digest = excluded.digest
where t.* is distinct from excluded.*;
