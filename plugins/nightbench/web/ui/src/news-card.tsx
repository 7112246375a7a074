// The card on Airflow's dashboard that says what is new.
import { Box, Heading, Text } from "@chakra-ui/react";

import { useApi } from "./api";
import type { Morning } from "./api-types";
import { Answered, Boundary, Headline, Link } from "./parts";
import { routes } from "./routes";

export function NewsCard() {
  const answer = useApi<Morning>("morning");
  return (
    <Boundary>
      <Box as="section" aria-label="Benchmarks" borderWidth="1px" borderRadius="md" p={4} order={2}>
        <Heading as="h2" size="md" mb={1}>
          <Link to={routes.morning()}>Benchmarks</Link>
        </Heading>
        <Answered answer={answer}>
          {(morning) =>
            morning.is_empty ? <Text>There are no results yet.</Text> : <Headline morning={morning} />
          }
        </Answered>
      </Box>
    </Boundary>
  );
}
