// Lines over a number: drawn on a canvas, read out point by point with mouse or arrow keys.
import { Box, Text } from "@chakra-ui/react";
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import style from "uplot/dist/uPlot.min.css";

import { colour, useColourMode } from "./chart";
import { figure } from "./format";

/** Distances of ticks on an axis of whole numbers. */
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000];

export type Line = {
  name: string;
  values: (number | null)[];
  /** Drawn behind the others, without weight. */
  isMuted?: boolean;
  /** A colour of the theme; blue where none is given. */
  ink?: string;
  isDashed?: boolean;
  /** Has no value at some x of other lines. */
  isSparse?: boolean;
  /** Its values are points without a line between them. */
  isPoints?: boolean;
};

/** An interval at each value of x, in a colour of the theme. */
export type Whisker = { low: number; high: number; ink: string } | null;

/** A part of the x axis that is shaded. */
export type Band = { from: number; to: number };

const NO_BANDS: Band[] = [];
const NO_WHISKERS: Whisker[] = [];

export function LineChart({
  label,
  x,
  lines,
  bands = NO_BANDS,
  whiskers = NO_WHISKERS,
  limit,
  unit,
  readout,
  height = 220,
  onOpen,
}: {
  label: string;
  x: number[];
  /** The first is read out. */
  lines: Line[];
  bands?: Band[];
  /** Cut where the values' own range ends. */
  whiskers?: Whisker[];
  /** A dashed line across. */
  limit?: number;
  unit: string;
  /** What is said of a point. */
  readout: (index: number) => string;
  height?: number;
  /** A point was clicked, or Enter pressed on it. */
  onOpen?: (index: number) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const [at, setAt] = useState<number>();
  const mode = useColourMode();
  // The parent makes its arrays anew each time it is drawn.
  const drawn = useMemo(
    () => JSON.stringify([x, lines, bands, whiskers, limit]),
    [x, lines, bands, whiskers, limit],
  );
  const open = useRef(onOpen);
  open.current = onOpen;

  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const axis = {
      stroke: colour("fg-muted"),
      grid: { stroke: colour("border"), width: 1 },
      ticks: { stroke: colour("border"), width: 1 },
    };
    const shade = (u: uPlot) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.fillStyle = colour("bg-muted");
      for (const { from, to } of bands) {
        const left = Math.max(bbox.left, u.valToPos(from, "x", true));
        const right = Math.min(bbox.left + bbox.width, u.valToPos(to, "x", true));
        ctx.fillRect(left, bbox.top, Math.max(0, right - left), bbox.height);
      }
      ctx.restore();
    };
    const cross = (u: uPlot) => {
      if (limit === undefined) return;
      const { ctx, bbox } = u;
      const y = u.valToPos(limit, "y", true);
      if (y < bbox.top || y > bbox.top + bbox.height) return;
      ctx.save();
      ctx.strokeStyle = colour("orange-fg");
      ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.restore();
    };
    const whisk = (u: uPlot) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.lineWidth = 2 * devicePixelRatio;
      whiskers.forEach((each, index) => {
        if (!each) return;
        const at = u.valToPos(x[index] ?? 0, "x", true);
        ctx.strokeStyle = colour(each.ink);
        ctx.beginPath();
        ctx.moveTo(at, u.valToPos(each.low, "y", true));
        ctx.lineTo(at, u.valToPos(each.high, "y", true));
        ctx.stroke();
      });
      ctx.restore();
    };
    const behindFirst = [...lines].reverse();
    const made = new uPlot(
      {
        width: element.clientWidth,
        height,
        padding: [10, 12, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false } },
        scales: {
          x: { time: false },
          y: {
            range: (_u, low, high) => {
              if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
              const [from, to] = [Math.min(low, limit ?? low), Math.max(high, limit ?? high)];
              return uPlot.rangeNum(from, to, 0.1, true);
            },
          },
        },
        axes: [
          { ...axis, ...(x.every(Number.isInteger) && { incrs: WHOLE }) },
          { ...axis, size: 64, values: (_u, splits) => splits.map((value) => figure(value)) },
        ],
        series: [
          {},
          ...behindFirst.map((line) => ({
            stroke: colour(line.ink ?? (line.isMuted ? "fg-subtle" : "blue-fg")),
            width: line.isMuted ? 1 : 1.5,
            spanGaps: line.isSparse,
            ...(line.isDashed && { dash: [6, 4] }),
            ...(line.isPoints && { paths: () => null }),
            points: {
              show: line.isPoints || (!line.isMuted && line.values.length < 60),
              size: line.isPoints ? 6 : 4,
            },
          })),
        ],
        hooks: {
          drawClear: [shade],
          draw: [cross, whisk],
          setCursor: [(u) => setAt(u.cursor.idx ?? undefined)],
        },
      },
      [x, ...behindFirst.map((line) => line.values)] as uPlot.AlignedData,
      element,
    );
    made.over.addEventListener("click", () => {
      const { idx } = made.cursor;
      if (typeof idx === "number") open.current?.(idx);
    });
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [drawn, mode, height]);

  const choose = (index: number) => {
    const to = Math.max(0, Math.min(x.length - 1, index));
    setAt(to);
    const u = plot.current;
    if (u) u.setCursor({ left: u.valToPos(x[to] ?? 0, "x"), top: 0 }, false);
  };
  const move = (event: React.KeyboardEvent) => {
    if (event.key === "ArrowLeft") choose((at ?? x.length) - 1);
    else if (event.key === "ArrowRight") choose((at ?? -1) + 1);
    else if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(x.length - 1);
    else if (event.key === "Enter" && at !== undefined && onOpen) onOpen(at);
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
        aria-label={`${label}. Arrow keys read out its points.`}
        tabIndex={0}
        onKeyDown={move}
        cursor={onOpen && "pointer"}
        w="100%"
        minW="0"
        overflow="hidden"
      />
      <Text aria-live="polite" color="fg.muted" fontSize="sm" minH="1.5em">
        {at === undefined || at >= x.length ? unit : readout(at)}
      </Text>
    </Box>
  );
}
