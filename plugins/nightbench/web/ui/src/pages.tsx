// The pages below "Benchmarks" in the navigation.
import { Box, Flex } from "@chakra-ui/react";
import { NavLink, Route, Routes } from "react-router-dom";

import { type OnDemand, onDemand } from "./on-demand";
import { Boundary, Note } from "./parts";
import { HOME, routes } from "./routes";

type Page = OnDemand<object>;

const Morning = onDemand(() => import("./morning").then((chunk) => chunk.MorningPage));
const Explore = onDemand(() => import("./explore").then((chunk) => chunk.Explore));
const Compare = onDemand(() => import("./compare").then((chunk) => chunk.Compare));
const Experiments = onDemand(() => import("./experiments").then((chunk) => chunk.ExperimentsPage));
const Runs = onDemand(() => import("./runs").then((chunk) => chunk.RunsPage));
const Alerts = onDemand(() => import("./alerts").then((chunk) => chunk.Alerts));
const Nodes = onDemand(() => import("./nodes").then((chunk) => chunk.NodesPage));

/** Pages that the navigation names: name, address, page. */
const TABS: [string, string, Page][] = [
  ["Morning", routes.morning(), Morning],
  ["Series", routes.explore(), Explore],
  ["Compare", routes.compare(), Compare],
  ["Experiments", routes.experiments(), Experiments],
  ["Runs", routes.runs(), Runs],
  ["Alerts", routes.alerts(), Alerts],
  ["Nodes", routes.nodes(), Nodes],
];

/** Every page by the pattern of its address. */
export const PAGES: [string, Page][] = [
  ...TABS.map(([, address, page]): [string, Page] => [address, page]),
  [`${HOME}/series`, onDemand(() => import("./series").then((chunk) => chunk.SeriesPage))],
  [
    `${HOME}/experiments/:name`,
    onDemand(() => import("./experiment").then((chunk) => chunk.ExperimentPage)),
  ],
  [`${HOME}/runs/:runId`, onDemand(() => import("./run").then((chunk) => chunk.RunPage))],
  [`${HOME}/runs/:runId/:caseId`, onDemand(() => import("./case").then((chunk) => chunk.CasePage))],
  [`${HOME}/alerts/:alertId`, onDemand(() => import("./alert").then((chunk) => chunk.AlertPage))],
];

function Navigation() {
  return (
    <Flex as="nav" aria-label="Benchmarks" columnGap={4} mb={4} wrap="wrap" borderBottomWidth="1px">
      {TABS.map(([name, to, page]) => (
        <NavLink
          key={to}
          to={to}
          end={to === HOME}
          onPointerEnter={() => void page.load().catch(() => undefined)}
        >
          {({ isActive }) => (
            <Box
              py={1}
              borderBottomWidth="3px"
              borderColor={isActive ? "border.info" : "transparent"}
              fontWeight={isActive ? "semibold" : undefined}
            >
              {name}
            </Box>
          )}
        </NavLink>
      ))}
    </Flex>
  );
}

export function Pages() {
  return (
    <Boundary>
      <Box px={{ base: 2, md: 4 }} py={2} maxW="1400px" w="100%">
        <Navigation />
        <Routes>
          {PAGES.map(([pattern, Shown]) => (
            <Route key={pattern} path={pattern.slice(HOME.length)} element={<Shown />} />
          ))}
          <Route path="*" element={<Note status="warning">There is no such page.</Note>} />
        </Routes>
      </Box>
    </Boundary>
  );
}
