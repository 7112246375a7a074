// The table of groups of alerts, on the pages Morning and Alerts.
import { Box, Text } from "@chakra-ui/react";

import type { AlertGroupRow, BisectSearch } from "./api-types";
import { count, day, moment, words } from "./format";
import { AlertLink, AlertState, Change, Confirmation, Link, State } from "./parts";
import { routes } from "./routes";
import { type Column, Sparkline } from "./table";

function Bisect({ bisect }: { bisect: BisectSearch }) {
  if (bisect.first_bad) {
    return (
      <Text fontSize="xs">
        bisect: {bisect.line} {bisect.first_bad} is the first bad version
      </Text>
    );
  }
  const minutes = `${Math.round(bisect.spent_s / 60)} of ${Math.round(bisect.budget_s / 60)} minutes`;
  return (
    <Text fontSize="xs">
      bisect of {bisect.versions.length} versions {words(bisect.outcome ?? bisect.state)}:{" "}
      {count(bisect.tests.length, "test")}, {minutes}
    </Text>
  );
}

export const ALERT_COLUMNS: Column<AlertGroupRow>[] = [
  {
    name: "Severity",
    cell: ({ head }) => (
      <Box>
        <State name={head.severity} />
        <Text color="fg.muted" fontSize="xs">
          {head.severity_because}
        </Text>
      </Box>
    ),
  },
  {
    name: "Change",
    cell: ({ head }) => (
      <Box>
        <State name={head.verdict} /> <Confirmation alert={head} />
        {head.change !== null && (
          <Change of={head} />
        )}
      </Box>
    ),
  },
  {
    name: "Series",
    cell: ({ head, alerts }) => (
      <Box>
        <Link to={routes.series(head.case_id, head.cluster)}>{head.case_id}</Link>
        <Text color="fg.muted" fontSize="xs">
          on {head.cluster}
          {alerts > 1 && `, and ${alerts - 1} more with the same cause`}
        </Text>
      </Box>
    ),
  },
  {
    name: "Newest medians",
    cell: ({ head, medians }) => <Sparkline medians={medians} unit={head.unit} />,
  },
  {
    name: "Cause",
    cell: ({ head, bisect }) => (
      <Box>
        {head.cause ? words(head.cause) : "unknown"}
        {head.cause_suspect && `: ${head.cause_suspect}`}
        <Text color="fg.muted" fontSize="xs">
          {head.cause_sentence}
        </Text>
        {bisect && <Bisect bisect={bisect} />}
      </Box>
    ),
  },
  {
    name: "State",
    cell: ({ head, alerts, states }) =>
      alerts > 1 ? (
        <Text as="span">
          {Object.entries(states)
            .map(([state, number]) => `${number} ${state}`)
            .join(", ")}
        </Text>
      ) : (
        <AlertState alert={head} />
      ),
  },
  { name: "Owner", cell: ({ head }) => <bdi>{head.owner || "none"}</bdi> },
  {
    name: "Onset",
    cell: ({ head }) => (
      <Text as="span" whiteSpace="nowrap" title={`opened ${moment(head.opened_at)} UTC`}>
        {day(head.since ?? head.opened_at)}
      </Text>
    ),
  },
  {
    name: "Alert",
    cell: ({ head }) => (
      <Text as="span" whiteSpace="nowrap">
        <AlertLink alertId={head.alert_id} />
      </Text>
    ),
  },
];
