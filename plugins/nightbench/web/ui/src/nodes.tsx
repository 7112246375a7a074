// Clusters: jobs on their nodes, findings, how full the last night was, the detector's quality.
import { Box, Heading, List, Text } from "@chakra-ui/react";

import { AcceptanceLine } from "./acceptance-line";
import { useApi } from "./api";
import type { ControlMedian, Items, NodeActivity, NodeHealth, Nodes, Trust } from "./api-types";
import { DetectorQuality } from "./detector-quality";
import { ago, change, count, figure, moment } from "./format";
import { Calendar, NightLoad } from "./node-use";
import { Answered, Link, Note, Section, State, useTitle } from "./parts";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";

const SILENT_MS = 120_000;

const NODES: Column<NodeHealth>[] = [
  { name: "Node", cell: (node) => node.node },
  {
    name: "State",
    cell: (node) => (
      <Text as="span" title={node.state_since ? `since ${moment(node.state_since)} UTC` : undefined}>
        <State name={node.state} />
        {node.state !== "ok" && node.state_since && ` since ${moment(node.state_since)} UTC`}
      </Text>
    ),
  },
  {
    name: "Reason",
    cell: (node) => (
      <Text as="span">
        {node.sentences.join("; ") || "–"}
        {node.state_by && node.state_by !== "nightbench" && (
          <>
            {" "}
            (by <bdi>{node.state_by}</bdi>)
          </>
        )}
      </Text>
    ),
  },
  { name: "Consecutive faults", isNumber: true, cell: (node) => node.faults_in_a_row },
  {
    name: "Last checked",
    cell: (node) => {
      if (node.last_preflight_at === null) return "never";
      const when = `${ago(node.last_preflight_at)}${node.was_reachable ? "" : ", unreachable"}`;
      return node.last_preflight_run_id ? (
        <Link to={routes.run(node.last_preflight_run_id)}>{when}</Link>
      ) : (
        when
      );
    },
  },
  {
    name: "Findings",
    cell: (node) =>
      node.last_complaints.length ? (
        <List.Root ps={4}>
          {node.last_complaints.map((complaint) => (
            <List.Item key={complaint}>{complaint}</List.Item>
          ))}
        </List.Root>
      ) : (
        "none"
      ),
  },
];

const ACTIVITY: Column<NodeActivity>[] = [
  {
    name: "Case",
    cell: (each) => (
      <Box>
        <Link to={routes.series(each.case_id, each.cluster)}>{each.case_id}</Link>
        <Text fontSize="xs">
          <Link to={routes.run(each.run_id)}>{each.run_id}</Link>
        </Text>
      </Box>
    ),
  },
  {
    name: "Nodes",
    cell: (each) => `${each.is_holding ? "uses" : "waits for"} ${each.nodes.join(", ")}`,
  },
  { name: "Since", cell: (each) => ago(each.since) },
  {
    name: "State",
    cell: (each) => (
      <Box>
        <State name={each.state} />
        {each.repeat ? ` repeat ${each.repeat} of ${each.repeats}` : ""}
        <Text color="fg.muted" fontSize="xs">
          {each.message}
          {Date.now() - Date.parse(each.at) > SILENT_MS && ` (last report of the controller: ${ago(each.at)})`}
        </Text>
      </Box>
    ),
  },
];

const CONTROLS: Column<ControlMedian>[] = [
  { name: "Node", cell: (each) => each.node },
  { name: "Measurement", cell: (each) => [each.metric, each.device, each.backend].filter(Boolean).join(", ") },
  { name: "Newest", isNumber: true, cell: (each) => `${figure(each.median)} ${each.unit}` },
  { name: "Earlier median", isNumber: true, cell: (each) => figure(each.median_before) },
  {
    name: "Change",
    isNumber: true,
    cell: (each) => (each.ratio === null ? "–" : change(each.ratio - 1)),
  },
  { name: "Measured", cell: (each) => ago(each.at) },
];

function Activity({ cluster, items }: { cluster: string; items: NodeActivity[] }) {
  if (!items.length) return <Text mb={2}>No Nightbench job is using or waiting for a node of this cluster.</Text>;
  return (
    <DataTable
      label={`Jobs on nodes of ${cluster}`}
      columns={ACTIVITY}
      rows={items}
      rowKey={(each) => `${each.run_id} ${each.case_id}`}
    />
  );
}

export function NodesPage() {
  const answer = useApi<Nodes>("nodes");
  const activity = useApi<Items<NodeActivity>>("nodes/activity");
  const trust = useApi<Trust>("trust");
  useTitle("Nodes");
  return (
    <>
      <Heading as="h1" size="lg">
        Nodes
      </Heading>
      <Answered answer={answer}>
        {(found) =>
          found.clusters.length ? (
            found.clusters.map((cluster) => {
              const nodes = found.nodes.filter((each) => each.cluster === cluster.cluster);
              const controls = found.controls.filter((each) => each.cluster === cluster.cluster);
              const use = found.use.filter((each) => each.cluster === cluster.cluster);
              return (
                <Section key={cluster.cluster} title={cluster.cluster}>
                  <Text color="fg.muted" mb={2}>
                    {cluster.description && `${cluster.description}. `}
                    {cluster.nodes !== null &&
                      `${count(cluster.nodes, "node")} with ${cluster.devices_per_node} ${cluster.device_kind} each. `}
                    {count(cluster.runs, "run")}, the last {ago(cluster.last_run_at)}.
                  </Text>
                  <AcceptanceLine cluster={cluster.cluster} />
                  <Answered answer={activity}>
                    {({ items }) => (
                      <Activity
                        cluster={cluster.cluster}
                        items={items.filter((each) => each.cluster === cluster.cluster)}
                      />
                    )}
                  </Answered>
                  <DataTable
                    label={`Nodes of ${cluster.cluster}`}
                    columns={NODES}
                    rows={nodes}
                    rowKey={(node) => node.node}
                    none={<Text>No node of this cluster has been checked yet.</Text>}
                  />
                  <Calendar nodes={found.nights.filter((each) => each.cluster === cluster.cluster)} />
                  {use.length > 0 && (
                    <NightLoad
                      use={use}
                      window={found.windows.find((each) => each.cluster === cluster.cluster)}
                    />
                  )}
                  {controls.length > 0 && (
                    <>
                      <Heading as="h3" size="sm" mt={4}>
                        Control measurements
                      </Heading>
                      <DataTable
                        label={`Control measurements of ${cluster.cluster}`}
                        columns={CONTROLS}
                        rows={controls}
                        rowKey={(each) => `${each.node} ${each.metric} ${each.device} ${each.backend}`}
                      />
                    </>
                  )}
                  <Answered answer={trust}>
                    {(quality) => <DetectorQuality cluster={cluster.cluster} trust={quality} />}
                  </Answered>
                </Section>
              );
            })
          ) : (
            <Note>No cluster has a run yet.</Note>
          )
        }
      </Answered>
    </>
  );
}
