// Joins everything into built/page.html, which memtrace carries: scripts/page runs this.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const OPTIONS = {
  bundle: true,
  minify: true,
  write: false,
  legalComments: "none",
  charset: "utf8",
};
const TARGET = ["chrome103", "firefox113", "safari16.4"]; // the first with DecompressionStream, or nearly

async function bundled(entry) {
  const done = await build({ ...OPTIONS, entryPoints: [entry], format: "iife", target: TARGET });
  return done.outputFiles[0].text.trim();
}

const sha256 = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const [script, style] = [await bundled("src/main.js"), await bundled("src/page.css")];
if (/<\/(script|style)/i.test(script + style))
  throw new Error("an end tag inside a script or style");
const policy = [
  "default-src 'none'",
  `script-src ${sha256(script)}`,
  `style-src ${sha256(style)}`,
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const { version } = JSON.parse(readFileSync("node_modules/uplot/package.json", "utf8"));
const licences = `uPlot ${version}\n\n${readFileSync("node_modules/uplot/LICENSE", "utf8").trim()}\n`;
if (licences.includes("--")) throw new Error("a licence that would end its comment");
const parts = { licences, policy, style, script };
let page = readFileSync("src/page.html", "utf8");
for (const [name, part] of Object.entries(parts)) {
  const [before, after, ...more] = page.split(`{{${name}}}`);
  if (after === undefined || more.length)
    throw new Error(`src/page.html has no one place for ${name}`);
  page = before + part + after;
}
mkdirSync("built", { recursive: true });
writeFileSync("built/page.html", page);
writeFileSync("built/LICENSES.txt", licences);
console.log(`built/page.html: ${(page.length / 1000).toFixed(0)} kB`);
