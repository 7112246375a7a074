// What medians took of their devices, and the columns of figures that runs and series share.
import { Box, Text } from "@chakra-ui/react";

import type { RunCase } from "./api-types";
import { bytes, figure, percent } from "./format";
import { Change, Fact } from "./parts";
import type { Column } from "./table";

type Use = Pick<
  RunCase,
  "tflops_per_device" | "mfu" | "mfu_absent" | "tokens_per_s_per_device" | "device" | "peak_resident_bytes"
>;

type Figures = Use &
  Pick<
    RunCase,
    | "throughput" | "unit" | "spread" | "speedup" | "efficiency"
    | "change" | "level_change" | "change_low" | "change_high"
  > & { n: number | null };

/** What a device does in a second; nothing where the workload states no model FLOPs. */
function perDevice({ tflops_per_device: tflops, tokens_per_s_per_device: tokens }: Use): string[] {
  return [
    tflops === null ? "" : `${figure(tflops)} TFLOP/s`,
    tokens === null ? "" : `${figure(tokens)} tokens/s`,
  ].filter(Boolean);
}

/** Model FLOPs and tokens of a device, and its share of the peak; memory of the largest rank. */
export const USE: Column<Use> = {
  name: "Per device",
  isNumber: true,
  cell: (row) => {
    const more = [...perDevice(row), bytes(row.peak_resident_bytes)].filter(Boolean);
    if (row.mfu === null && !more.length) return "–";
    return (
      <Box title={row.mfu_absent ? `no MFU: ${row.mfu_absent}` : (row.device ?? undefined)}>
        {row.mfu !== null && <Text as="span">MFU {percent(row.mfu)}</Text>}
        {more.map((text) => (
          <Text key={text} color="fg.muted" fontSize="xs">
            {text}
          </Text>
        ))}
      </Box>
    );
  },
};

export const FIGURES: Column<Figures>[] = [
  {
    name: "Median",
    isNumber: true,
    cell: (row) => (row.throughput === null ? "–" : `${figure(row.throughput)} ${row.unit}/s`),
  },
  { name: "Spread", isNumber: true, cell: (row) => percent(row.spread) },
  { name: "n", isNumber: true, cell: (row) => row.n ?? "–" },
  {
    name: "Speed-up",
    isNumber: true,
    cell: (row) =>
      row.speedup === null ? "–" : `${row.speedup.toFixed(2)} at ${percent(row.efficiency, 0)}`,
  },
  USE,
  { name: "Change", isNumber: true, cell: (row) => <Change of={row} /> },
];

/** The same as facts of one median; without an MFU why there is none. */
export function UseFacts({ of }: { of: Use }) {
  const done = perDevice(of);
  return (
    <>
      {done.length > 0 && <Fact name="Model FLOPs per device">{done.join(", ")}</Fact>}
      <Fact name="MFU">
        {of.mfu === null
          ? `none: ${of.mfu_absent ?? "it was not recorded"}`
          : `${percent(of.mfu)} of the peak of ${of.device ?? "the devices"}`}
      </Fact>
      {of.peak_resident_bytes !== null && (
        <Fact name="Peak memory, largest rank">{bytes(of.peak_resident_bytes)}</Fact>
      )}
    </>
  );
}

/** Why medians have no MFU, each reason once. */
export function NoMfu({ of }: { of: (Use & { throughput: number | null })[] }) {
  const reasons = new Map<string, number>();
  for (const { mfu, mfu_absent: why, throughput } of of) {
    if (mfu === null && why && throughput !== null) reasons.set(why, (reasons.get(why) ?? 0) + 1);
  }
  if (!reasons.size) return null;
  return <>No MFU: {[...reasons].map(([why, cases]) => `${why} (${cases})`).join("; ")}. </>;
}
