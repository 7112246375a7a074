// The script of a series' page of the published site: its plot, and all nights as a table.
import uPlot from "uplot";
import style from "uplot/dist/uPlot.min.css";

import { change, day, figure, words } from "./format";
import { byId, cell, read } from "./site-parts";

type Step = [number, string];
type Nights = { at: number[]; median: number[]; low: number[]; high: number[]; n: number[] };
type SeriesData = {
  first: number;
  unit: string;
  points: Nights;
  versions: Step[];
  definitions: Step[];
  nodes: Step[];
  changes: { since: string; metric: string; change: number | null }[];
};
const ink = (name: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** What holds at a night. */
function at(steps: Step[], index: number) {
  return steps.findLast(([from]) => from <= index)?.[1] ?? "–";
}

function seriesPage(box: HTMLElement) {
  const data = read<SeriesData>();
  const { points, first } = data;
  const times = points.at;
  const chosen = { index: times.length };
  const say = (index: number) => {
    const readout = byId("readout");
    const time = times[index];
    if (!readout || time === undefined) return;
    chosen.index = index;
    readout.textContent =
      `${day(1000 * time)}: ${figure(points.median[index])} ${data.unit}, ` +
      `${figure(points.low[index])} to ${figure(points.high[index])}, n ${points.n[index]}, ` +
      `version ${at(data.versions, first + index)}`;
  };
  const begins = [
    ...[...data.versions.slice(1), ...data.nodes.slice(1)].map(([i, label]) => ({ i, label })),
    ...data.definitions.slice(1).map(([i]) => ({ i, label: "work" })),
  ]
    .filter(({ i }) => i > first)
    .map(({ i, label }) => ({ time: times[i - first] ?? 0, label, colour: "soft" }));
  const falls = data.changes.map((each) => ({
    time: Date.parse(each.since) / 1000,
    label: each.change === null ? "fall" : change(each.change) + (each.metric === "throughput" ? "" : ` ${words(each.metric)}`),
    colour: "bad",
  }));
  const marks = [...begins, ...falls].sort((one, other) => one.time - other.time);

  const drawMarks = (u: uPlot) => {
    const { ctx, bbox } = u;
    const unit = devicePixelRatio;
    let free = -Infinity;
    ctx.save();
    ctx.font = `${11 * unit}px sans-serif`;
    ctx.textAlign = "left";
    ctx.setLineDash([3 * unit, 3 * unit]);
    for (const { time, label, colour } of marks) {
      const x = u.valToPos(time, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = ink(colour);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const width = ctx.measureText(label).width;
      const left = Math.min(x, bbox.left + bbox.width - width);
      if (left < free) continue;
      ctx.fillText(label, left, bbox.top - 4 * unit);
      free = left + width + 8 * unit;
    }
    ctx.restore();
  };

  let plot: uPlot | undefined;
  const show = (from: number, to: number) => plot?.setScale("x", { min: from, max: to });
  const all = () => {
    const edge = Math.max(3600, 0.01 * ((times.at(-1) ?? 0) - (times[0] ?? 0)));
    return show((times[0] ?? 0) - edge, (times.at(-1) ?? 0) + edge);
  };
  const draw = () => {
    plot?.destroy();
    const axis = {
      stroke: ink("soft"),
      grid: { stroke: ink("line"), width: 1 },
      ticks: { stroke: ink("line"), width: 1 },
    };
    const edge = { stroke: "transparent", width: 0, points: { show: false } };
    plot = new uPlot(
      {
        width: box.clientWidth,
        height: 320,
        padding: [20, 12, 0, 0],
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
        legend: { show: false },
        cursor: { y: false, drag: { x: true, y: false } },
        scales: { x: { time: true }, y: { range: (_u, low, high) => uPlot.rangeNum(low, high, 0.1, false) } },
        axes: [axis, { ...axis, size: 66, values: (_u, splits) => splits.map((value) => figure(value)) }],
        series: [
          {},
          edge,
          edge,
          { stroke: ink("accent"), width: 1.5, points: { show: times.length < 60, size: 4 } },
        ],
        bands: [{ series: [2, 1], fill: ink("band") }],
        hooks: {
          draw: [drawMarks],
          setCursor: [(u) => u.cursor.idx !== null && u.cursor.idx !== undefined && say(u.cursor.idx)],
        },
      },
      [times, points.low, points.high, points.median],
      box,
    );
    plot.over.addEventListener("dblclick", () => all());
    all();
  };
  document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(() => plot?.setSize({ width: box.clientWidth, height: 320 })).observe(box);
  box.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: chosen.index - 1, ArrowRight: chosen.index + 1, Home: 0, End: times.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const index = Math.max(0, Math.min(times.length - 1, to));
    say(index);
    plot?.setCursor({ left: plot.valToPos(times[index] ?? 0, "x"), top: 10 }, false);
  });
  const zoom = byId("zoom");
  if (zoom) zoom.hidden = false;
  zoom?.addEventListener("click", (event) => {
    const nights = Number((event.target as HTMLElement).dataset["nights"] ?? NaN);
    if (nights === 0) all();
    else if (nights) show((times.at(-1) ?? 0) - 86400 * nights, (times.at(-1) ?? 0) + 86400);
  });
  const more = byId("all-nights");
  if (more) more.hidden = false;
  more?.addEventListener("click", () => {
    const body = document.querySelector<HTMLTableSectionElement>("#nights tbody");
    if (!body) return;
    body.replaceChildren();
    for (let i = times.length - 1; i >= 0; i -= 1) {
      const row = body.insertRow();
      cell(row, new Date(1000 * (times[i] ?? 0)).toISOString().slice(0, 16).replace("T", " "));
      for (const values of [points.median, points.low, points.high, points.n]) {
        cell(row, figure(values[i]), "number");
      }
      cell(row, at(data.versions, first + i));
      if (data.nodes.length) cell(row, at(data.nodes, first + i));
    }
    const caption = document.querySelector("#nights caption");
    if (caption) caption.textContent = `${times.length} nights, ${data.unit}`;
    more.remove();
  });
}

const plotted = byId("plot");
if (plotted) seriesPage(plotted);
