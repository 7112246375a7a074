// The plot of the pages: lines over a number or a date on a canvas, read out point by point with mouse
// or arrow keys.
import { Box } from "@chakra-ui/react";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import style from "uplot/dist/uPlot.min.css";

import { type Event, mergeLabels } from "./chart-marks";
import { figure } from "./format";

/** Distances of ticks on an axis of whole numbers. */
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000];
const LABEL_GAP = 70;
/** Labels of a time axis, in uPlot's form: distance of ticks, label, and what a new year or day adds below. */
const TIMES: uPlot.Axis.Values = [
  [31_536_000, "{YYYY}", null, null, null, null, null, null, 1],
  [86_400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [1, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
];

export type Line = {
  name: string;
  values: (number | null)[];
  /** The line is thin and behind the other lines. */
  isMuted?: boolean;
  /** A colour of the theme [default: blue]. */
  ink?: string;
  isDashed?: boolean;
  /** The line has no value at some x of other lines. */
  isSparse?: boolean;
  /** The values are points without a line between them. */
  isPoints?: boolean;
};

/** An interval at each value of x, in a colour of the theme; cut where the values' own range ends. */
export type Whisker = { low: number; high: number; ink: string } | null;

/** A part of an axis. */
export type Range = { from: number; to: number };

/** The mark of each point in place of a dot. */
export type Symbol = { shape: "dot" | "ring" | "cross" | "up" | "down"; ink: string };

/** Dates on the x axis, a part of which is shown. */
export type Zoom = {
  range?: Range;
  onRange: (range?: Range) => void;
  /** The range of the y axis for a part of the x axis. */
  span: (from: number, to: number) => [number, number];
};

/** A colour of the host's theme as a canvas needs it. */
function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--chakra-colors-${name}`);
}

/** Counts the changes between light and dark. */
function useColourMode(): number {
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    const observer = new MutationObserver(() => setChanges((before) => before + 1));
    observer.observe(document.documentElement, { attributeFilter: ["class"] });
    return () => observer.disconnect();
  }, []);
  return changes;
}

function draw(context: CanvasRenderingContext2D, shape: Symbol["shape"], x: number, y: number, size: number) {
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

type Drawn = {
  x: number[];
  lines: Line[];
  bands: Range[];
  stripe?: Range;
  whiskers: Whisker[];
  levels: { at: number; ink: string }[];
  marks: Event[];
  symbols: Symbol[];
};

/** The background of the lines: parts of both axes. */
function behind({ bands, stripe }: Drawn) {
  return (u: uPlot) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = colour("bg-muted");
    for (const { from, to } of bands) {
      const left = u.valToPos(from, "x", true);
      ctx.fillRect(left, bbox.top, u.valToPos(to, "x", true) - left, bbox.height);
    }
    if (stripe) {
      const top = u.valToPos(stripe.to, "y", true);
      ctx.fillRect(bbox.left, top, bbox.width, u.valToPos(stripe.from, "y", true) - top);
    }
    ctx.restore();
  };
}

/** The foreground of the lines: levels, events with their labels, intervals, symbols. */
function before({ x, lines, whiskers, levels, marks, symbols }: Drawn, chosen: () => number | undefined) {
  return (u: uPlot) => {
    const { ctx, bbox } = u;
    const unit = devicePixelRatio;
    const [right, bottom] = [bbox.left + bbox.width, bbox.top + bbox.height];
    const stroke = (ink: string, x1: number, y1: number, x2: number, y2: number) => {
      ctx.strokeStyle = colour(ink);
      ctx.beginPath();
      ctx.moveTo(x1, y1);
      ctx.lineTo(x2, y2);
      ctx.stroke();
    };
    ctx.save();
    ctx.font = `${11 * unit}px sans-serif`;
    ctx.lineWidth = unit;
    ctx.setLineDash([3 * unit, 3 * unit]);
    const inkOf = (kind: Event["kind"]) => (kind === "alert" ? "red-fg" : "fg-muted");
    const events = marks
      .map((event) => ({ ...event, x: u.valToPos(event.at, "x", true) }))
      .filter((event) => event.x >= bbox.left && event.x <= right);
    for (const event of events) stroke(inkOf(event.kind), event.x, bbox.top, event.x, bottom);
    for (const event of mergeLabels(events, LABEL_GAP * unit, right)) {
      ctx.fillStyle = colour(inkOf(event.kind));
      ctx.textAlign = event.x > right - LABEL_GAP * unit ? "right" : "left";
      ctx.fillText(event.label, event.x + (ctx.textAlign === "left" ? 3 : -3) * unit, bbox.top - 4 * unit);
    }
    ctx.setLineDash([7 * unit, 4 * unit]);
    for (const { at, ink } of levels) {
      const y = u.valToPos(at, "y", true);
      if (y > bbox.top && y < bottom) stroke(ink, bbox.left, y, right, y);
    }
    ctx.setLineDash([]);
    ctx.lineWidth = 2 * unit;
    const inside = (y: number) => Math.max(bbox.top, Math.min(y, bottom));
    whiskers.forEach((each, index) => {
      const at = u.valToPos(x[index] ?? 0, "x", true);
      const [low, high] = each ? [u.valToPos(each.low, "y", true), u.valToPos(each.high, "y", true)] : [0, 0];
      if (each) stroke(each.ink, at, inside(low), at, inside(high));
    });
    ctx.lineWidth = 1.5 * unit;
    symbols.forEach(({ shape, ink }, index) => {
      const at = u.valToPos(x[index] ?? 0, "x", true);
      if (at < bbox.left || at > right) return;
      const value = lines[0]?.values[index] ?? null;
      const y = value === null ? bottom : u.valToPos(value, "y", true);
      ctx.fillStyle = ctx.strokeStyle = colour(ink);
      if (y < bbox.top) draw(ctx, "up", at, bbox.top + 5 * unit, 4 * unit);
      else if (value !== null && y > bottom) draw(ctx, "down", at, bottom - 5 * unit, 4 * unit);
      else draw(ctx, shape, at, Math.min(y, bottom - 5 * unit), (shape === "dot" ? 2 : 4) * unit);
      if (index === chosen()) {
        ctx.strokeStyle = colour("fg");
        draw(ctx, "ring", at, inside(y), 7 * unit);
      }
    });
    ctx.restore();
  };
}

export function Chart({
  label,
  x,
  lines,
  bands = [],
  stripe,
  whiskers = [],
  levels = [],
  marks = [],
  symbols = [],
  zoom,
  unit,
  readout,
  height = 220,
  onOpen,
}: {
  label: string;
  x: number[];
  /** The first line is read out; symbols are on the first line. */
  lines: Line[];
  /** Shaded parts of the x axis. */
  bands?: Range[];
  /** The shaded part of the y axis. */
  stripe?: Range;
  whiskers?: Whisker[];
  /** Dashed lines across. */
  levels?: { at: number; ink: string }[];
  /** Dashed lines down, with labels. */
  marks?: Event[];
  symbols?: Symbol[];
  zoom?: Zoom;
  /** Text that is read out while no point is chosen. */
  unit: ReactNode;
  /** Text that is read out for a point. */
  readout: (index: number) => ReactNode;
  height?: number;
  /** A point was clicked, or Enter pressed on it. */
  onOpen?: (index: number) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const [at, setAt] = useState<number>();
  const chosen = useRef(at);
  chosen.current = at;
  const acts = useRef({ zoom, onOpen });
  acts.current = { zoom, onOpen };
  const mode = useColourMode();
  // Each rendering of the parent makes new arrays.
  const key = JSON.stringify([x, lines, bands, stripe, whiskers, levels, marks, symbols]);
  const drawn = useMemo(() => ({ x, lines, bands, stripe, whiskers, levels, marks, symbols }), [key]);
  const isTime = zoom !== undefined;
  const edge = Math.max(3600, 0.01 * ((x.at(-1) ?? 1) - (x[0] ?? 0)));
  const from = zoom?.range?.from ?? (x[0] ?? 0) - edge;
  const to = zoom?.range?.to ?? (x.at(-1) ?? 1) + edge;

  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const { x, levels } = drawn;
    const axis = {
      stroke: colour("fg-muted"),
      grid: { stroke: colour("border"), width: 1 },
      ticks: { stroke: colour("border"), width: 1 },
    };
    const across = (u: uPlot, low: number, high: number): uPlot.Range.MinMax => {
      const span = acts.current.zoom?.span;
      if (span) return span(u.scales.x?.min ?? -Infinity, u.scales.x?.max ?? Infinity);
      if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
      const values = levels.map((level) => level.at);
      return uPlot.rangeNum(Math.min(low, ...values), Math.max(high, ...values), 0.1, true);
    };
    const behindFirst = [...drawn.lines].reverse();
    const made = new uPlot(
      {
        width: element.clientWidth,
        height,
        padding: [isTime ? 20 : 10, 12, 0, 0],
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
        legend: { show: false },
        cursor: { y: false, points: { show: !isTime }, drag: { x: isTime, y: false, setScale: false } },
        scales: {
          x: { time: isTime, ...(isTime && { range: (_u, low, high) => [low, high] }) },
          y: { range: across },
        },
        axes: [
          { ...axis, ...(isTime ? { values: TIMES, space: 60 } : x.every(Number.isInteger) && { incrs: WHOLE }) },
          { ...axis, size: 70, values: (_u, splits) => splits.map((value) => figure(value)) },
        ],
        series: [
          {},
          ...behindFirst.map((line) => ({
            stroke: colour(line.ink ?? (line.isMuted ? "fg-subtle" : "blue-fg")),
            width: line.isMuted || isTime ? 1 : 1.5,
            spanGaps: line.isSparse,
            ...(line.isDashed && { dash: [6, 4] }),
            ...(line.isPoints && { paths: () => null }),
            points: {
              show: line.isPoints || (!isTime && !line.isMuted && line.values.length < 60),
              size: line.isPoints ? 6 : 4,
            },
          })),
        ],
        hooks: {
          drawClear: [behind(drawn)],
          draw: [before(drawn, () => chosen.current)],
          setCursor: [(u) => setAt((was) => u.cursor.idx ?? (isTime ? was : undefined))],
          setSelect: [
            (u) => {
              if (u.select.width < 4) return;
              acts.current.zoom?.onRange({
                from: u.posToVal(u.select.left, "x"),
                to: u.posToVal(u.select.left + u.select.width, "x"),
              });
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
        },
      },
      [x, ...behindFirst.map((line) => line.values)] as uPlot.AlignedData,
      element,
    );
    made.over.addEventListener("click", () => {
      const { idx } = made.cursor;
      if (typeof idx === "number" && made.select.width < 4) acts.current.onOpen?.(idx);
    });
    made.over.addEventListener("dblclick", () => acts.current.zoom?.onRange(undefined));
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [drawn, mode, height, isTime]);

  useEffect(() => {
    if (isTime) plot.current?.setScale("x", { min: from, max: to });
  }, [from, to, drawn, mode, isTime]);

  useEffect(() => {
    if (isTime) plot.current?.redraw(false);
  }, [at, isTime]);

  const choose = (index: number) => {
    const next = Math.max(0, Math.min(x.length - 1, index));
    setAt(next);
    const u = plot.current;
    if (u && !isTime) u.setCursor({ left: u.valToPos(x[next] ?? 0, "x"), top: 0 }, false);
  };
  const move = (event: React.KeyboardEvent) => {
    if (event.key === "ArrowLeft") choose((at ?? x.length) - 1);
    else if (event.key === "ArrowRight") choose((at ?? (isTime ? x.length : -1)) + 1);
    else if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(x.length - 1);
    else if (event.key === "Enter" && at !== undefined && onOpen) onOpen(at);
    else if (event.key === "Escape" && zoom) zoom.onRange(undefined);
    else return;
    event.preventDefault();
  };
  return (
    <Box>
      <style>{style}</style>
      <Box
        ref={box}
        role="group"
        aria-roledescription="plot"
        aria-label={`${label}. Arrow keys read out the points of the plot${isTime ? ", Escape shows all" : ""}.`}
        tabIndex={0}
        onKeyDown={move}
        cursor={onOpen && "pointer"}
        w="100%"
        minW="0"
        overflow="hidden"
      />
      <Box aria-live="polite" color="fg.muted" fontSize="sm" minH={isTime ? "3.2em" : "1.5em"}>
        {at === undefined || at >= x.length ? unit : readout(at)}
      </Box>
    </Box>
  );
}
