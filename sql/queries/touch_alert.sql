-- A live alert that another run confirms: kind, sentence and figures follow the latest run.
update raw.alert
set
    kind = %(kind)s,
    sentence = %(sentence)s,
    value = %(value)s,
    baseline = %(baseline)s,
    change = %(change)s,
    last_run_id = %(run_id)s
where
    case_id = %(case_id)s
    and cluster = %(cluster)s
    and state in ('open', 'acknowledged')
    and last_run_id <> %(run_id)s;
