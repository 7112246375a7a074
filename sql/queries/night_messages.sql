-- Channels that had a suite's message of a night.
select channel
from raw.message
where
    suite = %(suite)s
    and night = %(night)s
    and kind = 'night';
