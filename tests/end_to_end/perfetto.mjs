// Asks Perfetto's trace processor, as its page runs it: WebAssembly that takes itself to be in a worker.
//
//     node perfetto.mjs FOLDER TRACE QUERY...
//
// FOLDER has trace_processor.wasm, engine_bundle.node.js and engine.mjs. Prints the rows of each query as JSON.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { runInThisContext } from "node:vm";

const [folder, trace, ...queries] = process.argv.slice(2);

/** Gives the module what a worker has, and its own bytes instead of a download. */
function pretendToBeAWorker() {
  const url = `${pathToFileURL(resolve(folder))}/`;
  const { Module } = WebAssembly;
  Object.assign(globalThis, { self: globalThis, location: { href: url }, WorkerGlobalScope: class {} });
  globalThis.XMLHttpRequest = class {
    open(_, address) {
      this.file = join(folder, address.split("/").at(-1));
    }
    send() {
      this.response = new Uint8Array(readFileSync(this.file)).buffer;
    }
  };
  // It tries whether there is memory of 64 bits, by a module of nothing else; its own bytes are for 32.
  WebAssembly.Module = class extends Module {
    constructor(bytes) {
      if (bytes[8] === 5 && bytes[11] === 4) throw new TypeError("no memory of 64 bits");
      super(bytes);
    }
  };
}

/** The trace processor at the other end of a channel. */
async function connected() {
  const { EngineBase } = await import(pathToFileURL(resolve(folder, "engine.mjs")));
  pretendToBeAWorker();
  runInThisContext(readFileSync(join(folder, "engine_bundle.node.js"), "utf8"));
  const { port1, port2 } = new MessageChannel();
  class Engine extends EngineBase {
    mode = "WASM";
    id = "memtrace";
    rpcSendRequestBytes(bytes) {
      port2.postMessage(bytes);
    }
  }
  const engine = new Engine();
  port2.onmessage = ({ data }) => engine.onRpcResponseBytes(data);
  await new Promise(setImmediate);
  globalThis.onmessage({ data: port1 });
  return engine;
}

function rowsOf(result) {
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    rows.push(Object.fromEntries(result.columns().map((name) => [name, row.get(name)])));
  }
  return rows;
}

console.warn = (...words) => console.error(...words);
const engine = await connected();
await engine.parse(new Uint8Array(readFileSync(trace)));
await engine.notifyEof();
const answers = [];
for (const query of queries) {
  const result = await engine.query(query);
  if (result.error()) throw new Error(result.error());
  answers.push(rowsOf(result));
}
const plain = (_, value) => (typeof value === "bigint" ? Number(value) : value);
process.stdout.write(JSON.stringify(answers, plain), () => process.exit(0));
