// Made from plugins/nightbench/web/ui_models.py by `make ui`.

export type AlertBisect = {
  bisect_id: string;
  line: string;
  good: string;
  bad: string;
  versions: Array<string>;
  state: string;
  outcome: string | null;
  first_bad: string | null;
  last_good: string | null;
  sentence: string | null;
  notes: Array<string>;
  started_at: string;
  ended_at: string | null;
  spent_s: number;
  budget_s: number;
  tests: Array<BisectTest>;
};

export type AlertDetail = {
  alert_id: number;
  case_id: string;
  cluster: string;
  workload: string | null;
  framework: string | null;
  unit: string | null;
  verdict: string;
  state: string;
  dismissed_as: string | null;
  snoozed_until: string | null;
  owner: string | null;
  sentence: string;
  value: number | null;
  baseline: number | null;
  change: number | null;
  change_low: number | null;
  change_high: number | null;
  since: string | null;
  opened_at: string;
  opened_run_id: string;
  last_run_id: string | null;
  first_bad_run_id: string | null;
  last_good_run_id: string | null;
  resolved_run_id: string | null;
  closed_at: string | null;
  notified_at: string | null;
  cause: string | null;
  cause_suspect: string | null;
  cause_sentence: string | null;
  group_key: string | null;
  confirmation: string | null;
  confirmation_state: string | null;
  confirmation_sentence: string | null;
  confirmation_ratio: number | null;
  confirmation_low: number | null;
  confirmation_high: number | null;
  confirmation_rounds: number | null;
  evidence_sentences: Array<string>;
  events: Array<AlertEvent>;
  bisects: Array<AlertBisect>;
  severity: string;
  severity_because: string;
  group: Array<AlertRow>;
  actions: Array<OfferedAction>;
  reasons: Record<string, string>;
};

export type AlertEvent = {
  event_id: number;
  at: string;
  what: string;
  from_state: string | null;
  to_state: string | null;
  by_whom: string;
  db_role: string;
  why: string;
  run_id: string | null;
};

export type AlertGroupRow = {
  head: AlertRow;
  alerts: number;
  states: Record<string, number>;
  severity: string;
  severity_because: string;
  medians: Array<number>;
  bisect: BisectProgress | null;
};

export type AlertGroups = {
  items: Array<AlertGroupRow>;
  total: number;
  alerts: number;
  page: number;
  size: number;
};

export type AlertLabels = {
  cluster: string;
  alerts: number;
  live: number;
  resolved: number;
  intended: number;
  wont_fix: number;
  false_alarms: number;
};

export type AlertList = {
  alerts: Array<AlertRow>;
  total: number;
  page: number;
  size: number;
};

export type AlertRow = {
  alert_id: number;
  case_id: string;
  cluster: string;
  workload: string | null;
  framework: string | null;
  unit: string | null;
  verdict: string;
  state: string;
  dismissed_as: string | null;
  snoozed_until: string | null;
  owner: string | null;
  sentence: string;
  value: number | null;
  baseline: number | null;
  change: number | null;
  change_low: number | null;
  change_high: number | null;
  since: string | null;
  opened_at: string;
  opened_run_id: string;
  last_run_id: string | null;
  first_bad_run_id: string | null;
  last_good_run_id: string | null;
  resolved_run_id: string | null;
  closed_at: string | null;
  notified_at: string | null;
  cause: string | null;
  cause_suspect: string | null;
  cause_sentence: string | null;
  group_key: string | null;
  confirmation: string | null;
  confirmation_state: string | null;
  confirmation_sentence: string | null;
  confirmation_ratio: number | null;
  confirmation_low: number | null;
  confirmation_high: number | null;
  confirmation_rounds: number | null;
};

export type AxisValue = {
  axis: string;
  value: string;
  series: number;
};

export type AxisValues = {
  items: Array<AxisValue>;
};

