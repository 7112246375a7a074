// Bundles src/ into one ES module for Airflow's UI: node build.mjs OUTPUT.
// The same sources and lock give the same bytes, which CI compares with what is committed.
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

await build({
  entryPoints: ["src/index.tsx"],
  outfile: process.argv[2],
  bundle: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  minify: true,
  charset: "utf8",
  legalComments: "inline",
  loader: { ".css": "text" },
  plugins: [hostLibraries],
  logLevel: "warning",
});
