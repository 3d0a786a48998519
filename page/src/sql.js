// What the page shows of a line, as a query of the trace for DuckDB.

const HEAP = "('malloc', 'calloc', 'realloc', 'aligned')";
const MAPPINGS = "('map_anonymous', 'map_shared', 'map_committed', 'map_break')";

const both = `${HEAP.slice(0, -1)}, ${MAPPINGS.slice(1)}`;

const liveAt = (time) => `alloc_ns <= ${time} AND (free_ns IS NULL OR free_ns > ${time})`;

const quoted = (text) => `'${text.replaceAll("'", "''")}'`;

/** The query of a line's call stacks. */
export function sqlOf({ trace }, { key, time, span, range, filter }, { label, sites }) {
  const table = (name) => quoted(`${trace.path}/${name}`);
  const of = [`site IN (${sites.join(", ")})`, ...conditions(filter)].join("\n  AND ");
  const comment = `-- ${label.replaceAll("\n", " ")}\n`;
  const columns = {
    peak: "live_bytes_at_peak",
    end: "live_bytes_at_end",
    device: "device_bytes_at_peak",
    untouched: "untouched_bytes",
  };
  if (columns[key] && !filter) {
    return `${comment}SELECT sum(${columns[key]}) AS bytes\nFROM ${table("sites.parquet")}\nWHERE ${of};`;
  }
  const from = `FROM ${table("allocations/*.parquet")}\nWHERE ${of}`;
  if (key === "temporary") {
    return `${comment}SELECT count(*) AS blocks, sum(bytes) AS bytes\n${from}\n  AND kind IN ${HEAP}\n  AND free_ns - alloc_ns <= 10000;`;
  }
  if (span !== undefined && span !== null) {
    return `${comment}${insideOf(`SELECT ${span}::UINTEGER`, table)}SELECT sum(bytes) AS bytes, count(*) AS blocks\n${from}\n  AND span IN (SELECT span FROM inside)\n  AND ${liveAt(time)}\n  AND kind IN ${both};`;
  }
  const inside = filter?.operator ? insideOf(callsOf(filter.span, table), table) : "";
  const counts = `(kind IN ${HEAP} OR kind IN ${MAPPINGS} AND bytes <= 1048576)`;
  if (range) {
    const part = (at) => `coalesce(sum(bytes) FILTER (${liveAt(at)}), 0)`;
    const grown = `SELECT ${part(range[1])} - ${part(range[0])} AS bytes\n${from}\n  AND ${counts}\nGROUP BY site`;
    return `${comment}${inside}SELECT coalesce(sum(greatest(bytes, 0)), 0) AS bytes\nFROM (\n${grown}\n);`;
  }
  return `${comment}${inside}SELECT sum(bytes) AS bytes, count(*) AS blocks\n${from}\n  AND ${liveAt(time)}\n  AND ${counts};`;
}

/** What blocks of the selected process, thread and operator have in common. */
function conditions(filter) {
  if (!filter) return [];
  const { process, thread, operator } = filter;
  return [
    process !== null && `process = ${process}`,
    thread !== null && `thread = ${thread}`,
    operator !== null && "span IN (SELECT span FROM inside)",
  ].filter(Boolean);
}

/** Calls of the operator of a span: its name may be cut on the page, or hold what cannot be seen. */
const callsOf = (span, table) =>
  `SELECT span FROM ${table("spans.parquet")} WHERE operator = (SELECT operator FROM ${table("spans.parquet")} WHERE span = ${span})`;

/** Spans, and those further inside, as a table. */
const insideOf = (spans, table) =>
  `WITH RECURSIVE inside(span) AS (\n  ${spans}\n  UNION SELECT s.span FROM ${table("spans.parquet")} s JOIN inside i ON s.parent = i.span\n)\n`;