export type BisectDetail = {
  bisect_id: string;
  line: string;
  good: string;
  bad: string;
  versions: Array<string>;
  state: string;
  outcome: string | null;
  first_bad: string | null;
  last_good: string | null;
  sentence: string | null;
  notes: Array<string>;
  started_at: string;
  ended_at: string | null;
  spent_s: number;
  budget_s: number;
  alert_id: number | null;
  case_id: string;
  cluster: string;
  suite: string;
  requested_by: string;
  steps: number;
  suspects: Array<string>;
  tests: Array<BisectStep>;
  searched: Array<SearchedVersion>;
};

export type BisectHead = {
  bisect_id: string;
  line: string;
  good: string;
  bad: string;
  versions: Array<string>;
  state: string;
  outcome: string | null;
  first_bad: string | null;
  last_good: string | null;
  sentence: string | null;
  notes: Array<string>;
  started_at: string;
  ended_at: string | null;
  spent_s: number;
  budget_s: number;
  alert_id: number | null;
  case_id: string;
  cluster: string;
  suite: string;
  requested_by: string;
  steps: number;
};

export type BisectProgress = {
  bisect_id: string;
  line: string;
  good: string;
  bad: string;
  versions: number;
  state: string;
  outcome: string | null;
  first_bad: string | null;
  tests: number;
  spent_s: number;
  budget_s: number;
};

export type BisectSearch = {
  bisect_id: string;
  line: string;
  good: string;
  bad: string;
  versions: Array<string>;
  state: string;
  outcome: string | null;
  first_bad: string | null;
  last_good: string | null;
  sentence: string | null;
  notes: Array<string>;
  started_at: string;
  ended_at: string | null;
  spent_s: number;
  budget_s: number;
};

export type BisectStep = {
  number: number;
  kind: string;
  version: string;
  against: string;
  status: string;
  result: string | null;
  why: string | null;
  ratio: number | null;
  low: number | null;
  high: number | null;
  rounds: number | null;
  comparison_id: string;
  wanted_rounds: number;
  spent_s: number;
};

export type BisectTest = {
  number: number;
  kind: string;
  version: string;
  against: string;
  status: string;
  result: string | null;
  why: string | null;
  ratio: number | null;
  low: number | null;
  high: number | null;
  rounds: number | null;
};

export type CaseChange = {
  field: string;
  before: string;
  since: string;
  nodes: Array<string>;
};

export type CaseDetail = {
  run: RunRow;
  case: RunCase;
  generation: number | null;
  nodes: Array<string>;
  repeats: Array<RepeatResult>;
  checks_met: number;
  failed_checks: Array<FailedCheck>;
  good: GoodRun | null;
  changes: Array<CaseChange>;
  changes_sentence: string | null;
  fingerprints: Array<NodeFingerprint>;
  commands: Array<CommandLine>;
  may_trigger: boolean;
};

export type ClusterSummary = {
  cluster: string;
  description: string | null;
  device_kind: string | null;
  nodes: number | null;
  devices_per_node: number | null;
  runs: number;
  first_run_at: string;
  last_run_at: string;
};

export type CommandLine = {
  purpose: string;
  command: string;
};

export type ComparedPair = {
  standing: "faster" | "slower" | "unclear" | "only_one" | "only_other";
  one_case_id: string | null;
  other_case_id: string | null;
  one_cluster: string | null;
  other_cluster: string | null;
  one_run_id: string | null;
  other_run_id: string | null;
  one_version: string | null;
  other_version: string | null;
  one_throughput: number | null;
  other_throughput: number | null;
  one_n: number | null;
  other_n: number | null;
  unit: string;
  ratio: number | null;
  ratio_low: number | null;
  ratio_high: number | null;
};

export type ComparedPairs = {
  items: Array<ComparedPair>;
  faster: number;
  slower: number;
  unclear: number;
  only_one: number;
  only_other: number;
  means: Array<RatioMean>;
  total: number;
  page: number;
  size: number;
};

export type ComparedSides = {
  items: Array<string>;
};

export type ComparisonCase = {
  case_id: string;
  unit: string | null;
  nodes: Array<string>;
  level: number;
  verdict: string | null;
  sentence: string | null;
  ratio: number | null;
  low: number | null;
  high: number | null;
  stopped: string | null;
  rounds: Array<ComparisonRound>;
  dropped: Array<DroppedLaunch>;
};

