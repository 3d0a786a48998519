// Memory over time: a stack of live bytes, lines of what is resident and mapped, operators as lanes, and a
// brush that selects a stretch of time.

import uPlot from "uplot";
import { courses, live } from "./courses.js";
import { announce, colour, element } from "./dom.js";
import { filterOf } from "./filter.js";
import { bytes, seconds } from "./format.js";
import { Lanes } from "./lanes.js";
import { rangeOf } from "./times.js";

const HEIGHT = 170;
const LINES = ["resident", "mapped", "device"];

/** The plot and the lanes below it. */
export class Timeline {
  #plot = null;
  #box = element("div", { class: "plot" });
  #slider;
  #legend = element("div", { class: "legend" });
  #processes;
  #byProcess = false;

  constructor(parent, data, selection) {
    this.data = data;
    this.selection = selection;
    this.times = data.timeline.times.map((time) => time / 1e9);
    this.lanes = new Lanes(data, selection);
    this.#slider = element("div", {
      class: "brush",
      role: "slider",
      tabindex: 0,
      "aria-label":
        "Selected time: arrow keys move it, with Shift they change its end, Escape selects all",
      "aria-valuemin": 0,
      "aria-valuemax": this.times.length - 1,
      on: { keydown: (event) => this.#key(event) },
    });
    this.#processes = element(
      "button",
      { type: "button", "aria-pressed": "false", on: { click: () => this.#toggle() } },
      "By process",
    );
    parent.append(
      element("div", { class: "bar-above" }, this.#legend, this.#processes),
      this.#slider,
      this.lanes.element,
    );
    this.#slider.append(this.#box);
    selection.follow((changed) => {
      const has = (...names) => changed.some((name) => names.includes(name));
      if (has("process", "thread", "operator")) this.draw();
      else if (has("from", "to")) this.#mark();
    });
  }

  /** Draws it at the width that there is. */
  draw() {
    this.#plot?.destroy();
    const filter = filterOf(this.data, this.selection);
    const stack = this.#byProcess && !filter ? byProcess(this.data) : byKind(this.data, filter);
    const lines = linesOf(this.data, filter);
    this.#processes.hidden = filter !== null || this.data.timeline.curves.length < 2;
    // The top of the stack is drawn first, and what is below covers it.
    const sums = stack
      .map((_, at) =>
        this.times.map((_, time) =>
          stack.slice(0, at + 1).reduce((sum, part) => sum + part.values[time], 0),
        ),
      )
      .reverse();
    const named = stack.slice().reverse();
    const series = [
      {},
      ...named.map((part) => ({
        label: part.name,
        fill: part.colour,
        stroke: part.colour,
        width: 0,
        points: { show: false },
      })),
      ...lines.map((line) => ({
        label: line.name,
        stroke: line.colour,
        width: 1.5,
        dash: line.dash,
        spanGaps: true,
        points: { show: false },
      })),
    ];
    const axis = {
      stroke: colour("faint-ink"),
      grid: { stroke: colour("rule"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    const width = this.#slider.clientWidth || 600;
    this.#plot = new uPlot(
      {
        width,
        height: HEIGHT,
        series,
        padding: [8, 8, 0, 0],
        legend: { show: false },
        scales: {
          x: { time: false, range: [0, this.times[this.times.length - 1]] },
          y: { range: (_, __, most) => [0, most * 1.08 || 1] },
        },
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
        axes: [
          {
            ...axis,
            size: 22,
            gap: 2,
            values: (_, ticks) =>
              ticks.map((tick) => clock(tick, this.times[this.times.length - 1])),
          },
          {
            ...axis,
            size: 64,
            gap: 4,
            values: (_, ticks) => ticks.map((tick) => (tick === 0 ? "0" : bytes(tick))),
          },
        ],
        hooks: {
          ready: [(plot) => this.#placed(plot)],
          draw: [(plot) => this.#decorate(plot)],
          setSelect: [(plot) => this.#brushed(plot)],
          setCursor: [(plot) => this.#values(plot.cursor.idx, stack, lines)],
        },
      },
      [this.times, ...sums, ...lines.map((line) => line.values)],
      this.#box,
    );
    this.#values(null, stack, lines);
  }

  /** The plot knows where its axes are. */
  #placed(plot) {
    this.#plot = plot;
    this.#mark();
    const { left, width } = plot.over.getBoundingClientRect();
    this.lanes.draw(
      left - this.#slider.getBoundingClientRect().left,
      width,
      this.times[this.times.length - 1],
    );
  }

  #toggle() {
    this.#byProcess = !this.#byProcess;
    this.#processes.setAttribute("aria-pressed", this.#byProcess);
    this.draw();
  }

  /** The names of what is drawn, with its bytes under the cursor, else at the peak. */
  #values(place, stack, lines) {
    const { peak_ns: peak } = this.data.headline;
    const at = place ?? this.data.timeline.times.findIndex((time) => time >= peak);
    const entry = ({ name, colour, values, dash }) => {
      const swatch = element("span", {
        class: dash === undefined ? "swatch" : "swatch stroke",
        "aria-hidden": "true",
      });
      swatch.style.background = colour;
      const value = values[at] ?? null;
      return element(
        "span",
        { class: "entry", "data-name": name, "data-bytes": value ?? undefined },
        swatch,
        `${name} `,
        element("b", {}, value === null ? "–" : bytes(value)),
      );
    };
    const when = element(
      "span",
      { class: "when" },
      place === null ? "at the peak" : `at ${seconds(this.times[at])}`,
    );
    this.#legend.replaceChildren(when, ...stack.map(entry), ...lines.map(entry));
  }

  #decorate(plot) {
    const { headline } = this.data;
    const { ctx, bbox } = plot;
    const ratio = window.devicePixelRatio || 1;
    const { gc_independent_bytes: lower, gc_independent_upper_bytes: upper } = headline.peak;
    ctx.save();
    if (lower !== null) {
      const [top, bottom] = [plot.valToPos(upper, "y", true), plot.valToPos(lower, "y", true)];
      ctx.globalAlpha = 0.25;
      ctx.fillStyle = colour("native");
      ctx.fillRect(bbox.left, top, bbox.width, Math.max(ratio, bottom - top));
      ctx.globalAlpha = 1;
    }
    const x = plot.valToPos(headline.peak_ns / 1e9, "x", true);
    const y = plot.valToPos(headline.peak.live_bytes, "y", true);
    ctx.strokeStyle = ctx.fillStyle = colour("ink");
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.beginPath();
    ctx.arc(x, y, 3.5 * ratio, 0, 2 * Math.PI);
    ctx.fill();
    ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
    const label = `peak ${bytes(headline.peak.live_bytes)}`;
    const isRight = x + 10 * ratio + ctx.measureText(label).width > bbox.left + bbox.width;
    ctx.textAlign = isRight ? "right" : "left";
    ctx.fillText(
      label,
      x + (isRight ? -7 : 7) * ratio,
      Math.max(y - 4 * ratio, bbox.top + 9 * ratio),
    );
    ctx.restore();
  }

  #brushed(plot) {
    const { left, width } = plot.select;
    if (width < 2) return this.#select(null);
    const limit = this.times[this.times.length - 1];
    const at = (x) => Math.max(0, Math.min(limit, plot.posToVal(x, "x")));
    this.#select([at(left), at(left + width)]);
  }

  #select(range) {
    const measure = this.selection.get("measure");
    const isOfTime = measure === "largest" || measure === "growth";
    if (range) {
      const [from, to] = range.map((time) => time.toFixed(6));
      this.selection.set({
        from,
        to,
        measure: isOfTime || !this.data.moments ? measure : "largest",
        zoom: "",
      });
    } else this.selection.set({ from: "", to: "", measure: isOfTime ? "peak" : measure, zoom: "" });
  }

  /** Shows what is selected. */
  #mark() {
    if (!this.#plot) return;
    const range = rangeOf(this.data, this.selection);
    const [from, to] = range
      ? range.map((place) => this.#plot.valToPos(this.times[place], "x"))
      : [0, 0];
    this.#plot.setSelect(
      {
        left: from,
        width: range ? Math.max(2, to - from) : 0,
        top: 0,
        height: this.#plot.over.clientHeight,
      },
      false,
    );
    this.#slider.setAttribute("aria-valuenow", range ? range[0] : 0);
    const text = range
      ? `${seconds(this.times[range[0]])} to ${seconds(this.times[range[1]])}`
      : "all of the time";
    this.#slider.setAttribute("aria-valuetext", text);
    this.lanes.mark(
      range?.map((place) => this.times[place]),
      filterOf(this.data, this.selection),
    );
  }

  #key(event) {
    const last = this.times.length - 1;
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    let [from, to] = rangeOf(this.data, this.selection) ?? [0, Math.max(1, Math.round(last / 10))];
    if (event.key === "Escape") this.#select(null);
    else if (event.key === "Home") [from, to] = [0, to - from];
    else if (event.key === "End") [from, to] = [last - (to - from), last];
    else if (!step) return;
    else if (event.shiftKey) to = Math.max(from, Math.min(last, to + step));
    else if (from + step >= 0 && to + step <= last) [from, to] = [from + step, to + step];
    event.preventDefault();
    if (event.key === "Escape") return;
    this.#select([this.times[from], this.times[to]]);
    announce(this.#slider.getAttribute("aria-valuetext"));
  }
}

/** A time on the axis, in the unit of its end. */
function clock(time, end) {
  if (time === 0) return "0";
  return end >= 1 ? `${Number(time.toFixed(3))} s` : `${Number((time * 1e3).toFixed(3))} ms`;
}

const added = ({ times }, curves, key) =>
  times.map((_, at) => {
    const known = curves.map((curve) => curve[key][at]).filter((value) => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
  });

function byKind(data, filter) {
  const { heap, touched } = courses(data, filter);
  return [
    { name: "heap", colour: colour("stack-heap"), values: heap },
    { name: "touched mappings", colour: colour("stack-touched"), values: touched },
  ];
}

function byProcess(data) {
  return data.timeline.curves.map((curve, at) => ({
    name:
      curve.name.split(" ")[0] === "all"
        ? `${data.timeline.others} others`
        : `pid ${curve.name.split(" ")[0]}`,
    colour: colour(`process-${at % 6}`),
    values: curve.heap.map((heap, time) => heap + curve.touched[time]),
  }));
}

/** Of a thread or an operator only live bytes are known; those of everything are beside them. */
function linesOf(data, filter) {
  const dashes = { resident: [], mapped: [2, 3], device: [6, 3] };
  const { curves } = data.timeline;
  const chosen = filter ? (filter.curve === null ? [] : [curves[filter.curve]]) : curves;
  const lines = LINES.filter(() => chosen.length > 0).map((key) => ({
    name: key,
    colour: colour(`line-${key}`),
    dash: dashes[key],
    values: added(data.timeline, chosen, key),
  }));
  const all = { name: "all live", colour: colour("faint-ink"), dash: [], values: live(data, null) };
  return [
    ...(filter ? [all] : []),
    ...lines.filter(({ name, values }) => name !== "device" || values.some((value) => value > 0)),
  ];
}
