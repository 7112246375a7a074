// The pages below "Benchmarks" in the navigation.
import { Box, Flex } from "@chakra-ui/react";
import { NavLink, Route, Routes } from "react-router-dom";

import { Explore } from "./explore";
import { MorningPage } from "./morning";
import { Boundary, Note, PlainLink } from "./parts";
import { rendered, routes } from "./routes";
import { RunPage } from "./run";
import { Runs } from "./runs";
import { SeriesPage } from "./series";

const TABS = [
  ["Morning", routes.morning()],
  ["Series", routes.explore()],
  ["Runs", routes.runs()],
] as const;

function Navigation() {
  return (
    <Flex as="nav" aria-label="Benchmarks" gap={4} mb={4} wrap="wrap" borderBottomWidth="1px">
      {TABS.map(([name, to]) => (
        <NavLink key={to} to={to} end>
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
      <Flex gap={4} py={1}>
        <PlainLink path={rendered.alerts()}>Alerts</PlainLink>
        <PlainLink path={rendered.trust()}>Trust</PlainLink>
      </Flex>
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
          <Route path="runs" element={<Runs />} />
          <Route path="runs/:runId" element={<RunPage />} />
          <Route path="*" element={<Note status="warning">There is no such page.</Note>} />
        </Routes>
      </Box>
    </Boundary>
  );
}
