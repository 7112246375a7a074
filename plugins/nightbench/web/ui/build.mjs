// Bundles src/ for Airflow's UI, which imports nightbench.js: node build.mjs FOLDER. Pages are chunks
// beside it, each named by the hash of its content. The same sources and lock give the same bytes,
// which CI compares with what is committed.
import { build } from "esbuild";

// Airflow's UI offers these libraries as globals; a copy of our own would be a second React.
const HOST = {
  react: "React",
  "react/jsx-runtime": "ReactJSXRuntime",
  "react-router-dom": "ReactRouterDOM",
  "@chakra-ui/react": "ChakraUI",
};

const hostLibraries = {
  name: "host-libraries",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /.*/ }, ({ path }) =>
      Object.hasOwn(HOST, path) ? { path, namespace: "host" } : undefined,
    );
    onLoad({ filter: /.*/, namespace: "host" }, ({ path }) => ({
      contents: `module.exports = globalThis.${HOST[path]};`,
    }));
  },
};

const common = {
  outdir: process.argv[2],
  bundle: true,
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "inline",
  loader: { ".css": "text" },
  logLevel: "warning",
};

await build({
  ...common,
  entryPoints: { nightbench: "src/index.tsx" },
  chunkNames: "[name]-[hash]",
  splitting: true,
  format: "esm",
  jsx: "automatic",
  plugins: [hostLibraries],
});

// The script of `nightbench publish` is a single file: a browser loads no module from file://.
await build({ ...common, entryPoints: { site: "src/site.ts" }, format: "iife" });
