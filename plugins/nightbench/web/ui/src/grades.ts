// Grades of the detector by suite, and the share of slowdowns detected over their size. Pure.
import type { DetectorGrade } from "./api-types";

/** The grades of a suite on a cluster, by measure. */
export type SuiteGrades = { name: string; by: Map<string, DetectorGrade> };

export function bySuite(grades: DetectorGrade[]): SuiteGrades[] {
  const found = new Map<string, SuiteGrades>();
  for (const grade of grades) {
    const name = `${grade.suite} on ${grade.cluster}`;
    const row = found.get(name) ?? { name, by: new Map() };
    row.by.set(grade.measure, grade);
    found.set(name, row);
  }
  return [...found.values()];
}

/** The place of a measure in a row: slowdowns by size, then by size over noise, then false alarms. */
export function place(measure: string): number {
  const size = Number(/\d+/.exec(measure)?.[0] ?? Number.MAX_VALUE);
  return measure.endsWith("%") ? size : 100 + size;
}

/** Share of slowdowns detected, in %, at each size in %: of all suites (by their trials), and of each, the lowest first. */
export function power(grades: DetectorGrade[]): {
  sizes: number[];
  all: (number | null)[];
  suites: { name: string; shares: (number | null)[] }[];
} {
  const found = grades.filter((grade) => grade.rate !== null && /^\d+%$/.test(grade.measure));
  const sizes = [...new Set(found.map(({ measure }) => parseInt(measure)))].sort((a, b) => a - b);
  const share = (those: DetectorGrade[], size: number) => {
    const at = those.filter(({ measure }) => parseInt(measure) === size);
    const trials = at.reduce((sum, grade) => sum + grade.trials, 0);
    const hits = at.reduce((sum, grade) => sum + grade.trials * (grade.rate ?? 0), 0);
    return trials ? (100 * hits) / trials : null;
  };
  const suites = bySuite(found).map(({ name, by }) => ({
    name,
    shares: sizes.map((size) => share([...by.values()], size)),
  }));
  const mean = (shares: (number | null)[]) => {
    const known = shares.filter((each) => each !== null);
    return known.reduce((sum, each) => sum + each, 0) / known.length;
  };
  return {
    sizes,
    all: sizes.map((size) => share(found, size)),
    suites: suites.sort((one, other) => mean(one.shares) - mean(other.shares)),
  };
}
