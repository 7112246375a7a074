// Minutes that nodes spent in a night. Pure.
import type { NodeUse } from "./api-types";

export type Load = { node: string; suites: NodeUse[]; used: number; planned: number };

/** Minutes of each node, all suites together, the fullest first. */
export function loads(use: NodeUse[]): Load[] {
  const found = new Map<string, Load>();
  for (const each of use) {
    const load = found.get(each.node) ?? { node: each.node, suites: [], used: 0, planned: 0 };
    load.suites.push(each);
    load.used += each.used_s / 60;
    load.planned += each.planned_s / 60;
    found.set(each.node, load);
  }
  return [...found.values()].sort((one, other) => other.used - one.used);
}
