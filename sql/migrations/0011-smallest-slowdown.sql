-- What a series would catch is part of what is said of it.
alter table raw.verdict add column smallest_slowdown double precision
check (smallest_slowdown > 0 and smallest_slowdown < 1);
comment on column raw.verdict.smallest_slowdown is
'Smallest relative fall that the series would tell within a week in nine of ten cases; '
'null where it was not judged';
