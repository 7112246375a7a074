// Addresses of the pages. They lie below Airflow's own route of a plugin and may be shared.

export const HOME = "/plugin/benchmarks";

export const routes = {
  morning: () => HOME,
  explore: (query = "") => `${HOME}/explore${query && `?${query}`}`,
  series: (caseId: string, cluster: string) =>
    `${HOME}/series?${new URLSearchParams({ case: caseId, cluster })}`,
  compare: () => `${HOME}/compare`,
  experiments: () => `${HOME}/experiments`,
  experiment: (name: string) => `${HOME}/experiments/${encodeURIComponent(name)}`,
  published: (source = "", figure = "") =>
    `${HOME}/compare?${new URLSearchParams({ by: "published", ...(source && { source, figure }) })}`,
  runs: () => `${HOME}/runs`,
  run: (runId: string) => `${HOME}/runs/${encodeURIComponent(runId)}`,
  case: (runId: string, caseId: string) =>
    `${HOME}/runs/${encodeURIComponent(runId)}/${encodeURIComponent(caseId)}`,
  alerts: () => `${HOME}/alerts`,
  alert: (alertId: number) => `${HOME}/alerts/${alertId}`,
  nodes: () => `${HOME}/nodes`,
  dagRun: (dagId: string, dagRunId: string) =>
    `/dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(dagRunId)}`,
};
