-- By which checks a run was judged.
alter table raw.run add column checks_digest text not null default '';
comment on column raw.run.checks_digest is
'Digest of the checks that judged it when it was loaded last; empty before 0.2.0, and of imports';
