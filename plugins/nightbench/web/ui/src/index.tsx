// Airflow's UI imports this module and looks for the components under these names, which are
// those of `react_apps` in nightbench_plugin.py.
import { NewsCard } from "./news-card";
import { Pages } from "./pages";
import { ResultsTab } from "./tabs";

Object.assign(globalThis, {
  Benchmarks: Pages,
  Results: ResultsTab,
  "Benchmark news": NewsCard,
});
