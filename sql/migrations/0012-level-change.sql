-- The change that a verdict's interval belongs to, beside the change of the night's own value.
alter table raw.verdict add column level_change double precision;
comment on column raw.verdict.level_change is
'Estimate of the level''s relative change, which low and high enclose; null before 0.2.0';
