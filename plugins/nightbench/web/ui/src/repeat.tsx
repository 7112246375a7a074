// One repeat of a case: step times of its processes, samples of its nodes, ends of its logs.
import { Box, Button, Flex, Text } from "@chakra-ui/react";
import { useState } from "react";

import { useApi } from "./api";
import type { RankSteps, RepeatLog, RepeatSteps, RepeatTelemetry, TelemetryMetric } from "./api-types";
import { Chart } from "./chart";
import { count, figure } from "./format";
import { Answered, Choice, Output, Section } from "./parts";
import { type Column, DataTable } from "./table";

type Props = {
  /** Path of the repeat in the API. */
  path: string;
  /** The query of the address, and a function that changes it. */
  chosen: (name: string) => string;
  choose: (name: string, value: string) => void;
};

const ms = (seconds: number | null | undefined) =>
  seconds === null || seconds === undefined ? "–" : figure(1000 * seconds);

function stepName(rank: RankSteps, index: number): string {
  if (index < rank.warmup) return `warm-up step ${index + 1}`;
  const inWindow = index - rank.warmup + 1;
  return inWindow <= rank.window ? `step ${inWindow}` : `step ${inWindow - rank.window} after the window`;
}

function StepChart({ rank, others }: { rank: RankSteps; others: RankSteps[] }) {
  const inMs = (each: RankSteps) => each.seconds.map((value) => (value === null ? null : 1000 * value));
  const length = Math.max(...[rank, ...others].map((each) => each.seconds.length));
  const padded = (each: RankSteps) => {
    const values = inMs(each);
    return [...values, ...Array<null>(length - values.length).fill(null)];
  };
  const slow = rank.seconds
    .map((value, index) => ({ value, index }))
    .filter(({ value, index }) => {
      const isInWindow = index >= rank.warmup && index < rank.warmup + rank.window;
      return isInWindow && value !== null && value > rank.limit_s;
    });
  // The first step of the window is step 1.
  const bands = [
    { from: -rank.warmup, to: 0.5 },
    { from: rank.window + 0.5, to: length - rank.warmup + 1 },
  ].filter(({ from, to }) => to - from > 1);
  return (
    <Box>
      <Chart
        label={`Step times of ${rank.process}: ${rank.window} steps in the window, median ${ms(rank.median_s)} ms, longest ${ms(rank.longest_s)} ms`}
        x={Array.from({ length }, (_each, index) => index + 1 - rank.warmup)}
        lines={[
          { name: rank.process, values: padded(rank) },
          ...others.map((each) => ({ name: each.process, values: padded(each), isMuted: true })),
        ]}
        bands={bands}
        levels={slow.length ? [{ at: 1000 * rank.limit_s, ink: "orange-fg" }] : []}
        unit={`milliseconds of each step of ${rank.process}${others.length ? "; grey: other processes" : ""}`}
        readout={(index) =>
          `${rank.process}, ${stepName(rank, index)}: ${ms(rank.seconds[index])} ms`
        }
      />
      <Text fontSize="sm">
        {rank.warmup > 0 &&
          `${count(rank.warmup, "warm-up step")} (shaded) ${rank.warmup === 1 ? "is" : "are"} not counted; the duration of the first step is unknown. `}
        {slow.length
          ? `${count(slow.length, "outlier")} above ${ms(rank.limit_s)} ms (dashed): ${slow
              .slice(0, 12)
              .map(({ value, index }) => `${stepName(rank, index)} ${ms(value)} ms`)
              .join(", ")}${slow.length > 12 ? ", …" : ""}.`
          : "No step in the measurement window is an outlier."}
      </Text>
    </Box>
  );
}

function Steps({ path, chosen, choose }: Props) {
  const answer = useApi<RepeatSteps>(`${path}/steps`);
  return (
    <Answered answer={answer}>
      {({ items, sentence }) => {
        const rank = items.find((each) => each.process === chosen("process")) ?? items[0];
        const columns: Column<RankSteps>[] = [
          {
            name: "Process",
            cell: (each) => (
              <Button
                size="2xs"
                variant={each === rank ? "solid" : "outline"}
                aria-pressed={each === rank}
                disabled={!each.seconds.length}
                onClick={() => choose("process", each.process)}
              >
                {each.process}
              </Button>
            ),
          },
          { name: "Node", cell: (each) => each.node },
          { name: "Steps", isNumber: true, cell: (each) => each.window },
          { name: "Median, ms", isNumber: true, cell: (each) => ms(each.median_s) },
          { name: "Longest, ms", isNumber: true, cell: (each) => ms(each.longest_s) },
          { name: "Outliers", isNumber: true, cell: (each) => each.outliers },
        ];
        return (
          <>
            {sentence && <Text color="fg.muted">{sentence}</Text>}
            {rank && rank.seconds.length > 0 && (
              <StepChart rank={rank} others={items.filter((each) => each !== rank && each.seconds.length)} />
            )}
            {items.length > 0 && (
              <Box mt={2} maxH="24em" overflowY="auto">
                <DataTable
                  label="Step times by process"
                  columns={columns}
                  rows={items}
                  rowKey={(each) => each.process}
                />
              </Box>
            )}
          </>
        );
      }}
    </Answered>
  );
}

