-- Grain: one row per fingerprint and field that has a value. Fields are named by their path;
-- entries of a list by their index, name, device or number. Fields that name the node or belong to
-- a framework's environment are not part of the fingerprint's identity and are excluded, as in
-- causes/field_changes.py.
create or replace view marts.fingerprint_field as
select
    f.fingerprint_id,
    e.field,
    e.value
from raw.fingerprint as f
cross join lateral (
    with recursive part as (
        select
            d.key as field,
            d.value
        from jsonb_each(f.document) as d
        where
            d.key not in (
                'schema', 'id', 'host', 'taken_at', 'build', 'python', 'packages', 'code_digest'
            )
        union all
        select
            p.field || '.' || i.name as field,
            i.value
        from part as p
        cross join lateral (
            select
                o.key as name,
                o.value
            from
                jsonb_each(
                    case when jsonb_typeof(p.value) = 'object' then p.value else '{}' end
                ) as o
            union all
            select
                coalesce(
                    a.value ->> 'index',
                    a.value ->> 'name',
                    a.value ->> 'device',
                    a.value ->> 'node',
                    (a.place - 1)::text
                ) as name,
                a.value
            from jsonb_array_elements(
                case when jsonb_typeof(p.value -> 0) = 'object' then p.value else '[]' end
            ) with ordinality as a (value, place)
        ) as i
    )

    select
        p.field,
        case
            when jsonb_typeof(p.value) = 'array'
                then (
                    select string_agg(t.item, ', ' order by t.place)
                    from jsonb_array_elements_text(p.value) with ordinality as t (item, place)
                )
            else p.value #>> '{}'
        end as value
    from part as p
    where
        f.document <> '{}'
        and jsonb_typeof(p.value) not in ('object', 'null')
        and p.value <> '[]'
        and jsonb_typeof(p.value -> 0) is distinct from 'object'
) as e;

comment on view marts.fingerprint_field is
'One row per fingerprint and field of the node that has a value: hardware, drivers, kernel';
comment on column marts.fingerprint_field.field is
'Path of the field, with entries of lists by index or name: gpus.0.driver';
comment on column marts.fingerprint_field.value is 'Value as text; the values of a list are joined';
