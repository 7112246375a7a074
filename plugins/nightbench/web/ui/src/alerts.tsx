// Alerts, the worst first; those of one cause, or of one first bad run, in one row.
import { Box, Flex, Heading, Text } from "@chakra-ui/react";

import { useApi } from "./api";
import type { AlertGroupRow, AlertGroups, AxisValue, BisectSearch, Items } from "./api-types";
import { count, day, moment, words } from "./format";
import {
  AlertLink,
  AlertState,
  Answered,
  Change,
  Choice,
  Confirmation,
  Help,
  Link,
  Note,
  State,
  useChoices,
  useTitle,
} from "./parts";
import { routes } from "./routes";
import { type Column, DataTable, Pager, Sparkline } from "./table";

const STATES = ["open", "acknowledged", "resolved", "dismissed", "all"];
const TOGETHER = [
  { value: "onset", label: "first bad run" },
  { value: "nothing", label: "nothing" },
];

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

const COLUMNS: Column<AlertGroupRow>[] = [
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

export function Alerts() {
  const [query, choose] = useChoices();
  useTitle("Alerts");
  const axes = useApi<Items<AxisValue>>("axes");
  const answer = useApi<AlertGroups>("alerts/groups", Object.fromEntries(query));
  const values = (axis: string) =>
    (axes.data?.items ?? [])
      .filter((each) => each.axis === axis)
      .map(({ value }) => ({ value, label: value }));
  return (
    <>
      <Heading as="h1" size="lg">
        Alerts
      </Heading>
      <Flex gap={3} wrap="wrap" my={3}>
        <Choice
          name="state"
          none="not closed"
          value={query.get("state") ?? ""}
          values={STATES.map((value) => ({ value, label: value }))}
          onChoose={(value) => choose("state", value)}
        />
        {["cluster", "framework"].map((axis) => (
          <Choice
            key={axis}
            name={axis}
            value={query.get(axis) ?? ""}
            values={values(axis)}
            onChoose={(value) => choose(axis, value)}
          />
        ))}
        <Choice
          name="group by"
          none="cause"
          value={query.get("together") ?? ""}
          values={TOGETHER}
          onChoose={(value) => choose("together", value)}
        />
      </Flex>
      <Answered answer={answer}>
        {(found) =>
          found.total ? (
            <>
              <Text color="fg.muted" fontSize="sm">
                {count(found.alerts, "alert")} in {count(found.total, "group")}, worst first.
              </Text>
              <Pager
                page={found.page}
                size={found.size}
                total={found.total}
                onPage={(page) => choose("page", String(page))}
              />
              <DataTable
                label="Alerts"
                columns={COLUMNS}
                rows={found.items}
                rowKey={({ head }) => String(head.alert_id)}
              />
              <Help page="alerts.md#severity">
                <Text>
                  High: the series no longer yields a result or trains differently; or the whole interval of the drop is beyond 10 %; or at least five series dropped together.
                </Text>
                <Text>
                  Low: a repeated measurement did not confirm the drop, or the drop concerns a single series and may be less than 3 %.
                </Text>
                <Text>Medium: all other alerts.</Text>
              </Help>
            </>
          ) : (
            <Note>
              No alert matches these filters.{" "}
              <Link to={`${routes.alerts()}?state=all`}>Show all alerts, including closed alerts</Link>
            </Note>
          )
        }
      </Answered>
    </>
  );
}
