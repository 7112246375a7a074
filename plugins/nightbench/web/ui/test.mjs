// Bundles the tests for Node.js, whose own runner runs them: node test.mjs OUTPUT.
import { build } from "esbuild";

await build({
  entryPoints: ["tests/pure.test.ts"],
  outfile: process.argv[2],
  bundle: true,
  format: "esm",
  platform: "node",
  logLevel: "warning",
});
