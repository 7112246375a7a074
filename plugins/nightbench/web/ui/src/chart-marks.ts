// What the plot of a series shows beside its line: states of results, changes between them, and
// the range of the y axis. Pure.
import type { SeriesHistory, SeriesPoint } from "./api-types";
import { day } from "./format";

export type Event = { at: number; label: string; kind: "alert" | "version" | "other" };

/** The state of a result in one word. */
export function pointState(point: SeriesPoint): string {
  if (point.is_quarantined) return "quarantined";
  if (point.is_private_build) return "private_build";
  return point.verdict ?? "measured";
}

/** True for a median that is part of the series' history. */
export function counts(point: SeriesPoint): boolean {
  return point.throughput !== null && !point.is_quarantined && !point.is_private_build;
}

export function seconds(at: string): number {
  return Date.parse(at) / 1000;
}

/** Where something changed between a median and the one before it, and where alerts begin. */
export function events(series: SeriesHistory): Event[] {
  const found: Event[] = [];
  let before: SeriesPoint | undefined;
  for (const point of series.points) {
    if (!counts(point)) continue;
    if (before) {
      const at = seconds(point.started_at);
      const differs = (key: "framework_version" | "definition_digest") =>
        before?.[key] && point[key] && before[key] !== point[key];
      if (differs("framework_version")) {
        found.push({ at, label: point.framework_version ?? "", kind: "version" });
      }
      if (differs("definition_digest")) found.push({ at, label: "protocol or code", kind: "other" });
      if (before.node_names && point.node_names && `${before.node_names}` !== `${point.node_names}`) {
        found.push({ at, label: `nodes ${point.node_names.join(", ")}`, kind: "other" });
      }
    }
    before = point;
  }
  for (const alert of series.alerts) {
    found.push({
      at: seconds(alert.since ?? alert.opened_at),
      label: `alert ${alert.alert_id}`,
      kind: "alert",
    });
  }
  return found.sort((one, other) => one.at - other.at);
}

export function describe(event: Event): string {
  const what = { alert: event.label, version: `version ${event.label}`, other: event.label };
  return `${day(event.at * 1000)}: ${what[event.kind]}`;
}

function quantile(sorted: number[], share: number): number {
  const at = share * (sorted.length - 1);
  const low = sorted[Math.floor(at)] ?? NaN;
  const high = sorted[Math.ceil(at)] ?? NaN;
  return low + (high - low) * (at - Math.floor(at));
}

/** A range that single outliers do not widen; these are marked at its edge. */
export function robustRange(values: number[]): [number, number] {
  if (!values.length) return [0, 1];
  const sorted = [...values].sort((one, other) => one - other);
  const low = quantile(sorted, 0.04);
  const high = quantile(sorted, 0.96);
  const margin = Math.max(0.6 * (high - low), 0.01 * Math.abs(high), 1e-9);
  return [low - margin, high + margin];
}
