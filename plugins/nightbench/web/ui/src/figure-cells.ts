// The figure of a published table: which axis divides it, and a bar for each cell. Pure.
import type { ComparedPair, PublishedCell } from "./api-types";
import { words } from "./format";

export type Bar = { key: string; label: string; published: number | null; ours: number | null };
export type Group = { x: string; bars: Bar[] };
export type Panel = { title: string; axis: string; highest: number; groups: Group[] };

const AXES: Record<string, (cell: PublishedCell) => string> = {
  "nodes x devices": ({ nodes, devices_per_node: devices }) => {
    if (nodes === null) return "";
    return devices === null ? `${nodes} ${nodes === 1 ? "node" : "nodes"}` : `${nodes} x ${devices}`;
  },
  "parameter servers": (cell) => String(cell.pservers ?? ""),
  trainers: (cell) => String(cell.trainers ?? ""),
  "batch size": (cell) => cell.batch_size ?? "",
  variant: (cell) => cell.variant ?? "",
};
const NAMES: ((cell: PublishedCell) => string)[] = [
  (cell) => cell.framework,
  (cell) => cell.published_version ?? "",
  (cell) => cell.precision ?? "",
  (cell) => (cell.compiler && cell.compiler !== "none" ? cell.compiler : ""),
];

function varies(cells: PublishedCell[], of: (cell: PublishedCell) => string): boolean {
  return new Set(cells.map(of)).size > 1;
}

function panel(title: string, cells: PublishedCell[]): Panel {
  const axis = Object.keys(AXES).find((name) => varies(cells, AXES[name]!)) ?? "batch size";
  const others = Object.keys(AXES).filter((name) => name !== axis && varies(cells, AXES[name]!));
  // What is the same in all cells is not said in each.
  const names = NAMES.filter((name, index) => index === 0 || varies(cells, name));
  const parts = [...names, ...others.map((name) => AXES[name]!)];
  const groups = new Map<string, Bar[]>();
  for (const cell of cells) {
    const x = AXES[axis]!(cell) || "not stated";
    const label = parts
      .map((part) => part(cell))
      .concat(cell.cluster ?? "")
      .filter(Boolean)
      .join(", ");
    const key = `${cell.reference_id} ${cell.case_id} ${cell.cluster}`;
    const bar = { key, label, published: cell.published_value, ours: cell.measured_value };
    groups.set(x, [...(groups.get(x) ?? []), bar]);
  }
  const values = cells.flatMap((cell) => [cell.published_value ?? 0, cell.measured_value ?? 0]);
  return {
    title,
    axis,
    highest: Math.max(...values),
    groups: [...groups]
      .map(([x, bars]) => ({
        x,
        bars: bars.sort((one, other) => one.label.localeCompare(other.label, "en")),
      }))
      .sort((one, other) => one.x.localeCompare(other.x, "en", { numeric: true })),
  };
}

/** A panel for each workload, metric and unit that has any value. */
export function panels(cells: PublishedCell[]): Panel[] {
  const found = new Map<string, PublishedCell[]>();
  for (const cell of cells) {
    const unit = cell.unit && !cell.is_unit_doubtful ? `, ${cell.unit}` : "";
    const title = `${cell.workload}: ${words(cell.metric)}${unit}`;
    found.set(title, [...(found.get(title) ?? []), cell]);
  }
  return [...found].map(([title, those]) => panel(title, those)).filter(({ highest }) => highest > 0);
}

/** The pairs that have a ratio, the slowest first. */
export function sortedRatios(pairs: ComparedPair[]): ComparedPair[] {
  return pairs
    .filter(({ ratio }) => ratio !== null)
    .sort((one, other) => (one.ratio ?? 0) - (other.ratio ?? 0));
}
