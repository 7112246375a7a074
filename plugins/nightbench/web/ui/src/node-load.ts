// Minutes that nodes spent in a night. Pure.
import type { NodeNights, NodeUse } from "./api-types";

export type Load = { node: string; suites: NodeUse[]; used: number; planned: number; busy: number };

/** Minutes of each node, all suites together, the fullest first. */
export function loads(use: NodeUse[]): Load[] {
  const found = new Map<string, Load>();
  for (const each of use) {
    const load = found.get(each.node) ?? { node: each.node, suites: [], used: 0, planned: 0, busy: each.busy_s / 60 };
    load.suites.push(each);
    load.used += each.used_s / 60;
    load.planned += each.planned_s / 60;
    found.set(each.node, load);
  }
  return [...found.values()].sort((one, other) => other.busy - one.busy);
}

export type Night = { day: string; cases: number; faults: number; isQuarantined: boolean };

/** The nights of a node, oldest first. */
export function nightsOf({ first_night: first, cases, faults, quarantined }: NodeNights): Night[] {
  return cases.map((number, index) => ({
    day: new Date(Date.parse(first) + index * 86_400_000).toISOString().slice(0, 10),
    cases: number,
    faults: faults[index] ?? 0,
    isQuarantined: quarantined[index] ?? false,
  }));
}

/** A night in words, such as "2026-11-25: 30 cases, 1 fault". */
export function nightText({ day, cases, faults, isQuarantined }: Night): string {
  const parts = [
    cases === 1 ? "1 case" : `${cases} cases`,
    faults === 1 ? "1 fault" : faults > 1 ? `${faults} faults` : "",
    isQuarantined ? "in quarantine" : "",
  ];
  return `${day}: ${parts.filter(Boolean).join(", ")}`;
}
