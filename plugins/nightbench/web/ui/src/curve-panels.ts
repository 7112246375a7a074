// Points of the overview's curves, as panels with a line for each framework. Pure.
import type { CurvePoint } from "./api-types";

/** Colours of lines, in the order of their names. */
export const INKS = ["blue", "orange", "green", "purple", "red", "teal", "pink", "yellow"].map(
  (name) => `${name}-fg`,
);

export type Curve = {
  framework: string;
  ink: string;
  values: (number | null)[];
  /** The point farthest right. */
  last: CurvePoint;
  /** Share of the ideal at the last point; null if not over devices. */
  share: number | null;
};
export type CurvePanel = {
  key: string;
  axis: CurvePoint["axis"];
  title: string;
  unit: string;
  x: number[];
  curves: Curve[];
  /** As many times the smallest as there are devices; none but over devices. */
  ideal: number[] | undefined;
};

/** Times one device: a curve begins on the ideal line, where its fewest devices are. */
function scaled(points: CurvePoint[]): Map<number, number> {
  const first = points[0]!;
  return new Map(points.map(({ x, throughput }) => [x, (throughput / first.throughput) * first.x]));
}

/** The property that divides the panels of an axis, such as "h100, bf16". */
function titles(groups: CurvePoint[][]): string[] {
  const works = groups.map(([first]) => ({ cluster: first!.cluster, ...first!.work }));
  const keys = [...new Set(works.flatMap((work) => Object.keys(work)))];
  const text = (work: object, key: string) => String((work as Record<string, unknown>)[key] ?? "");
  const varying = keys.filter(
    (key) => key === "cluster" || new Set(works.map((work) => text(work, key))).size > 1,
  );
  return works.map((work) =>
    varying
      .map((key) => (key === "batch_size_per_device" ? `batch ${text(work, key)}` : text(work, key)))
      .filter(Boolean)
      .join(", "),
  );
}

/** Panels of an axis; panels with the most points come first. */
export function curvePanels(items: CurvePoint[], axis: CurvePoint["axis"]): CurvePanel[] {
  const groups = new Map<string, CurvePoint[]>();
  for (const point of items) {
    if (point.axis !== axis) continue;
    const key = JSON.stringify([point.cluster, point.unit, point.work]);
    groups.set(key, [...(groups.get(key) ?? []), point]);
  }
  const lines = [...new Set(items.map(({ framework }) => framework))].sort();
  const named = titles([...groups.values()]);
  return [...groups]
    .map(([key, points], index) => {
      const x = [...new Set(points.map((point) => point.x))].sort((one, other) => one - other);
      const curves = lines.flatMap((framework, number): Curve[] => {
        const own = points.filter((point) => point.framework === framework);
        const last = own.at(-1);
        if (!last) return [];
        const values =
          axis === "devices" ? scaled(own) : new Map(own.map((point) => [point.x, point.throughput]));
        return [
          {
            framework,
            ink: INKS[number % INKS.length]!,
            values: x.map((at) => values.get(at) ?? null),
            last,
            share: axis === "devices" ? (values.get(last.x) ?? 0) / last.x : null,
          },
        ];
      });
      const ideal = axis === "devices" ? x : undefined;
      return { key, axis, title: named[index]!, unit: points[0]!.unit, x, curves, ideal, size: points.length };
    })
    .sort((one, other) => other.size - one.size || one.title.localeCompare(other.title, "en"));
}
