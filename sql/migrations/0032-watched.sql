-- A night far off the baseline has a verdict of its own until a second one confirms it, and a
-- framework that cannot be had is not a failure.
alter table raw.verdict drop constraint verdict_kind_check;
alter table raw.verdict add constraint verdict_kind_check check (
    kind in (
        'ok', 'watched', 'regressed', 'improved', 'insufficient_data', 'failed', 'unavailable',
        'missing'
    )
);
alter table raw.shadow_verdict drop constraint shadow_verdict_kind_check;
alter table raw.shadow_verdict add constraint shadow_verdict_kind_check check (
    kind in ('ok', 'watched', 'regressed', 'improved', 'insufficient_data')
);
