// Load of the nodes in the last night for each node, and a calendar of the nights before.
import { Box, Text } from "@chakra-ui/react";

import type { NightWindowRow, NodeNights, NodeUse } from "./api-types";
import { count, moment, percent } from "./format";
import { type Load, loads, type Night, nightsOf, nightText } from "./node-load";
import { type Column, DataTable } from "./table";

function Bar({ share }: { share: number }) {
  return (
    <Box bg="bg.muted" h="0.7em" w="8em" borderRadius="sm" overflow="hidden" aria-hidden>
      <Box
        bg={share > 1 ? "red.solid" : share > 0.9 ? "orange.solid" : "blue.solid"}
        h="100%"
        w={`${Math.min(100, 100 * share)}%`}
      />
    </Box>
  );
}

export function NightLoad({ use, window }: { use: NodeUse[]; window?: NightWindowRow }) {
  const minutes = window && (Date.parse(window.ends_at) - Date.parse(window.begins_at)) / 60_000;
  const columns: Column<Load>[] = [
    { name: "Node", cell: (load) => <Text whiteSpace="nowrap">{load.node}</Text> },
    {
      name: "Suites",
      cell: (load) =>
        load.suites
          .map((each) => `${each.suite}: ${count(each.cases, "case")}, ${Math.round(each.used_s / 60)} min`)
          .join("; "),
    },
    { name: "Time of cases", isNumber: true, cell: (load) => `${Math.round(load.used)} min` },
    { name: "Usual time of these cases", isNumber: true, cell: (load) => `${Math.round(load.planned)} min` },
    { name: "Busy", isNumber: true, cell: (load) => `${Math.round(load.busy)} min` },
    ...(minutes
      ? [
          {
            name: "Share of night",
            isNumber: true,
            cell: (load: Load) => percent(load.busy / minutes, 0),
          },
          { name: "Load", cell: (load: Load) => <Bar share={load.busy / minutes} /> },
        ]
      : []),
  ];
  return (
    <Box mt={3}>
      <Text color="fg.muted" fontSize="sm">
        The last night
        {window &&
          `, ${moment(window.begins_at)} to ${moment(window.ends_at)} UTC (first start to last deadline)`}
        . Busy: time with at least one case; cases at the same time count once.
      </Text>
      <DataTable
        label="Load of the nodes in the last night"
        columns={columns}
        rows={loads(use)}
        rowKey={(load) => load.node}
      />
    </Box>
  );
}

/** Colour of a night. */
function ink({ cases, faults, isQuarantined }: Night): string {
  if (isQuarantined) return "red.solid";
  if (faults) return "orange.solid";
  return cases ? "blue.solid" : "bg.muted";
}

/** Node x night: use, faults, quarantine. */
export function Calendar({ nodes }: { nodes: NodeNights[] }) {
  const most = Math.max(...nodes.flatMap((node) => node.cases));
  const [first] = nodes;
  if (!first) return null;
  const days = nightsOf(first).map(({ day }) => day);
  const columns = `minmax(4em, max-content) repeat(${days.length}, minmax(0, 1.6em))`;
  return (
    <Box mt={3}>
      <Text color="fg.muted" fontSize="sm" mb={1}>
        Nights that ended on {days[0]} to {days.at(-1)} (UTC). Blue: cases measured, darker for more; orange:
        number of faults; red: quarantined; grey: not used.
      </Text>
      {nodes.map((node) => {
        const nights = nightsOf(node);
        const bad = nights.filter((night) => night.faults || night.isQuarantined).map(nightText);
        const cases = count(node.cases.reduce((sum, each) => sum + each, 0), "case");
        return (
          <Box
            key={node.node}
            display="grid"
            gridTemplateColumns={columns}
            gap="1px"
            mb="1px"
            role="img"
            aria-label={`${node.node}: ${count(nights.length, "night")}, ${cases}; ${bad.join("; ") || "no fault"}`}
          >
            <Text fontSize="xs" pe={2} overflowWrap="anywhere">
              {node.node}
            </Text>
            {nights.map((night) => (
              <Text
                key={night.day}
                title={`${node.node}, ${nightText(night)}`}
                bg={ink(night)}
                opacity={ink(night) === "blue.solid" ? 0.25 + (0.75 * night.cases) / most : 1}
                color="white"
                fontSize="10px"
                lineHeight="1.6em"
                minH="1.6em"
                textAlign="center"
                overflow="hidden"
              >
                {night.isQuarantined ? "q" : night.faults || ""}
              </Text>
            ))}
          </Box>
        );
      })}
    </Box>
  );
}
