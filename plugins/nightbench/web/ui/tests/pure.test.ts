// The functions of the pages that compute, by Node.js's own test runner: tools/ui.py.
import assert from "node:assert/strict";
import { test } from "node:test";

import type { ComparedPair, CurvePoint, DetectorGrade, NodeNights, NodeUse, OverviewCell, PublishedCell, SeriesHistory, SeriesPoint } from "../src/api-types";
import { byDay, counts, describe, events, mergeLabels, mustShow, pointState, references, robustRange } from "../src/chart-marks";
import { panels, sortedRatios } from "../src/figure-cells";
import { ago, change, count, figure, interval, judged, moment, percent, version, words } from "../src/format";
import { curvePanels } from "../src/curve-panels";
import { power } from "../src/grades";
import { loads, nightsOf, nightText } from "../src/node-load";
import { grid } from "../src/overview";
import { routes } from "../src/routes";
import { consecutive } from "../src/series-groups";
import { pieces } from "../src/text-links";

function point(night: number, given: Partial<SeriesPoint> = {}): SeriesPoint {
  return {
    run_id: `run-${night}`,
    started_at: new Date(Date.UTC(2026, 2, night, 1)).toISOString(),
    throughput: 100 + night,
    framework_version: "2.0",
    definition_digest: "d1",
    code_digest: "c1",
    node_names: ["n1"],
    state_changes: [] as string[],
    is_private_build: false,
    is_quarantined: false,
    verdict: "ok",
    ...given,
  } as SeriesPoint;
}

function series(points: SeriesPoint[], given: Partial<SeriesHistory> = {}): SeriesHistory {
  return { points, alerts: [], published: [], ...given } as unknown as SeriesHistory;
}

test("a framework's version has its Python", () => {
  assert.equal(version({ framework_version: "2.13.0+cpu", python: "3.13.5" }), "2.13.0+cpu, Python 3.13.5");
  assert.equal(version({ framework_version: "2.13.0+cpu", python: null }), "2.13.0+cpu");
  assert.equal(version({ framework_version: null, python: null }), "–");
});

test("figures have four digits, percentages their sign", () => {
  assert.equal(figure(1234.5678), "1,235");
  assert.equal(figure(0.00012345), "0.000123");
  assert.equal(figure(123456.7), "123,457");
  assert.equal(figure(null), "–");
  assert.equal(judged(1234.5, "throughput", "images"), "1,235 images/s");
  assert.equal(judged(0.25, "joules_per_unit", "images"), "0.25 J/image");
  assert.equal(judged(1.25e9, "peak_resident_bytes", "images"), "1.25 GB");
  assert.equal(judged(6.1e10, "peak_allocator_bytes", "tokens"), "61 GB");
  assert.equal(judged(0.41, "mfu", null), "0.41 MFU");
  assert.equal(judged(7.318, "training", "images"), "7.318 loss");
  assert.equal(percent(-0.0004), "0.0 %");
  assert.equal(percent(-0.051), "−5.1 %");
  assert.equal(change(0.02), "+2.0 %");
  assert.equal(change(-0.0004), "0.0 %");
  assert.equal(interval(-0.07, -0.05), "−7.0 % to −5.0 %");
  assert.equal(interval(null, 1), "");
});

test("times are UTC, ages in the largest unit", () => {
  assert.equal(moment("2026-03-01T23:30:00-05:00"), "2026-03-02 04:30");
  assert.equal(ago("2026-03-01T00:00:00Z", "2026-03-03T01:00:00Z"), "2 days ago");
  assert.equal(ago("2026-03-01T00:00:00Z", "2026-03-01T01:59:00Z"), "1 hour ago");
  assert.equal(ago("2026-03-01T00:00:10Z", "2026-03-01T00:00:00Z"), "just now");
  assert.equal(count(1, "night"), "1 night");
  assert.equal(count(2, "series", "series"), "2 series");
  assert.equal(words("left_out"), "left out");
});

test("names in addresses are encoded", () => {
  const hostile = "<a>&\"'/..%#?";
  const address = new URL(routes.series(hostile, "x y"), "http://airflow");
  assert.equal(address.searchParams.get("case"), hostile);
  assert.equal(address.pathname, "/plugin/benchmarks/series");
  assert.ok(routes.run(hostile).endsWith(encodeURIComponent(hostile)));
});

test("what counts, and its state in a word", () => {
  assert.equal(pointState(point(1, { is_quarantined: true, is_private_build: true })), "quarantined");
  assert.equal(pointState(point(1, { is_private_build: true })), "private_build");
  assert.equal(pointState(point(1, { verdict: null })), "measured");
  assert.ok(counts(point(1)));
  assert.ok(!counts(point(1, { throughput: null })));
  assert.ok(!counts(point(1, { is_quarantined: true })));
});

