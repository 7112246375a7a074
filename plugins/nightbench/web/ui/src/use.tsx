// Use of the devices by medians, and the columns that runs and series share.
import { Box, Text } from "@chakra-ui/react";

import type { RunCase } from "./api-types";
import { bytes, figure, percent } from "./format";
import { Change, Fact } from "./parts";
import type { Column } from "./table";

type Use = Pick<
  RunCase,
  | "tflops_per_device" | "mfu" | "mfu_absent" | "tokens_per_s_per_device" | "device" | "peak_resident_bytes"
  | "peak_allocator_bytes" | "power_w" | "joules_per_unit" | "energy_absent" | "reported"
>;

type Figures = Use &
  Pick<
    RunCase,
    | "throughput" | "unit" | "spread" | "speedup" | "efficiency"
    | "metric" | "change" | "level_change" | "change_low" | "change_high"
  > & { n: number | null };

/** Work of a device in a second; empty if the workload states no model FLOPs. */
function perDevice({ tflops_per_device: tflops, tokens_per_s_per_device: tokens }: Use): string[] {
  return [
    tflops === null ? "" : `${figure(tflops)} TFLOP/s`,
    tokens === null ? "" : `${figure(tokens)} tokens/s`,
  ].filter(Boolean);
}

/** Peak memory, the highest of all ranks: of its device if the allocator reports it, else of its process. */
export function peakBytes(of: Pick<Use, "peak_allocator_bytes" | "peak_resident_bytes">): number | null {
  return of.peak_allocator_bytes ?? of.peak_resident_bytes;
}

/** Energy of all devices for one unit of work; nothing where it is not known. */
function joules({ joules_per_unit: each }: Use, unit: string | null): string {
  return each === null ? "" : `${figure(each)} J/${(unit ?? "units").replace(/s$/, "")}`;
}

/** Values that a training script printed itself, by its names. */
export function printed({ reported }: Pick<Use, "reported">): string {
  return Object.entries(reported ?? {}).map(([name, value]) => `${name} ${figure(value)}`).join(", ");
}

/** Model FLOPs and tokens of a device, and its share of the peak; memory, the highest of all ranks; energy. */
export const USE: Column<Use & { unit: string | null }> = {
  name: "Per device",
  isNumber: true,
  cell: (row) => {
    const more = [...perDevice(row), bytes(peakBytes(row)), joules(row, row.unit)].filter(Boolean);
    if (row.reported) more.push(`printed: ${printed(row)}`);
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

/** Use of the devices as facts of one median; without an MFU, the reason. */
export function UseFacts({ of, unit }: { of: Use; unit: string | null }) {
  const done = perDevice(of);
  return (
    <>
      {done.length > 0 && <Fact name="Model FLOPs per device">{done.join(", ")}</Fact>}
      <Fact name="MFU">
        {of.mfu === null
          ? `none: ${of.mfu_absent ?? "not recorded"}`
          : `${percent(of.mfu)} of the peak of ${of.device ?? "the devices"}`}
      </Fact>
      {of.reported && <Fact name="Printed by the script">{printed(of)}</Fact>}
      {peakBytes(of) !== null && (
        <Fact name="Peak memory, highest of all ranks">{bytes(peakBytes(of))}</Fact>
      )}
      <Fact name="Energy of the devices">
        {of.joules_per_unit === null
          ? `none: ${of.energy_absent ?? "not recorded"}`
          : `${joules(of, unit)} at ${figure(of.power_w)} W`}
      </Fact>
    </>
  );
}

/** Why medians have no MFU or energy, each reason once. */
export function NotKnown({ of }: { of: (Use & { throughput: number | null })[] }) {
  const said = ([["MFU", "mfu_absent"], ["energy", "energy_absent"]] as const).map(([name, column]) => {
    const reasons = new Map<string, number>();
    for (const row of of) {
      const why = row.throughput !== null && row[column];
      if (why) reasons.set(why, (reasons.get(why) ?? 0) + 1);
    }
    const each = [...reasons].map(([why, cases]) => `${why} (${cases})`);
    return each.length ? `No ${name}: ${each.join("; ")}. ` : "";
  });
  return <>{said.join("")}</>;
}