export type ComparisonDetail = {
  comparison_id: string;
  suite: string;
  cluster: string;
  requested_by: string;
  started_at: string;
  ended_at: string | null;
  a: string;
  b: string;
  state: string;
  verdict: string | null;
  case_ids: Array<string>;
  rounds: number;
  min_effect: number;
  combined: string | null;
  not_combined: string | null;
  command: string | null;
  cases: Array<ComparisonCase>;
};

export type ComparisonHead = {
  comparison_id: string;
  suite: string;
  cluster: string;
  requested_by: string;
  started_at: string;
  ended_at: string | null;
  a: string;
  b: string;
  state: string;
  verdict: string | null;
  case_ids: Array<string>;
};

export type ComparisonRound = {
  round: number;
  order: string;
  a: number;
  b: number;
  ratio: number;
  running_ratio: number | null;
  running_low: number | null;
  running_high: number | null;
};

export type ControlMedian = {
  cluster: string;
  node: string;
  metric: string;
  device: string;
  backend: string;
  at: string;
  run_id: string | null;
  median: number;
  unit: string;
  median_before: number | null;
  ratio: number | null;
};

export type DagRunRun = {
  run_id: string | null;
};

export type DetectorGrade = {
  suite: string;
  cluster: string;
  run_id: string;
  started_at: string;
  measure: string;
  trials: number;
  rate: number | null;
  low: number | null;
  high: number | null;
  median_delay: number | null;
  limit_value: number | null;
  below: string;
};

export type DriftingSeries = {
  case_id: string;
  cluster: string;
  suite: string;
  change: number;
  error: number;
  nights: number;
  since: string;
  seen_at: string;
  seen_run_id: string;
};

export type DroppedLaunch = {
  round: number;
  arm: string;
  status: string;
  why: string;
};

export type Experiments = {
  bisects: Array<BisectHead>;
  comparisons: Array<ComparisonHead>;
};

export type FailedCheck = {
  generation: number;
  repeat: number;
  check_name: string;
  severity: string;
  observed: string;
  expected: string;
};

export type GoodRun = {
  run_id: string;
  started_at: string;
  throughput: number | null;
  framework_version: string | null;
};

export type LeftOutCase = {
  case_id: string;
  cluster: string;
  run_id: string;
  suite: string;
  code: string;
  observed: string | null;
  expected: string | null;
};

export type MissingNight = {
  suite: string;
  cluster: string;
  scheduled_at: string;
  sentence: string;
};

export type Morning = {
  at: string;
  since: string;
  alerts: Array<MorningAlert>;
  new_alerts: number;
  older_alerts: number;
  suites: Array<SuiteRun>;
  missing: Array<MissingNight>;
  left_out: Array<LeftOutCase>;
  noisy: Array<NoisySeries>;
  drifting: Array<DriftingSeries>;
  grades_too_low: Array<string>;
  is_empty: boolean;
};

export type MorningAlert = {
  alert_id: number;
  case_id: string;
  cluster: string;
  workload: string | null;
  framework: string | null;
  unit: string | null;
  verdict: string;
  state: string;
  is_new: boolean;
  sentence: string;
  value: number | null;
  baseline: number | null;
  change: number | null;
  change_low: number | null;
  change_high: number | null;
  opened_at: string;
  since: string | null;
  owner: string | null;
  snoozed_until: string | null;
  cause: string | null;
  cause_suspect: string | null;
  confirmation: string | null;
  confirmation_state: string | null;
  alerts_of_cause: number;
  severity: string;
  severity_because: string;
  medians: Array<number>;
};

export type NightWindowRow = {
  cluster: string;
  begins_at: string;
  ends_at: string;
};

export type NodeActivities = {
  items: Array<NodeActivity>;
};

export type NodeActivity = {
  cluster: string;
  run_id: string;
  case_id: string;
  nodes: Array<string>;
  is_holding: boolean;
  state: string;
  message: string;
  repeat: number | null;
  repeats: number | null;
  since: string;
  at: string;
};

export type NodeFingerprint = {
  node: string;
  fields: Record<string, string>;
};

