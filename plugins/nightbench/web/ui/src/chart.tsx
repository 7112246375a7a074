// The history of a series: a line through its medians, marks for verdicts, lines for changes.
// Drag to zoom, click a point to open its case in the run; with the keyboard: arrows, Enter, Escape.
import { Box } from "@chakra-ui/react";
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import style from "uplot/dist/uPlot.min.css";

import type { SeriesHistory } from "./api-types";
import { counts, events, mergeLabels, mustShow, pointState, type Reference, robustRange, seconds } from "./chart-marks";
import { figure } from "./format";

const HEIGHT = 340;
const LABEL_GAP = 70;

export type Range = { from: number; to: number };

/** A colour of the host's theme as a canvas needs it. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--chakra-colors-${name}`);
}

/** Counts how often the colour mode has changed. */
export function useColourMode(): number {
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    const observer = new MutationObserver(() => setChanges((before) => before + 1));
    observer.observe(document.documentElement, { attributeFilter: ["class"] });
    return () => observer.disconnect();
  }, []);
  return changes;
}

function mark(context: CanvasRenderingContext2D, shape: string, x: number, y: number, size: number) {
  context.beginPath();
  if (shape === "down" || shape === "up") {
    const tip = shape === "down" ? size : -size;
    context.moveTo(x - size, y - tip * 0.8);
    context.lineTo(x + size, y - tip * 0.8);
    context.lineTo(x, y + tip);
    context.closePath();
    context.fill();
  } else if (shape === "cross") {
    context.moveTo(x - size, y - size);
    context.lineTo(x + size, y + size);
    context.moveTo(x + size, y - size);
    context.lineTo(x - size, y + size);
    context.stroke();
  } else {
    context.arc(x, y, size, 0, 2 * Math.PI);
    if (shape === "ring") context.stroke();
    else context.fill();
  }
}

const SHAPES: Record<string, readonly [shape: string, colour: string]> = {
  regressed: ["down", "red-fg"],
  improved: ["up", "green-fg"],
  quarantined: ["cross", "orange-fg"],
  failed: ["cross", "red-fg"],
  missing: ["cross", "red-fg"],
  unavailable: ["cross", "orange-fg"],
  watched: ["dot", "orange-fg"],
  private_build: ["ring", "fg-muted"],
};

