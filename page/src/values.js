// Bytes by call stack for what is selected: a measure of the trace, or a stretch of time.

/** Values by site, and what they are. */
export function values(data, selection) {
  const key = selection.get("measure");
  const range = rangeOf(data, selection);
  if (range && data.moments && (key === "largest" || key === "growth")) {
    return key === "largest" ? atLargest(data, range) : grown(data, range);
  }
  return ofMeasure(
    data,
    data.measures.find((measure) => keyOf(measure) === key) ?? data.measures[0],
  );
}

/** What a measure is called in the selection. */
export const keyOf = (measure) => (measure.operator ? `span:${measure.operator}` : measure.key);

/** First and last of the times that are selected, by their places; null if none are. */
export function rangeOf(data, selection) {
  const [from, to] = [Number(selection.get("from")), Number(selection.get("to"))];
  if (selection.get("to") === "" || !(to >= from)) return null;
  return [placeOf(data, from * 1e9), placeOf(data, to * 1e9)];
}

/** The place of the time nearest to this one. */
export function placeOf(data, time) {
  const { times } = data.timeline;
  let after = times.findIndex((each) => each >= time);
  if (after < 0) after = times.length - 1;
  return after > 0 && time - times[after - 1] < times[after] - time ? after - 1 : after;
}

/** Live bytes at one of the times, over all processes. */
export function liveAt(data, place) {
  return data.timeline.curves.reduce(
    (sum, curve) => sum + curve.heap[place] + curve.touched[place],
    0,
  );
}

function ofMeasure(data, measure) {
  const bySite = new Float64Array(data.unknown + 2);
  if (!measure)
    return { key: "none", what: "nothing was recorded", unit: "bytes", total: 0, bySite };
  measure.site.forEach((site, index) => (bySite[site] = measure.value[index]));
  bySite[data.unknown] = measure.unknown;
  return { ...measure, key: keyOf(measure), bySite };
}

function atLargest(data, [from, to]) {
  let place = from;
  for (let each = from; each <= to; each++)
    if (liveAt(data, each) > liveAt(data, place)) place = each;
  const bySite = at(data, place);
  const total = bySite.reduce((sum, value) => sum + value, 0);
  return {
    key: "largest",
    what: "live at the largest moment of the selected time",
    unit: "bytes",
    time: data.timeline.times[place],
    total,
    bySite,
  };
}

function grown(data, [from, to]) {
  const [before, bySite] = [at(data, from), at(data, to)];
  let released = 0;
  bySite.forEach((value, site) => {
    const change = value - before[site];
    if (change < 0) released -= change;
    bySite[site] = Math.max(0, change);
  });
  const total = bySite.reduce((sum, value) => sum + value, 0);
  const { times } = data.timeline;
  return {
    key: "growth",
    range: [times[from], times[to]],
    what: "more at the end of the selected time than at its start",
    unit: "bytes",
    total,
    released,
    bySite,
  };
}

/** Live bytes by site at one of the times: what sampled blocks stand for is scaled to what is left of the heap. */
export function at(data, place) {
  const { moments, timeline, unknown } = data;
  const [exact, sampled, mapped] = [0, 1, 2].map(() => new Float64Array(unknown));
  for (let row = 0; row < moments.time.length && moments.time[row] <= place; row++) {
    const site = moments.site[row];
    exact[site] += moments.exact[row];
    sampled[site] += moments.sampled[row];
    mapped[site] += moments.mapped[row];
  }
  const of = (key) => timeline.curves.reduce((sum, curve) => sum + curve[key][place], 0);
  const [heap, touched, large] = [of("heap"), of("touched"), of("large")];
  const known = Math.min(sum(exact), heap);
  const [left, stands, parts] = [heap - known, sum(sampled), new Float64Array(unknown + 2)];
  const up = stands >= Math.max(1, moments.enough) && stands >= Math.floor(left / 2);
  inProportion(exact, known, parts);
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
