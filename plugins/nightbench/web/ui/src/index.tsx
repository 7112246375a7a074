// Airflow's UI imports this module and looks for the components under these names, which are
// those of `react_apps` in nightbench_plugin.py.
import { NewsCard } from "./news-card";
import { Pages } from "./pages";
import { DagTab, RunTab, TaskTab } from "./tabs";

Object.assign(globalThis, {
  Benchmarks: Pages,
  "Benchmark runs": DagTab,
  Results: RunTab,
  "Case results": TaskTab,
  "Benchmark news": NewsCard,
});
