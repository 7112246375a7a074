// Clusters, their nodes and what was last found on them, control measurements.
import { Heading, List, Text } from "@chakra-ui/react";

import { useApi } from "./api";
import type { ControlMedian, NodeHealth, Nodes } from "./api-types";
import { ago, change, count, figure, moment } from "./format";
import { Answered, Link, Note, Section, State, useTitle } from "./parts";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";

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
    name: "Because",
    cell: (node) => (
      <Text as="span">
        {node.sentences.join("; ")}
        {node.state_by && node.state_by !== "nightbench" && (
          <>
            {" "}
            (by <bdi>{node.state_by}</bdi>)
          </>
        )}
      </Text>
    ),
  },
  { name: "Faults in a row", isNumber: true, cell: (node) => node.faults_in_a_row },
  {
    name: "Last examined",
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
    name: "Complaints",
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

const CONTROLS: Column<ControlMedian>[] = [
  { name: "Node", cell: (each) => each.node },
  { name: "Measurement", cell: (each) => [each.metric, each.device, each.backend].filter(Boolean).join(", ") },
  { name: "Newest", isNumber: true, cell: (each) => `${figure(each.median)} ${each.unit}` },
  { name: "Median before", isNumber: true, cell: (each) => figure(each.median_before) },
  {
    name: "Against it",
    isNumber: true,
    cell: (each) => (each.ratio === null ? "–" : change(each.ratio - 1)),
  },
  { name: "When", cell: (each) => ago(each.at) },
];

export function NodesPage() {
  const answer = useApi<Nodes>("nodes");
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
              return (
                <Section key={cluster.cluster} title={cluster.cluster}>
                  <Text color="fg.muted" mb={2}>
                    {cluster.description && `${cluster.description}. `}
                    {cluster.nodes !== null &&
                      `${count(cluster.nodes, "node")} with ${cluster.devices_per_node} ${cluster.device_kind} each. `}
                    {count(cluster.runs, "run")}, the last {ago(cluster.last_run_at)}.
                  </Text>
                  {nodes.length ? (
                    <DataTable
                      label={`Nodes of ${cluster.cluster}`}
                      columns={NODES}
                      rows={nodes}
                      rowKey={(node) => node.node}
                    />
                  ) : (
                    <Text>No node of it has been examined from here.</Text>
                  )}
                  {controls.length > 0 && (
                    <DataTable
                      label={`Control measurements of ${cluster.cluster}`}
                      columns={CONTROLS}
                      rows={controls}
                      rowKey={(each) => `${each.node} ${each.metric} ${each.device} ${each.backend}`}
                    />
                  )}
                </Section>
              );
            })
          ) : (
            <Note>No run has been planned yet.</Note>
          )
        }
      </Answered>
    </>
  );
}