test("changes stand where a median differs from the one before it that counts", () => {
  const found = events(
    series([
      point(1),
      point(2, { framework_version: "9.9", is_private_build: true }),
      point(3, { framework_version: "2.1", code_digest: "c2" }),
      point(4, { framework_version: "2.1", code_digest: "c2", node_names: ["n2"] }),
      point(5, {
        framework_version: "2.1",
        code_digest: "c2",
        node_names: ["n2"],
        state_changes: ["driver 550 → 560"],
      }),
    ]),
  );
  assert.deepEqual(
    found.map((event) => event.label),
    ["2.1", "code", "nodes n2", "node"],
  );
  const days = byDay(found);
  assert.equal(days.length, 3);
  assert.equal(describe(days[0]!), "2026-03-03: version 2.1; code");
  assert.equal(describe(days[2]!), "2026-03-05: node (driver 550 → 560)");
});

test("single outliers do not widen the range of a plot", () => {
  const quiet = Array.from({ length: 100 }, (_, index) => 100 + (index % 5));
  const [low, high] = robustRange([...quiet, 1, 10_000]);
  assert.ok(low > 90 && high < 115);
  assert.deepEqual(robustRange([]), [0, 1]);
});

test("the newest median and the fall of an open alert lie in the range of a plot", () => {
  const at = (night: number) => new Date(Date.UTC(2026, 2, night)).toISOString();
  const points = Array.from({ length: 28 }, (_, index) =>
    point(index + 1, { throughput: index < 27 ? 100 + (index % 3) : 80 }),
  );
  const alerts = [
    { state: "open", since: at(28), opened_at: at(29) },
    { state: "resolved", since: at(3), opened_at: at(3) },
  ] as unknown as SeriesHistory["alerts"];
  const shown = mustShow(series(points, { alerts }), -Infinity, Infinity);
  assert.deepEqual(shown, [80, 80]);
  const values = points.map((each) => each.throughput ?? 0);
  assert.ok(robustRange(values, shown)[0] < 80);
});

test("published figures are drawn in the series' own unit", () => {
  const figures = [
    { reference_id: "a", metric: "throughput", published_value: 3, measured_value: 2 },
    { reference_id: "b", metric: "speedup", published_value: 3, measured_value: 2 },
    { reference_id: "c", metric: "throughput", published_value: 3, measured_value: null },
    { reference_id: "d", metric: "throughput", published_value: 3, measured_value: 2, is_unit_doubtful: true },
  ];
  const published = figures as unknown as SeriesHistory["published"];
  const found = references(series([point(1, { throughput: 64 })], { published }));
  assert.deepEqual(found.map(({ value }) => value), [96]);
  assert.deepEqual(references(series([], { published })), []);
});

function cell(given: Partial<PublishedCell>): PublishedCell {
  const nothing = { published_version: null, nodes: null, devices_per_node: null, trainers: null };
  const more = { pservers: null, batch_size: null, precision: "fp32", compiler: null, variant: null };
  const what = { workload: "w", framework: "f", metric: "throughput", unit: "images/s" };
  const values = { published_value: 1, measured_value: null, case_id: null, cluster: null };
  return { ...nothing, ...more, ...what, ...values, ...given } as PublishedCell;
}

test("a figure is divided by the axis that varies, in the order of numbers", () => {
  const cells = [4, 16, 8].flatMap((nodes) =>
    ["sync", "async"].map((variant) => cell({ nodes, variant, published_value: nodes })),
  );
  const [panel, ...others] = panels([...cells, cell({ metric: "speedup", published_value: null })]);
  assert.equal(others.length, 0);
  assert.equal(panel!.axis, "nodes x devices");
  assert.deepEqual(panel!.groups.map(({ x }) => x), ["4 nodes", "8 nodes", "16 nodes"]);
  assert.deepEqual(panel!.groups[0]!.bars.map(({ label }) => label), ["f, async", "f, sync"]);
  assert.equal(panel!.highest, 16);
});

test("the minutes of a node are those of all its suites", () => {
  const use = [
    { node: "n1", suite: "a", used_s: 600, planned_s: 300, busy_s: 630 },
    { node: "n2", suite: "a", used_s: 1200, planned_s: 60, busy_s: 1200 },
    { node: "n1", suite: "b", used_s: 60, planned_s: 60, busy_s: 630 },
  ] as NodeUse[];
  assert.deepEqual(
    loads(use).map(({ node, used, planned, busy }) => [node, used, planned, busy]),
    [
      ["n2", 20, 1, 20],
      ["n1", 11, 6, 10.5],
    ],
  );
});

