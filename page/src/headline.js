// The first sentence: how large the peak was, in which operator, at which line, against which limit.

import { byId, element } from "./dom.js";
import { bytes, grouped, percent, seconds } from "./format.js";

/** Writes it. */
export function headline(data) {
  const { headline: told, notes } = data;
  const { peak, place } = told;
  const strong = (text, title) => element("strong", { title }, text);
  const first = element(
    "p",
    { class: "peak" },
    strong(bytes(peak.live_bytes), `${grouped(peak.live_bytes)} bytes`),
    ` live at the peak, ${seconds(peak.seconds)} after the start`,
    told.operator && [", in ", strong(told.operator)],
    processAtPeak(data),
    ".",
  );
  const second =
    place &&
    element(
      "p",
      { class: "place-line" },
      strong(percent(place.bytes, peak.live_bytes)),
      ` of it (${place.estimated_bytes > place.bytes / 20 ? "~" : ""}${bytes(place.bytes)}) at `,
      strong(place.place, place.file ?? undefined),
      sourceOf(data, place),
    );
  const resident = Math.max(peak.resident_sum_bytes, peak.resident_bytes);
  const facts = [
    resident > 0 && `resident ${bytes(resident)}`,
    resident > 0 &&
      told.limit &&
      `${percent(resident, told.limit[1])} of the limit of ${bytes(told.limit[1])} (${told.limit[0]})`,
    peak.device_used_bytes !== null && `on devices ${bytes(peak.device_used_bytes)} used`,
    peak.gc_independent_bytes !== null &&
      `without garbage ${bytes(peak.gc_independent_bytes)} to ${bytes(peak.gc_independent_upper_bytes)}`,
    told.killed > 0 && `${told.killed} processes killed for lack of memory`,
    told.exit === null ? "not seen to end" : `exit status ${told.exit}`,
    `${seconds(told.seconds)} on ${told.host}, ${new Date(told.start_unix_ms).toISOString().slice(0, 16).replace("T", " ")} UTC`,
  ].filter(Boolean);
  const more =
    notes.length > 0 &&
    element(
      "details",
      { class: "notes" },
      element("summary", {}, `${notes.length} ${notes.length === 1 ? "note" : "notes"}`),
      element(
        "ul",
        {},
        notes.map((note) => element("li", {}, note)),
      ),
    );
  const command = element(
    "h1",
    {},
    element("span", { class: "brand" }, "memtrace"),
    element("code", {}, told.command),
  );
  byId("headline").replaceChildren(
    command,
    first,
    ...[second, element("p", { class: "facts" }, facts.join(" · "), more || "")].filter(Boolean),
  );
}

function processAtPeak(data) {
  const { curves, times } = data.timeline;
  if (curves.length < 2) return null;
  const at = Math.max(
    0,
    times.findIndex((time) => time >= data.headline.peak_ns),
  );
  const live = curves.map((curve) => curve.heap[at] + curve.touched[at]);
  // The last curve may be that of all other processes together, which is none of them.
  const own = live.map((bytes, place) => (curves[place].process === null ? 0 : bytes));
  const largest = own.indexOf(Math.max(...own));
  const pid = curves[largest].name.split(" ")[0];
  const share = percent(
    live[largest],
    live.reduce((sum, bytes) => sum + bytes, 0),
  );
  return [`; pid ${pid} had ${share}`];
}

function sourceOf(data, place) {
  const file = place.file && data.strings.indexOf(place.file);
  const text = file > 0 && data.text(file, place.line);
  return text ? element("code", { class: "source-line" }, text.trim()) : null;
}
