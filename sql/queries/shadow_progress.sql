-- How far each shadow of a suite on a cluster has been judged.
select
    case_id,
    month,
    shadow,
    max(night) as night,
    max(at) as judged_at,
    max(at) filter (where kind = 'regressed') as regressed_at,
    bool_or(coalesce(outcome in ('caught', 'missed', 'spoiled'), false)) as is_decided
from raw.shadow_verdict
where
    suite = %(suite)s
    and cluster = %(cluster)s
    and month >= %(since)s
group by case_id, month, shadow;
