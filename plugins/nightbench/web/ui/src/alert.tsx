// One alert: values, cause with its evidence, the series, the actions of users, and a form for each action.
import { Heading, List, Text } from "@chakra-ui/react";
import { useState } from "react";
import { useParams } from "react-router-dom";

import { Actions } from "./actions";
import { useApi } from "./api";
import type { BisectSearch, AlertDetail, AlertEvent, AlertRow, SeriesHistory } from "./api-types";
import { judged, moment, percent, words } from "./format";
import {
  AlertLink,
  AlertState,
  Answered,
  Change,
  Confirmation,
  Fact,
  Facts,
  Link,
  Note,
  Section,
  State,
  useTitle,
  Written,
} from "./parts";
import { routes } from "./routes";
import { Plot } from "./series";
import { type Column, DataTable } from "./table";

function RunLink({ runId }: { runId: string | null }) {
  return runId ? <Link to={routes.run(runId)}>{runId}</Link> : <>–</>;
}

function ratio(value: number | null, low: number | null, high: number | null): string {
  if (value === null) return "–";
  const between = low === null || high === null ? "" : ` (${low.toFixed(3)} to ${high.toFixed(3)})`;
  return value.toFixed(3) + between;
}

const EVENT_COLUMNS: Column<AlertEvent>[] = [
  { name: "When (UTC)", cell: (event) => moment(event.at) },
  { name: "User", cell: (event) => <bdi>{event.by_whom}</bdi> },
  {
    name: "Event",
    cell: (event) =>
      event.what === "moved" ? `${event.from_state} → ${event.to_state}` : words(event.what),
  },
  { name: "Reason", cell: (event) => <Written text={event.why} /> },
  { name: "Run", cell: (event) => <RunLink runId={event.run_id} /> },
];

const MEMBER_COLUMNS: Column<AlertRow>[] = [
  { name: "Alert", cell: (alert) => <AlertLink alertId={alert.alert_id} /> },
  { name: "State", cell: (alert) => <AlertState alert={alert} /> },
  {
    name: "Change",
    cell: (alert) => <Change of={alert} />,
  },
  {
    name: "Series",
    cell: (alert) => <Link to={routes.series(alert.case_id, alert.cluster)}>{alert.case_id}</Link>,
  },
  { name: "Owner", cell: (alert) => <bdi>{alert.owner || "–"}</bdi> },
];

function Bisect({ bisect }: { bisect: BisectSearch }) {
  return (
    <Section title="First slow version">
      <Text>
        {bisect.sentence || `${bisect.line} ${bisect.good} to ${bisect.bad}: ${bisect.state}`}
      </Text>
      <Text color="fg.muted">
        <Link to={routes.experiment(bisect.name)}>Bisect {bisect.name}</Link> of {bisect.versions.length} versions of {bisect.line}, {bisect.state},
        {bisect.started_at && `started ${moment(bisect.started_at)} UTC`}; {Math.round(bisect.spent_s / 60)} of{" "}
        {Math.round(bisect.budget_s / 60)} minutes used. {bisect.notes.join(" ")}
      </Text>
    </Section>
  );
}

function History({ alert }: { alert: AlertDetail }) {
  const path = `series/${encodeURIComponent(alert.cluster)}/${encodeURIComponent(alert.case_id)}`;
  const answer = useApi<SeriesHistory>(path);
  return (
    <Section title="History of the series">
      <Text>
        <Link to={routes.series(alert.case_id, alert.cluster)}>Page of the series</Link>
      </Text>
      <Answered answer={answer}>{(series) => (
          <>
            {series.noisy && (
              <Note status="warning">
                Noisy since {moment(series.noisy.since_at)} UTC; while it is noisy, a drop opens no alert: {series.noisy.sentence}
              </Note>
            )}
            <Plot series={series} />
          </>
        )}</Answered>
    </Section>
  );
}

