-- Drifts, the largest fall first. A null parameter does not constrain.
select *
from marts.fct_drift
where
    (%(suite)s::text is null or suite = %(suite)s)
    and (%(cluster)s::text is null or cluster = %(cluster)s)
    and (not %(standing)s or over_at is null)
    and (
        not %(untold)s
        or (
            is_news
            and told_at is null
            and over_at is null
            and at <= %(until)s::timestamptz
        )
    )
order by change asc, case_id asc, cluster asc, at asc;
