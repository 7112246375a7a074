// Alerts, newest first; those of one cause in one row.
import { Box, Flex, Heading, Text } from "@chakra-ui/react";
import { useSearchParams } from "react-router-dom";

import { useApi } from "./api";
import type { AlertList, AlertRow, AxisValues } from "./api-types";
import { Choice } from "./choice";
import { day, moment, words } from "./format";
import { AlertLink, Answered, Change, Link, Note, State, useTitle } from "./parts";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";

const STATES = ["open", "acknowledged", "resolved", "dismissed", "all"];
const SHOWN = 200;

type Group = { head: AlertRow; members: AlertRow[] };

function groups(alerts: AlertRow[]): Group[] {
  const found = new Map<string, AlertRow[]>();
  for (const alert of alerts) {
    const key = alert.group_key || `alert ${alert.alert_id}`;
    found.set(key, [...(found.get(key) ?? []), alert]);
  }
  return [...found.values()].map((members) => ({
    head: members.reduce((worst, each) => ((each.change ?? 0) < (worst.change ?? 0) ? each : worst)),
    members,
  }));
}

export function AlertState({ alert }: { alert: AlertRow }) {
  return (
    <Box>
      <State name={alert.state} /> {alert.dismissed_as && words(alert.dismissed_as)}
      {alert.snoozed_until && Date.parse(alert.snoozed_until) > Date.now() && (
        <Text fontSize="xs">snoozed until {moment(alert.snoozed_until)} UTC</Text>
      )}
    </Box>
  );
}

export function Confirmation({ alert }: { alert: AlertRow }) {
  if (alert.confirmation) return <State name={alert.confirmation} />;
  const state = alert.confirmation_state ?? "";
  if (["wanted", "running"].includes(state)) return <State name="being measured again" />;
  return state === "skipped" ? <State name="not measured again" /> : null;
}

const COLUMNS: Column<Group>[] = [
  { name: "Alert", cell: ({ head }) => <AlertLink alertId={head.alert_id} /> },
  {
    name: "State",
    cell: ({ head, members }) =>
      members.length > 1 ? (
        <Text as="span">
          {[...new Set(members.map((each) => each.state))]
            .map((state) => `${members.filter((each) => each.state === state).length} ${state}`)
            .join(", ")}
        </Text>
      ) : (
        <AlertState alert={head} />
      ),
  },
  {
    name: "What",
    cell: ({ head }) => (
      <Box>
        <State name={head.verdict} /> <Confirmation alert={head} />
        {head.change !== null && (
          <Change value={head.change} low={head.change_low} high={head.change_high} />
        )}
      </Box>
    ),
  },
  {
    name: "Series",
    cell: ({ head, members }) => (
      <Box>
        <Link to={routes.series(head.case_id, head.cluster)}>{head.case_id}</Link>
        <Text color="fg.muted" fontSize="xs">
          on {head.cluster}
          {members.length > 1 && `, and ${members.length - 1} more of this cause`}
        </Text>
      </Box>
    ),
  },
  {
    name: "Cause",
    cell: ({ head }) => (
      <Text as="span">
        {head.cause ? words(head.cause) : "–"}
        {head.cause_suspect && `: ${head.cause_suspect}`}
      </Text>
    ),
  },
  { name: "Owner", cell: ({ head }) => <bdi>{head.owner || "–"}</bdi> },
  { name: "Onset", cell: ({ head }) => day(head.since ?? head.opened_at) },
  {
    name: "Opened (UTC)",
    cell: ({ head }) => (
      <Text as="span" whiteSpace="nowrap">
        {moment(head.opened_at)}
      </Text>
    ),
  },
];

export function Alerts() {
  const [query, setQuery] = useSearchParams();
  useTitle("Alerts");
  const axes = useApi<AxisValues>("axes");
  const answer = useApi<AlertList>("alerts", { limit: SHOWN, ...Object.fromEntries(query) });
  const choose = (name: string, value: string) =>
    setQuery((before) => {
      const next = new URLSearchParams(before);
      if (value) next.set(name, value);
      else next.delete(name);
      return next;
    });
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
          none="live"
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
      </Flex>
      <Answered answer={answer}>
        {({ alerts }) =>
          alerts.length ? (
            <>
              <DataTable
                label="Alerts"
                columns={COLUMNS}
                rows={groups(alerts)}
                rowKey={({ head }) => String(head.alert_id)}
              />
              {alerts.length >= SHOWN && (
                <Note>The newest {SHOWN} are shown: choose a state, cluster or framework above.</Note>
              )}
            </>
          ) : (
            <Note>
              No {query.get("state") ? "" : "open "}alert fits this choice.{" "}
              <Link to={`${routes.alerts()}?state=all`}>All that there ever were</Link>
            </Note>
          )
        }
      </Answered>
    </>
  );
}
