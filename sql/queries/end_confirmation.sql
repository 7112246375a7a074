-- What came out. One that had been given up meanwhile is known after all; one that has ended stays.
update raw.confirmation
set
    state = 'ended',
    outcome = %(outcome)s,
    sentence = %(sentence)s,
    ratio = %(ratio)s,
    low = %(low)s,
    high = %(high)s,
    rounds = %(rounds)s,
    detail = detail || %(detail)s,
    ended_at = now()
where
    confirmation_id = %(confirmation_id)s
    and state <> 'ended';
