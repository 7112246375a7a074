// Series as small plots, each of its newest medians, so that many are seen at once.
import { Box, Flex, Heading, Text } from "@chakra-ui/react";

import type { SeriesRow } from "./api-types";
import { figure } from "./format";
import { AlertLink, Change, Link, State } from "./parts";
import { routes } from "./routes";
import { consecutive } from "./series-groups";
import { Sparkline } from "./table";

function Small({ row }: { row: SeriesRow }) {
  return (
    <Box borderWidth="1px" borderRadius="md" p={2} minW="0" as="article" aria-label={row.case_id}>
      <Text fontSize="sm" lineHeight="1.2" overflowWrap="anywhere">
        <Link to={routes.series(row.case_id, row.cluster)}>{row.case_id}</Link>
      </Text>
      <Text color="fg.muted" fontSize="xs">
        on {row.cluster}
      </Text>
      <Sparkline medians={row.medians} unit={row.unit} isWide />
      <Flex justify="space-between" align="start" fontSize="sm" gap={2} wrap="wrap">
        <Text as="span">{row.throughput === null ? "–" : `${figure(row.throughput)} ${row.unit}/s`}</Text>
        <Change of={row} />
        {row.alert_id === null ? (
          <State name={row.state} />
        ) : (
          <AlertLink alertId={row.alert_id}>alert {row.alert_id}</AlertLink>
        )}
      </Flex>
    </Box>
  );
}

export function SmallMultiples({ rows }: { rows: SeriesRow[] }) {
  return (
    <Box
      display="grid"
      gap={3}
      gridTemplateColumns="repeat(auto-fill, minmax(min(100%, 17em), 1fr))"
    >
      {rows.map((row) => (
        <Small key={`${row.case_id} ${row.cluster}`} row={row} />
      ))}
    </Box>
  );
}

/** A heading for each value of the axis that groups series, if an axis does. */
export function Grouped({
  axis,
  rows,
  children,
}: {
  axis: string;
  rows: SeriesRow[];
  children: (rows: SeriesRow[], label: string) => React.ReactNode;
}) {
  if (!axis) return <>{children(rows, "Series")}</>;
  return (
    <>
      {consecutive(rows).map((run) => {
        const label = `${axis.replaceAll("_", " ")}: ${run.value ?? "none"}`;
        return (
          <Box as="section" key={label} mt={4}>
            <Heading as="h2" size="sm" mb={2}>
              {label}
            </Heading>
            {children(run.rows, label)}
          </Box>
        );
      })}
    </>
  );
}
