// The pages below "Benchmarks" in the navigation.
import { Box, Flex } from "@chakra-ui/react";
import { NavLink, Route, Routes } from "react-router-dom";

import { AlertPage } from "./alert";
import { Alerts } from "./alerts";
import { CasePage } from "./case";
import { Compare } from "./compare";
import { BisectPage, ComparisonPage, ExperimentsPage } from "./experiments";
import { Explore } from "./explore";
import { MorningPage } from "./morning";
import { NodesPage } from "./nodes";
import { Boundary, Note } from "./parts";
import { PublishedPage } from "./published";
import { routes } from "./routes";
import { RunPage } from "./run";
import { RunsPage } from "./runs";
import { SeriesPage } from "./series";
import { TrustPage } from "./trust";

const TABS = [
  ["Morning", routes.morning()],
  ["Series", routes.explore()],
  ["Compare", routes.compare()],
  ["Experiments", routes.experiments()],
  ["Published", routes.published()],
  ["Runs", routes.runs()],
  ["Alerts", routes.alerts()],
  ["Nodes", routes.nodes()],
  ["Trust", routes.trust()],
] as const;

function Navigation() {
  return (
    <Flex as="nav" aria-label="Benchmarks" columnGap={4} mb={4} wrap="wrap" borderBottomWidth="1px">
      {TABS.map(([name, to]) => (
        <NavLink key={to} to={to} end={to === routes.morning()}>
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
          <Route index element={<MorningPage />} />
          <Route path="explore" element={<Explore />} />
          <Route path="series" element={<SeriesPage />} />
          <Route path="compare" element={<Compare />} />
          <Route path="experiments" element={<ExperimentsPage />} />
          <Route path="experiments/ab/:comparisonId" element={<ComparisonPage />} />
          <Route path="experiments/bisects/:bisectId" element={<BisectPage />} />
          <Route path="published" element={<PublishedPage />} />
          <Route path="runs" element={<RunsPage />} />
          <Route path="runs/:runId" element={<RunPage />} />
          <Route path="runs/:runId/:caseId" element={<CasePage />} />
          <Route path="alerts" element={<Alerts />} />
          <Route path="alerts/:alertId" element={<AlertPage />} />
          <Route path="nodes" element={<NodesPage />} />
          <Route path="trust" element={<TrustPage />} />
          <Route path="*" element={<Note status="warning">There is no such page.</Note>} />
        </Routes>
      </Box>
    </Boundary>
  );
}
