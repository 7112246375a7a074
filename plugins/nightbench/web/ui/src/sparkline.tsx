// A small plot of the newest medians, without axes.
import { Box } from "@chakra-ui/react";

import { figure } from "./format";

const WIDTH = 120;
const HEIGHT = 28;
const EDGE = 3;

export function Sparkline({
  medians,
  unit,
  isWide = false,
}: {
  medians: number[];
  unit: string | null;
  /** As wide as its place. */
  isWide?: boolean;
}) {
  const last = medians.at(-1);
  if (last === undefined) return <>–</>;
  const low = Math.min(...medians);
  const high = Math.max(...medians);
  const x = (index: number) =>
    EDGE + (index * (WIDTH - 2 * EDGE)) / Math.max(1, medians.length - 1);
  const y = (value: number) =>
    high === low ? HEIGHT / 2 : EDGE + ((high - value) * (HEIGHT - 2 * EDGE)) / (high - low);
  return (
    <Box color="fg.info" display={isWide ? "block" : "inline-block"} lineHeight="0">
      <svg
        width={isWide ? "100%" : WIDTH}
        height={isWide ? undefined : HEIGHT}
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={`${medians.length} medians, ${figure(low)} to ${figure(high)} ${unit ?? "units"}/s, the last ${figure(last)}`}
      >
        <polyline
          fill="none"
          stroke="currentColor"
          strokeWidth="1.5"
          points={medians.map((value, index) => `${x(index)},${y(value)}`).join(" ")}
        />
        <circle cx={x(medians.length - 1)} cy={y(last)} r="2.5" fill="currentColor" />
      </svg>
    </Box>
  );
}
