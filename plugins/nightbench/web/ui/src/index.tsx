// Airflow's UI imports this module and looks for the components under these names, which are
// those of `react_apps` in nightbench_plugin.py. What they show lies in chunks beside it.
import { matchPath } from "react-router-dom";

import { NewsCard } from "./news-card";
import { PAGES, Pages } from "./pages";
import { ResultsTab } from "./tabs";

// The page of the address is here before Airflow shows anything of ours, and asks the API at once.
const base = new URL(document.baseURI).pathname.replace(/\/$/, "");
const asked = PAGES.find(([pattern]) => matchPath(base + pattern, window.location.pathname));
await asked?.[1].load().catch(() => undefined);

Object.assign(globalThis, {
  Benchmarks: Pages,
  Results: ResultsTab,
  "Benchmark news": NewsCard,
});