export function HistoryChart({
  series,
  published,
  range,
  selected,
  onRange,
  onSelect,
  onOpen,
}: {
  series: SeriesHistory;
  published: Reference[];
  range?: Range;
  selected?: number;
  onRange: (range?: Range) => void;
  onSelect: (index: number) => void;
  onOpen: (index: number) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const acts = useRef({ onRange, onSelect, onOpen });
  acts.current = { onRange, onSelect, onOpen };
  const chosen = useRef(selected);
  chosen.current = selected;
  const mode = useColourMode();
  const points = series.points;
  const times = useMemo(() => points.map((point) => seconds(point.started_at)), [points]);
  const first = times[0] ?? 0;
  const last = times.at(-1) ?? 1;
  const edge = Math.max(3600, 0.01 * (last - first));
  const from = range?.from ?? first - edge;
  const to = range?.to ?? last + edge;

  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const line = points.map((point) => (counts(point) ? point.throughput : null));
    const newest = points.findLast((point) => point.baseline !== null);
    const changes = events(series);
    const axis = {
      stroke: colour("fg-muted"),
      grid: { stroke: colour("border"), width: 1 },
      ticks: { stroke: colour("border"), width: 1 },
    };

    const drawBand = (u: uPlot) => {
      if (newest?.baseline === null || newest?.baseline === undefined) return;
      const { ctx, bbox } = u;
      const share = newest.smallest_slowdown ?? 0;
      const top = u.valToPos(newest.baseline * (1 + share), "y", true);
      const bottom = u.valToPos(newest.baseline * (1 - share), "y", true);
      ctx.save();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.fillStyle = colour("bg-muted");
      ctx.fillRect(bbox.left, top, bbox.width, bottom - top);
      ctx.restore();
    };

    const drawLines = (u: uPlot) => {
      const { ctx, bbox } = u;
      const unit = devicePixelRatio;
      ctx.save();
      ctx.font = `${11 * unit}px sans-serif`;
      ctx.lineWidth = unit;
      ctx.setLineDash([3 * unit, 3 * unit]);
      const marks = changes
        .map((event) => ({ ...event, x: u.valToPos(event.at, "x", true) }))
        .filter(({ x }) => x >= bbox.left && x <= bbox.left + bbox.width);
      for (const { x, kind } of marks) {
        ctx.strokeStyle = colour(kind === "alert" ? "red-fg" : "fg-muted");
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      const end = bbox.left + bbox.width;
      for (const { x, kind, label } of mergeLabels(marks, LABEL_GAP * unit, end)) {
        ctx.fillStyle = colour(kind === "alert" ? "red-fg" : "fg-muted");
        ctx.textAlign = x > end - LABEL_GAP * unit ? "right" : "left";
        ctx.fillText(label, x + (ctx.textAlign === "left" ? 3 : -3) * unit, bbox.top - 4 * unit);
      }
      for (const reference of published) {
        const y = u.valToPos(reference.value, "y", true);
        if (y > bbox.top && y < bbox.top + bbox.height) {
          ctx.strokeStyle = colour("purple-fg");
          ctx.setLineDash([8 * unit, 4 * unit]);
          ctx.beginPath();
          ctx.moveTo(bbox.left, y);
          ctx.lineTo(bbox.left + bbox.width, y);
          ctx.stroke();
        }
      }
      ctx.restore();
    };

    const drawMarks = (u: uPlot) => {
      const { ctx, bbox } = u;
      const unit = devicePixelRatio;
      const bottom = bbox.top + bbox.height;
      ctx.save();
      ctx.lineWidth = 1.5 * unit;
      points.forEach((point, index) => {
        const x = u.valToPos(times[index] ?? 0, "x", true);
        if (x < bbox.left || x > bbox.left + bbox.width) return;
        const y = point.throughput === null ? bottom : u.valToPos(point.throughput, "y", true);
        const [shape, ink] = SHAPES[pointState(point)] ?? ["dot", "blue-fg"];
        ctx.fillStyle = ctx.strokeStyle = colour(ink);
        if (y < bbox.top) mark(ctx, "up", x, bbox.top + 5 * unit, 4 * unit);
        else if (point.throughput !== null && y > bottom) mark(ctx, "down", x, bottom - 5 * unit, 4 * unit);
        else mark(ctx, shape, x, Math.min(y, bottom - 5 * unit), (shape === "dot" ? 2 : 4) * unit);
        if (index === chosen.current) {
          ctx.strokeStyle = colour("fg");
          mark(ctx, "ring", x, Math.max(bbox.top, Math.min(y, bottom)), 7 * unit);
        }
      });
      ctx.restore();
    };

    const near = (u: uPlot) => {
      const at = u.posToVal(u.cursor.left ?? -1, "x");
      let best = -1;
      times.forEach((time, index) => {
        if (best < 0 || Math.abs(time - at) < Math.abs((times[best] ?? 0) - at)) best = index;
      });
      return best;
    };

    const made = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        padding: [20, 12, 0, 0],
        tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
        scales: {
          x: { time: true, range: (_u, low, high) => [low, high] },
          y: {
            range: (u) => {
              const low = u.scales.x?.min ?? -Infinity;
              const high = u.scales.x?.max ?? Infinity;
              const inside = line.filter(
                (value, index): value is number =>
                  value !== null && (times[index] ?? 0) >= low && (times[index] ?? 0) <= high,
              );
              return robustRange(inside, mustShow(series, low, high));
            },
          },
        },
        axes: [
          axis,
          { ...axis, size: 70, values: (_u, splits) => splits.map((value) => figure(value)) },
        ],
        series: [
          {},
          { stroke: colour("blue-fg"), width: 1, spanGaps: true, points: { show: false } },
        ],
        hooks: {
          drawClear: [drawBand],
          draw: [drawLines, drawMarks],
          setCursor: [
            (u) => {
              if ((u.cursor.left ?? -1) >= 0) acts.current.onSelect(near(u));
            },
          ],
          setSelect: [
            (u) => {
              if (u.select.width < 4) return;
              acts.current.onRange({
                from: u.posToVal(u.select.left, "x"),
                to: u.posToVal(u.select.left + u.select.width, "x"),
              });
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
        },
      },
      [times, line],
      element,
    );
    made.over.addEventListener("click", () => {
      if (made.select.width < 4) acts.current.onOpen(near(made));
    });
    made.over.addEventListener("dblclick", () => acts.current.onRange(undefined));
    plot.current = made;
    const observer = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [series, points, times, published, mode]);

  useEffect(() => {
    plot.current?.setScale("x", { min: from, max: to });
  }, [from, to, series, mode]);

  useEffect(() => plot.current?.redraw(false), [selected]);

  const move = (event: React.KeyboardEvent) => {
    const at = selected ?? points.length;
    if (event.key === "ArrowLeft") onSelect(Math.max(0, at - 1));
    else if (event.key === "ArrowRight") onSelect(Math.min(points.length - 1, at + 1));
    else if (event.key === "Home") onSelect(0);
    else if (event.key === "End") onSelect(points.length - 1);
    else if (event.key === "Enter" && selected !== undefined) onOpen(selected);
    else if (event.key === "Escape") onRange(undefined);
    else return;
    event.preventDefault();
  };

  return (
    <>
      <style>{style}</style>
      <Box
        ref={box}
        role="group"
        aria-roledescription="plot"
        aria-label={`History of ${series.case_id} on ${series.cluster}: ${points.length} results. Arrow keys choose one, Enter opens its case in the run, Escape shows all.`}
        tabIndex={0}
        onKeyDown={move}
        w="100%"
        minW="0"
        overflow="hidden"
        cursor="pointer"
      />
    </>
  );
}
