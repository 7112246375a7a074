// Airflow's UI imports this module and looks for the components under these names, which are
// those of `react_apps` in nightbench_plugin.py.
import { NewsCard } from "./news-card";
import { Pages } from "./pages";
import { RunTab } from "./run";

Object.assign(globalThis, {
  Benchmarks: Pages,
  Results: RunTab,
  "Benchmark news": NewsCard,
});