function Shown({ alert, onDone }: { alert: AlertDetail; onDone: () => void }) {
  return (
    <>
      <Heading as="h1" size="lg">
        Alert {alert.alert_id}: {!["throughput", "training"].includes(alert.metric) && `${words(alert.metric)} `}
        {words(alert.verdict)}
        {alert.change !== null && ` by ${percent(Math.abs(alert.change))}`}
      </Heading>
      <Text>
        <Link to={routes.series(alert.case_id, alert.cluster)}>{alert.case_id}</Link> on {alert.cluster}{" "}
        <Confirmation alert={alert} />
      </Text>
      <Note status={alert.closed_at ? "info" : "error"}>{alert.sentence}</Note>
      {alert.unplanned && <Note status="warning">No night can end this alert. {alert.unplanned}</Note>}
      <Facts>
        <Fact name="State">
          <AlertState alert={alert} />
        </Fact>
        <Fact name="Severity">
          <State name={alert.severity} /> {alert.severity_because}
        </Fact>
        <Fact name="Owner">
          <bdi>{alert.owner || "none"}</bdi>
        </Fact>
        {alert.value !== null && <Fact name="Measured">{judged(alert.value, alert.metric, alert.unit)}</Fact>}
        {alert.baseline !== null && <Fact name="Baseline">{judged(alert.baseline, alert.metric, alert.unit)}</Fact>}
        {alert.change !== null && (
          <Fact name="Change">
            <Change of={alert} />
          </Fact>
        )}
        <Fact name="Opened">{moment(alert.opened_at)} UTC</Fact>
        {alert.closed_at && <Fact name="Closed">{moment(alert.closed_at)} UTC</Fact>}
        <Fact name="Notified">{alert.notified_at ? `${moment(alert.notified_at)} UTC` : "not yet"}</Fact>
        {alert.last_good_run_id && (
          <Fact name="Last good run">
            <RunLink runId={alert.last_good_run_id} />
          </Fact>
        )}
        {alert.first_bad_run_id && (
          <Fact name="First bad run">
            <RunLink runId={alert.first_bad_run_id} />
          </Fact>
        )}
        <Fact name="Opened by run">
          <RunLink runId={alert.opened_run_id} />
        </Fact>
        <Fact name="Latest run">
          <RunLink runId={alert.last_run_id} />
        </Fact>
      </Facts>
      <Actions alert={alert} onDone={onDone} />
      {alert.cause && (
        <Section title="Cause">
          <Text>
            <strong>
              {words(alert.cause)}
              {alert.cause_suspect && `: ${alert.cause_suspect}`}
            </strong>
            . {alert.cause_sentence}
          </Text>
          <List.Root ps={5}>
            {alert.evidence_sentences.map((sentence) => (
              <List.Item key={sentence}>{sentence}</List.Item>
            ))}
          </List.Root>
        </Section>
      )}
      {alert.cause === "framework_version" && alert.actions.length > 0 && !alert.bisects.length && (
        <Text mt={2}>
          <Link to="/dags/nightbench_experiments/trigger">Find the first bad version</Link> between the last
          good run and this run
        </Text>
      )}
      {alert.confirmation_sentence && (
        <Section title="Repeated measurement">
          <Text>
            <Confirmation alert={alert} /> {alert.confirmation_sentence}
          </Text>
          {alert.confirmation_ratio !== null && (
            <Text color="fg.muted">
              n = {alert.confirmation_rounds}; ratio{" "}
              {ratio(alert.confirmation_ratio, alert.confirmation_low, alert.confirmation_high)}
            </Text>
          )}
        </Section>
      )}
      {alert.bisects.map((bisect) => (
        <Bisect key={bisect.name} bisect={bisect} />
      ))}
      {alert.group.length > 0 && (
        <Section title={`Alerts with the same cause: ${alert.group.length}`}>
          <DataTable
            label="Alerts with the same cause"
            columns={MEMBER_COLUMNS}
            rows={alert.group}
            rowKey={(member) => String(member.alert_id)}
          />
        </Section>
      )}
      <History alert={alert} />
      <Section title="History of the alert">
        <DataTable
          label="History of this alert"
          columns={EVENT_COLUMNS}
          rows={alert.events}
          rowKey={(event) => String(event.event_id)}
        />
      </Section>
    </>
  );
}

export function AlertPage() {
  const { alertId = "" } = useParams();
  const [reload, setReload] = useState(0);
  const answer = useApi<AlertDetail>(`alerts/${encodeURIComponent(alertId)}`, {}, reload);
  useTitle(`Alert ${alertId}`);
  return (
    <Answered answer={answer}>
      {(alert) => <Shown alert={alert} onDone={() => setReload((before) => before + 1)} />}
    </Answered>
  );
}