export type NodeHealth = {
  cluster: string;
  node: string;
  address: string | null;
  state: string;
  state_since: string | null;
  sentences: Array<string>;
  state_by: string | null;
  faults_in_a_row: number;
  last_preflight_at: string | null;
  last_preflight_run_id: string | null;
  was_reachable: boolean | null;
  last_level: string | null;
  last_complaints: Array<string>;
};

export type NodeUse = {
  cluster: string;
  node: string;
  suite: string;
  first_at: string;
  cases: number;
  used_s: number;
  planned_s: number;
};

export type Nodes = {
  clusters: Array<ClusterSummary>;
  nodes: Array<NodeHealth>;
  controls: Array<ControlMedian>;
  use: Array<NodeUse>;
  windows: Array<NightWindowRow>;
};

export type NoisySeries = {
  case_id: string;
  cluster: string;
  suite: string;
  since_at: string;
  since_run_id: string;
  spread: number | null;
  max_spread: number | null;
  sentence: string;
};

export type OfferedAction = {
  name: string;
  label: string;
  hint: string;
  field: string;
};

export type PublishedCell = {
  reference_id: string;
  workload: string;
  framework: string;
  published_version: string | null;
  strategy: string | null;
  nodes: number | null;
  devices_per_node: number | null;
  trainers: number | null;
  pservers: number | null;
  batch_size: string | null;
  precision: string | null;
  compiler: string | null;
  variant: string | null;
  metric: string;
  unit: string | null;
  is_unit_doubtful: boolean;
  published_value: number | null;
  published_device: string | null;
  published_dataset: string | null;
  remark: string | null;
  case_id: string | null;
  cluster: string | null;
  run_id: string | null;
  measured_at: string | null;
  measured_version: string | null;
  measured_value: number | null;
  measured_n: number | null;
  measured_is_synthetic: boolean | null;
};

export type PublishedCells = {
  items: Array<PublishedCell>;
};

export type PublishedFigure = {
  reference_id: string;
  source_document: string;
  figure: string | null;
  metric: string;
  unit: string | null;
  published_value: number;
  measured_value: number | null;
  published_device: string | null;
  published_version: string | null;
  is_unit_doubtful: boolean;
};

export type PublishedTable = {
  source_document: string;
  figure: string | null;
  cells: number;
  measured: number;
  empty: number;
};

export type PublishedTables = {
  items: Array<PublishedTable>;
};

export type RankSteps = {
  process: string;
  role: string;
  rank: number;
  node: string;
  warmup: number;
  window: number;
  median_s: number;
  longest_s: number;
  outliers: number;
  limit_s: number;
  seconds: Array<number | null>;
};

export type RatioMean = {
  workload: string | null;
  pairs: number;
  ratio: number;
};

export type RepeatLog = {
  processes: Array<string>;
  process: string | null;
  text: string;
  is_cut: boolean;
  sentence: string | null;
};

export type RepeatResult = {
  generation: number;
  repeat: number;
  started_at: string | null;
  status: string;
  is_quarantined: boolean;
  sentences: Array<string>;
  throughput: number | null;
  window_s: number | null;
  steps: number | null;
  median_step_s: number | null;
  overlap: number | null;
  drift: number | null;
  time_to_first_step_s: number | null;
  peak_resident_bytes: number | null;
  sent_bytes_per_step: number | null;
  data_wait_s: number | null;
  loss_first: number | null;
  loss_median: number | null;
  error: string | null;
};

export type RepeatSteps = {
  items: Array<RankSteps>;
  sentence: string | null;
};

export type RepeatTelemetry = {
  items: Array<TelemetryMetric>;
  sentences: Array<string>;
};

export type RunCase = {
  case_id: string;
  cluster: string;
  state: string;
  sentences: Array<string>;
  error: string | null;
  framework_version: string | null;
  build_id: string | null;
  is_private_build: boolean;
  throughput: number | null;
  unit: string | null;
  n: number;
  minimum: number | null;
  maximum: number | null;
  spread: number | null;
  speedup: number | null;
  efficiency: number | null;
  baseline: number | null;
  change: number | null;
  change_low: number | null;
  change_high: number | null;
  smallest_slowdown: number | null;
  alert_id: number | null;
  alert_change: number | null;
  noisy: string | null;
  drift: number | null;
};

