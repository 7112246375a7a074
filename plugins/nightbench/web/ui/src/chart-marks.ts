// What the plot of a series shows beside its line: states of results, changes between them, and
// the range of the y axis. Pure.
import type { SeriesHistory, SeriesPoint } from "./api-types";
import { day } from "./format";

export type Event = {
  at: number;
  label: string;
  /** A detail that does not fit next to a line. */
  detail?: string;
  kind: "alert" | "version" | "other";
};

/** A published value in the unit of the series. */
export type Reference = { value: number; label: string };

/** The published values to compare a series with, in its unit. */
export function references(series: SeriesHistory): Reference[] {
  const newest = series.points.findLast(counts)?.throughput;
  const found = new Map<string, Reference>();
  for (const each of series.published) {
    if (each.metric !== "throughput" || each.is_unit_doubtful) continue;
    if (!each.measured_value || !newest) continue;
    // The warehouse has the newest median in both units.
    const value = (each.published_value * newest) / each.measured_value;
    const device = each.published_device ?? "hardware not stated";
    found.set(each.reference_id, { value, label: `${each.source_document}, ${device}` });
  }
  return [...found.values()];
}

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
      const differs = (key: "framework_version" | "definition_digest" | "code_digest") =>
        before?.[key] && point[key] && before[key] !== point[key];
      if (differs("framework_version")) {
        found.push({ at, label: point.framework_version ?? "", kind: "version" });
      }
      if (differs("definition_digest")) found.push({ at, label: "protocol", kind: "other" });
      if (differs("code_digest")) found.push({ at, label: "code", kind: "other" });
      if (point.state_changes.length) {
        found.push({ at, label: "node", detail: point.state_changes.join(", "), kind: "other" });
      }
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

/**
 * Labels of marks on an axis, sorted. Labels that would cover each other become one label, which names an alert first. Near the end of the axis, a label is to the left of its mark.
 */
export function mergeLabels<T extends { x: number; label: string; kind: Event["kind"] }>(
  marks: T[],
  gap: number,
  end: number,
): T[] {
  const groups: T[][] = [];
  for (const each of marks) {
    const group = groups.at(-1);
    const begins = each.x > end - gap ? each.x - gap : each.x;
    if (group?.[0] && begins < group[0].x + gap) group.push(each);
    else groups.push([each]);
  }
  return groups.flatMap((group) => {
    const named = group.find((each) => each.kind === "alert") ?? group[0];
    const label = named && group.length > 1 ? `${named.label} +${group.length - 1}` : named?.label;
    return named && label !== undefined && group[0] ? [{ ...named, x: group[0].x, label }] : [];
  });
}

/** Changes day by day, oldest first. */
export function byDay(changes: Event[]): { at: number; events: Event[] }[] {
  const found = new Map<string, Event[]>();
  for (const event of changes) {
    const key = day(event.at * 1000);
    found.set(key, [...(found.get(key) ?? []), event]);
  }
  return [...found.values()].map((those) => ({ at: those[0]?.at ?? 0, events: those }));
}

/** The changes of a day. */
export function describe({ at, events }: { at: number; events: Event[] }): string {
  const said = events.map(
    (event) =>
      `${event.kind === "version" ? "version " : ""}${event.label}${event.detail ? ` (${event.detail})` : ""}`,
  );
  return `${day(at * 1000)}: ${said.join("; ")}`;
}

function quantile(sorted: number[], share: number): number {
  const at = share * (sorted.length - 1);
  const low = sorted[Math.floor(at)] ?? NaN;
  const high = sorted[Math.ceil(at)] ?? NaN;
  return low + (high - low) * (at - Math.floor(at));
}

/** Places of the newest median of a range and of the first one of each open alert. */
export function mustShow(series: SeriesHistory, low: number, high: number): number[] {
  const inside = series.points.filter(
    (point) => counts(point) && seconds(point.started_at) >= low && seconds(point.started_at) <= high,
  );
  const fell = series.alerts
    .filter((alert) => ["open", "acknowledged"].includes(alert.state))
    .map((alert) => seconds(alert.since ?? alert.opened_at))
    .map((onset) => inside.find((point) => seconds(point.started_at) >= onset));
  return [inside.at(-1), ...fell]
    .map((point) => point?.throughput ?? null)
    .filter((value): value is number => value !== null);
}

/** A range that single outliers do not widen, outliers are marked at its edge; `shown` are inside. */
export function robustRange(values: number[], shown: number[] = []): [number, number] {
  if (!values.length) return [0, 1];
  const sorted = [...values].sort((one, other) => one - other);
  const low = Math.min(quantile(sorted, 0.04), ...shown);
  const high = Math.max(quantile(sorted, 0.96), ...shown);
  const margin = Math.max(0.6 * (high - low), 0.01 * Math.abs(high), 1e-9);
  return [low - margin, high + margin];
}