test("a night of a node says its cases, faults and quarantine", () => {
  const node = {
    first_night: "2026-11-30T00:00:00Z",
    cases: [12, 0],
    faults: [1, 0],
    quarantined: [false, true],
  } as NodeNights;
  assert.deepEqual(nightsOf(node).map(nightText), [
    "2026-11-30: 12 cases, 1 fault",
    "2026-12-01: 0 cases, in quarantine",
  ]);
});

test("rows of one value that follow each other are a group", () => {
  const rows = ["a", "a", null, "b"].map((together) => ({ together }));
  assert.deepEqual(
    consecutive(rows).map(({ value, rows: those }) => [value, those.length]),
    [
      ["a", 2],
      [null, 1],
      ["b", 1],
    ],
  );
});

test("addresses in what a person wrote", () => {
  const addresses = (text: string) => pieces(text).filter((piece) => piece.isAddress).map((piece) => piece.text);
  assert.deepEqual(addresses("see https://bugs.example/7?a=b#c, not (http://x.example/y)."), [
    "https://bugs.example/7?a=b#c",
    "http://x.example/y",
  ]);
  assert.deepEqual(addresses("javascript:alert(1) ftp://a.example https:// data:text/html,x"), []);
  const text = "a https://b.example/c. d";
  assert.equal(pieces(text).map((piece) => piece.text).join(""), text);
  assert.deepEqual(pieces(""), []);
});

test("labels that would cover each other are one, and an alert is named first", () => {
  const at = (x: number, label: string, kind: "alert" | "version" | "other" = "other") => ({ x, label, kind });
  const marks = [at(0, "code"), at(30, "2.1", "version"), at(60, "alert 7", "alert"), at(75, "code"), at(160, "node")];
  assert.deepEqual(
    mergeLabels(marks, 70, 300).map(({ x, label, kind }) => [x, label, kind]),
    [
      [0, "alert 7 +2", "alert"],
      [75, "code", "other"],
      [160, "node", "other"],
    ],
  );
  assert.deepEqual(mergeLabels([], 70, 300), []);
  assert.deepEqual(
    mergeLabels([at(150, "code"), at(285, "alert 7", "alert")], 70, 300).map(({ x, label }) => [x, label]),
    [[150, "alert 7 +1"]],
    "a label at the right edge reaches back",
  );
});

test("what is measured stands before what is only published", () => {
  const cell = (workload: string, framework: string, series: number) =>
    ({ workload, framework, series }) as OverviewCell;
  const found = grid([cell("a", "paddle1", 0), cell("b", "tf", 2), cell("c", "jax", 1), cell("b", "jax", 0)]);
  assert.deepEqual(found, { workloads: ["b", "c", "a"], lines: ["jax", "tf", "paddle1"] });
});

test("the share of slowdowns detected is weighed by trials, and the lowest suite is first", () => {
  const grade = (suite: string, measure: string, trials: number, rate: number | null) => ({ suite, cluster: "c", measure, trials, rate });
  const found = power([
    grade("a", "10%", 10, 1),
    grade("a", "3%", 10, 0.9),
    grade("b", "3%", 30, 0.5),
    grade("b", "10%", 5, null),
    grade("b", "false alarms", 1000, 0.1),
  ] as DetectorGrade[]);
  assert.deepEqual(found, {
    sizes: [3, 10],
    all: [60, 100],
    suites: [
      { name: "b on c", shares: [50, null] },
      { name: "a on c", shares: [90, 100] },
    ],
  });
});

test("ratios stand from the slowest to the fastest, without those that have none", () => {
  const pairs = [{ ratio: 1.1 }, { ratio: null }, { ratio: 0.9 }] as ComparedPair[];
  assert.deepEqual(sortedRatios(pairs).map(({ ratio }) => ratio), [0.9, 1.1]);
});

test("a curve over devices begins on the ideal line, and panels say what divides them", () => {
  const point = (framework: string, x: number, throughput: number, precision: string) => ({
    axis: "devices", cluster: "c", unit: "images", framework, x, throughput, case_id: `${framework}-${x}`,
    work: { workload: "w", precision },
  });
  const found = curvePanels(
    [point("a", 2, 10, "fp32"), point("a", 8, 30, "fp32"), point("b", 1, 7, "fp32"), point("b", 2, 14, "fp32"), point("a", 1, 5, "bf16"), point("a", 2, 5, "bf16")] as unknown as CurvePoint[],
    "devices",
  );
  assert.deepEqual(found.map(({ title, x }) => [title, x]), [["c, fp32", [1, 2, 8]], ["c, bf16", [1, 2]]]);
  assert.deepEqual(
    found[0]!.curves.map(({ framework, values, share, last }) => [framework, values, share, last.case_id]),
    [["a", [null, 2, 6], 0.75, "a-8"], ["b", [1, 2, null], 1, "b-2"]],
  );
  assert.deepEqual(found[0]!.ideal, [1, 2, 8]);
});
