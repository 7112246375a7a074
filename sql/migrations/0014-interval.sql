-- The interval of a verdict is one of 90 %; its first comment said 95 %.
comment on column raw.verdict.low is
'With high: 90 % interval of level_change; verdicts of 0.1.0, without level_change, called it 95 %';
