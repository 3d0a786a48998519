// Bytes by call stack for what is selected: a measure of the trace, or a stretch of time, of everything or of
// one process, thread or operator.

import { courses, live } from "./courses.js";
import { filterOf } from "./filter.js";
import { placeOf, rangeOf } from "./times.js";

/** Values by site, and what they are. */
export function values(data, selection) {
  const key = selection.get("measure");
  const [range, filter] = [rangeOf(data, selection), filterOf(data, selection)];
  if (range && data.moments && (key === "largest" || key === "growth")) {
    return key === "largest" ? atLargest(data, range, filter) : grown(data, range, filter);
  }
  const known = measuresOf(data, filter);
  const measure = known.find((measure) => keyOf(measure) === key) ?? known[0];
  return filter && measure?.key === "peak" ? atPeak(data, filter) : ofMeasure(data, measure);
}

/** The measures that there are of what is selected: most are of the whole recording. */
export function measuresOf(data, filter) {
  if (!filter) return data.measures;
  const isOfOperator =
    filter.operator !== null && filter.process === null && filter.thread === null;
  return data.measures.filter(
    ({ key, operator }) =>
      key === "peak" || (key === "span" && isOfOperator && operator === filter.operator),
  );
}

/** What a measure is called in the selection. */
export const keyOf = (measure) => (measure.operator ? `span:${measure.operator}` : measure.key);

function ofMeasure(data, measure) {
  const bySite = new Float64Array(data.unknown + 2);
  if (!measure)
    return { key: "none", what: "nothing was recorded", unit: "bytes", total: 0, bySite };
  measure.site.forEach((site, index) => (bySite[site] = measure.value[index]));
  bySite[data.unknown] = measure.unknown;
  return { ...measure, key: keyOf(measure), bySite };
}

function atPeak(data, filter) {
  const place = placeOf(data, data.headline.peak_ns);
  return atTime(data, place, filter, { key: "peak", what: "live at the peak" });
}

function atLargest(data, [from, to], filter) {
  const bytes = live(data, filter);
  let place = from;
  for (let each = from; each <= to; each++) if (bytes[each] > bytes[place]) place = each;
  const what = "live at the largest moment of the selected time";
  return atTime(data, place, filter, { key: "largest", what });
}

function atTime(data, place, filter, { key, what }) {
  const bySite = at(data, place, filter);
  return {
    key,
    filter,
    what: worded(what, filter),
    unit: "bytes",
    time: data.timeline.times[place],
    total: sum(bySite),
    bySite,
  };
}

/** What it is, and whose. */
const worded = (what, filter) => [what, ...(filter?.words ?? [])].join(", ");

function grown(data, [from, to], filter) {
  const [before, bySite] = [at(data, from, filter), at(data, to, filter)];
  let released = 0;
  bySite.forEach((value, site) => {
    const change = value - before[site];
    if (change < 0) released -= change;
    bySite[site] = Math.max(0, change);
  });
  const { times } = data.timeline;
  return {
    key: "growth",
    filter,
    range: [times[from], times[to]],
    what: worded("more at the end of the selected time than at its start", filter),
    unit: "bytes",
    total: sum(bySite),
    released,
    bySite,
  };
}

/** Live bytes by site at one of the times: what sampled blocks stand for is scaled to what is left of the heap. */
function at(data, place, filter) {
  const { moments, unknown } = data;
  const [exact, sampled, mapped] = [0, 1, 2].map(() => new Float64Array(unknown));
  for (let row = 0; row < moments.time.length && moments.time[row] <= place; row++) {
    if (filter && !filter.groups[moments.group[row]]) continue;
    const site = moments.site[row];
    exact[site] += moments.exact[row];
    sampled[site] += moments.sampled[row];
    mapped[site] += moments.mapped[row];
  }
  const known = courses(data, filter);
  const [heap, touched, large] = [known.heap[place], known.touched[place], known.large[place]];
  const whole = Math.min(sum(exact), heap);
  const [left, stands, parts] = [heap - whole, sum(sampled), new Float64Array(unknown + 2)];
  const up = stands >= Math.max(1, moments.enough) && stands >= Math.floor(left / 2);
  inProportion(exact, whole, parts);
  inProportion(sampled, up ? left : Math.min(stands, left), parts);
  inProportion(mapped, Math.min(sum(mapped), touched - large), parts);
  parts[unknown + 1] = large;
  parts[unknown] = heap + touched - sum(parts);
  return parts;
}

const sum = (parts) => parts.reduce((sum, part) => sum + part, 0);

/** Adds parts that come to `whole`, in the same proportions; the largest takes what rounding leaves. */
function inProportion(parts, whole, sums) {
  const before = sum(parts);
  if (before <= 0) return;
  let [given, largest, most] = [0, 0, -1];
  parts.forEach((part, site) => {
    // Products may be beyond what a double has.
    const scaled =
      before === whole ? part : Number((BigInt(part) * BigInt(whole)) / BigInt(before));
    sums[site] += scaled;
    given += scaled;
    if (scaled >= most) [largest, most] = [site, scaled];
  });
  sums[largest] += whole - given;
}
