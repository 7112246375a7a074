// A published table as bars: published values, and measured ones next to them.
import { Box, Heading, Text } from "@chakra-ui/react";

import type { PublishedCell } from "./api-types";
import { type Panel, panels } from "./figure-cells";
import { figure } from "./format";

function Value({ value, highest, colour }: { value: number; highest: number; colour: string }) {
  return (
    <Box display="flex" gap={2} alignItems="center" lineHeight="1.2">
      <Box flex="1" minW="0">
        <Box bg={colour} h="0.7em" borderRadius="sm" minW="1px" w={`${(100 * value) / highest}%`} />
      </Box>
      <Text as="span" fontSize="xs" w="5.5em" textAlign="end" fontVariantNumeric="tabular-nums">
        {figure(value)}
      </Text>
    </Box>
  );
}

function Bars({ panel }: { panel: Panel }) {
  return (
    <Box as="figure" m={0} aria-label={`${panel.title} by ${panel.axis}`}>
      <Heading as="h3" size="sm" mb={1}>
        {panel.title}, by {panel.axis}
      </Heading>
      {panel.groups.map(({ x, bars }) => (
        <Box key={x} mb={2}>
          <Text fontSize="sm" fontWeight="semibold">
            {x}
          </Text>
          {bars.map((bar) => (
            <Box
              key={bar.key}
              display="grid"
              gridTemplateColumns="minmax(6em, 35%) 1fr"
              columnGap={2}
              alignItems="center"
            >
              <Text fontSize="xs" color="fg.muted" overflowWrap="anywhere">
                {bar.label}
              </Text>
              <Box>
                {bar.published === null ? (
                  <Text fontSize="xs" color="fg.muted">
                    empty
                  </Text>
                ) : (
                  <Value value={bar.published} highest={panel.highest} colour="gray.solid" />
                )}
                {bar.ours !== null && (
                  <Value value={bar.ours} highest={panel.highest} colour="blue.solid" />
                )}
              </Box>
            </Box>
          ))}
        </Box>
      ))}
    </Box>
  );
}

export function PublishedFigure({ cells }: { cells: PublishedCell[] }) {
  const found = panels(cells);
  if (!found.length) return null;
  return (
    <Box mb={4}>
      <Text color="fg.muted" fontSize="sm" mb={2}>
        Grey: published. Blue: measured, if a series matches the cell.
      </Text>
      <Box
        display="grid"
        gap={6}
        gridTemplateColumns="repeat(auto-fit, minmax(min(100%, 26em), 1fr))"
      >
        {found.map((panel) => (
          <Bars key={panel.title} panel={panel} />
        ))}
      </Box>
    </Box>
  );
}
