// How the lines of a workload scale over devices, and their throughput over batch sizes.
import { Box, Button, Flex, Heading, Text } from "@chakra-ui/react";
import { useState } from "react";

import { useApi } from "./api";
import type { CurvePoint, Items } from "./api-types";
import { Chart } from "./chart";
import { type CurvePanel, curvePanels } from "./curve-panels";
import { figure, percent } from "./format";
import { Answered, Link, Section } from "./parts";
import { routes } from "./routes";

const SHOWN = 4;
const AXES = [
  ["devices", "Scaling over devices", "Speed-up compared with one device; the dashed line is ideal scaling."],
  ["batch size", "Throughput over batch size", "Throughput for each batch size per device."],
] as const;

function Panel({ panel }: { panel: CurvePanel }) {
  const { curves, ideal, unit, x, axis } = panel;
  return (
    <Box as="figure" m={0} minW="0">
      <Heading as="h3" size="sm">
        {panel.title}
      </Heading>
      <Chart
        label={`${panel.title}, over ${axis}: ${curves.map(({ framework }) => framework).join(", ")}`}
        x={x}
        lines={[
          ...curves.map(({ framework, ink, values }) => ({ name: framework, ink, values, isSparse: true })),
          ...(ideal ? [{ name: "ideal", values: ideal, isMuted: true, isDashed: true }] : []),
        ]}
        unit={ideal ? "times one device" : `${unit}/s`}
        readout={(index) =>
          `${axis} ${x[index]}: ${curves
            .map(({ framework, values }) => `${framework} ${figure(values[index])}${ideal ? "" : ` ${unit}/s`}`)
            .join(", ")}`
        }
        height={180}
      />
      <Flex gap={3} wrap="wrap" fontSize="xs">
        {curves.map(({ framework, ink, last, share }) => (
          <Text as="span" key={framework} whiteSpace="nowrap">
            <Box as="span" color={ink.replace("-", ".")} aria-hidden>
              ■{" "}
            </Box>
            <Link to={routes.series(last.case_id, last.cluster)}>{framework}</Link>{" "}
            {share === null ? `${figure(last.throughput)} ${unit}/s` : percent(share, 0)} at {last.x}
          </Text>
        ))}
      </Flex>
    </Box>
  );
}

function Panels({ panels }: { panels: CurvePanel[] }) {
  const [isAll, setAll] = useState(false);
  return (
    <>
      <Box display="grid" gap={5} gridTemplateColumns="repeat(auto-fit, minmax(min(100%, 22em), 1fr))">
        {(isAll ? panels : panels.slice(0, SHOWN)).map((panel) => (
          <Panel key={panel.key} panel={panel} />
        ))}
      </Box>
      {panels.length > SHOWN && !isAll && (
        <Button size="xs" variant="outline" mt={2} onClick={() => setAll(true)}>
          {panels.length - SHOWN} more
        </Button>
      )}
    </>
  );
}

/** The curves of a workload; nothing without curves. */
export function Curves({ workload }: { workload: string }) {
  const answer = useApi<Items<CurvePoint>>("overview/curves", { workload });
  return (
    <Answered answer={answer}>
      {({ items }) => (
        <>
          {AXES.map(([axis, title, text]) => {
            const panels = curvePanels(items, axis);
            return panels.length ? (
              <Section key={axis} title={title}>
                <Text color="fg.muted" fontSize="xs" mb={2}>
                  {text} Newest medians; all other axes of a plot are equal.
                </Text>
                <Panels panels={panels} />
              </Section>
            ) : null;
          })}
        </>
      )}
    </Answered>
  );
}
