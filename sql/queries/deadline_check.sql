-- When deadlines were last checked.
select
    checked_at,
    suites,
    missing
from raw.deadline_check;