const named = (metric: TelemetryMetric) =>
  `${metric.node}${metric.device && `, ${metric.device}`}: ${metric.metric}`;

const METRIC_COLUMNS: Column<TelemetryMetric>[] = [
  { name: "Metric", cell: named },
  { name: "Unit", cell: (metric) => metric.unit || "–" },
  { name: "Smallest", isNumber: true, cell: (metric) => figure(metric.smallest) },
  { name: "Median", isNumber: true, cell: (metric) => figure(metric.median) },
  { name: "Largest", isNumber: true, cell: (metric) => figure(metric.largest) },
];

function Telemetry({ path, chosen, choose }: Props) {
  const answer = useApi<RepeatTelemetry>(`${path}/telemetry`);
  return (
    <Answered answer={answer}>
      {({ items, sentences }) => {
        const metric = items.find((each) => named(each) === chosen("metric")) ?? items[0];
        return (
          <>
            {metric && (
              <>
                <Choice
                  name="sampled metric"
                  none={named(items[0] ?? metric)}
                  value={chosen("metric")}
                  values={items.slice(1).map((each) => ({ value: named(each), label: named(each) }))}
                  onChoose={(value) => choose("metric", value)}
                />
                <Chart
                  label={`${named(metric)}, ${metric.values.length} samples, median ${figure(metric.median)} ${metric.unit}`}
                  x={metric.seconds}
                  lines={[{ name: named(metric), values: metric.values }]}
                  unit={`${named(metric)}${metric.unit && `, ${metric.unit}`}, over seconds`}
                  readout={(index) =>
                    `${named(metric)} after ${figure(metric.seconds[index])} s: ${figure(metric.values[index])} ${metric.unit}`
                  }
                  height={160}
                />
                <DataTable
                  label="Samples of the nodes"
                  columns={METRIC_COLUMNS}
                  rows={items}
                  rowKey={named}
                />
              </>
            )}
            {sentences.map((sentence) => (
              <Text key={sentence} color="fg.muted" fontSize="sm">
                {sentence}
              </Text>
            ))}
          </>
        );
      }}
    </Answered>
  );
}

function Log({ path, chosen, choose }: Props) {
  const process = chosen("log");
  const answer = useApi<RepeatLog>(`${path}/log`, { process });
  return (
    <Answered answer={answer}>
      {(log) => (
        <>
          {log.processes.length > 1 && (
            <Choice
              name="log of"
              none={log.processes[0]}
              value={process}
              values={log.processes.slice(1).map((value) => ({ value, label: value }))}
              onChoose={(value) => choose("log", value)}
            />
          )}
          {log.sentence && <Text color="fg.muted">{log.sentence}</Text>}
          {log.process && !log.sentence && (
            <>
              {log.is_cut && (
                <Text color="fg.muted" fontSize="sm" mt={1}>
                  Its last lines; the command below shows up to the last 256 kB.
                </Text>
              )}
              <Output label={`Log of ${log.process}`}>{log.text || "The log is empty."}</Output>
            </>
          )}
        </>
      )}
    </Answered>
  );
}

export function RepeatDetail(props: Props & { name: string }) {
  const { name, ...rest } = props;
  // Samples are asked for when somebody wants them: they are read from the spool.
  const [isSampled, setSampled] = useState(rest.chosen("metric") !== "");
  return (
    <>
      <Section title={`Step times of repeat ${name}`}>
        <Steps {...rest} />
      </Section>
      <Section title={`Logs of repeat ${name}`}>
        <Log {...rest} />
      </Section>
      <Section title={`Telemetry of repeat ${name}`}>
        {isSampled ? (
          <Telemetry {...rest} />
        ) : (
          <Flex>
            <Button size="sm" variant="outline" onClick={() => setSampled(true)}>
              Show samples of the nodes
            </Button>
          </Flex>
        )}
      </Section>
    </>
  );
}