export type RunPage = {
  items: Array<RunRow>;
  page: number;
  size: number;
  has_more: boolean;
};

export type RunResults = {
  run: RunRow;
  cases: Array<RunCase>;
};

export type RunRow = {
  run_id: string;
  suite: string;
  cluster: string;
  run_kind: string;
  started_at: string;
  loaded_at: string | null;
  requested_by: string | null;
  dag_id: string | null;
  dag_run_id: string | null;
  code_digest: string | null;
  is_imported: boolean;
  planned: number;
  measured: number;
  failed: number;
  quarantined: number;
  left_out: number;
};

export type SearchedVersion = {
  version: string;
  standing: "good" | "bad" | "unsure" | "skipped" | "first_bad" | "suspect" | "untested";
  is_inferred: boolean;
};

export type SeriesAlert = {
  alert_id: number;
  verdict: string;
  state: string;
  dismissed_as: string | null;
  sentence: string;
  change: number | null;
  change_low: number | null;
  change_high: number | null;
  owner: string | null;
  cause: string | null;
  cause_suspect: string | null;
  opened_at: string;
  opened_run_id: string;
  first_bad_run_id: string | null;
  since: string | null;
  closed_at: string | null;
};

export type SeriesHistory = {
  case_id: string;
  cluster: string;
  unit: string | null;
  points: Array<SeriesPoint>;
  alerts: Array<SeriesAlert>;
  published: Array<PublishedFigure>;
  noisy: NoisySeries | null;
  drifting: DriftingSeries | null;
};

export type SeriesPage = {
  items: Array<SeriesRow>;
  total: number;
  page: number;
  size: number;
};

export type SeriesPoint = {
  run_id: string;
  run_kind: string;
  suite: string;
  started_at: string;
  throughput: number | null;
  low: number | null;
  high: number | null;
  n: number | null;
  spread: number | null;
  framework_version: string | null;
  build_id: string | null;
  definition_digest: string | null;
  code_digest: string | null;
  fingerprint_id: string | null;
  state_changes: Array<string>;
  node_names: Array<string> | null;
  is_private_build: boolean;
  is_quarantined: boolean;
  verdict: string | null;
  sentence: string | null;
  baseline: number | null;
  change: number | null;
  change_low: number | null;
  change_high: number | null;
  smallest_slowdown: number | null;
};

export type SeriesRow = {
  case_id: string;
  cluster: string;
  suite: string;
  workload: string;
  framework: string;
  framework_version: string | null;
  unit: string | null;
  axes: Record<string, string | number | boolean | null>;
  throughput: number | null;
  n: number | null;
  spread: number | null;
  speedup: number | null;
  efficiency: number | null;
  measured_at: string | null;
  measured_run_id: string | null;
  is_synthetic: boolean | null;
  state: string;
  verdict: string | null;
  verdict_sentence: string | null;
  judged_at: string | null;
  judged_run_id: string | null;
  change: number | null;
  change_low: number | null;
  change_high: number | null;
  smallest_slowdown: number | null;
  alert_id: number | null;
  alert_verdict: string | null;
  alert_change: number | null;
  drift: number | null;
  noisy: string | null;
  together: string | null;
  medians: Array<number>;
};

export type SuiteRun = {
  suite: string;
  cluster: string;
  run_id: string;
  run_kind: string;
  started_at: string;
  loaded_at: string | null;
  planned: number;
  measured: number;
  failed: number;
  quarantined: number;
  left_out: number;
  regressed: number;
  improved: number;
};

export type TelemetryMetric = {
  node: string;
  device: string;
  metric: string;
  unit: string;
  smallest: number;
  median: number;
  largest: number;
  seconds: Array<number>;
  values: Array<number | null>;
};

export type Trust = {
  grades: Array<DetectorGrade>;
  summary: Array<string>;
  noisy: Array<NoisySeries>;
  drifting: Array<DriftingSeries>;
  labels: Array<AlertLabels>;
};
