// Bytes over a quantity that is not time: lines and points, with a range shaded behind them.

import uPlot from "uplot";
import { colour, element } from "./dom.js";
import { bytes, grouped } from "./format.js";

const HEIGHT = 230;
const FONT = "11px system-ui, sans-serif";
/** Steps of whole numbers between ticks. */
const STEPS = [...Array(18).keys()].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power));

/** The picture. */
export class Chart {
  #plot = null;
  #box = element("div", { class: "chart", role: "img" });
  #legend = element("div", { class: "legend" });

  constructor() {
    this.element = element("div", {}, this.#legend, this.#box);
  }

  /** Draws series at the width that there is: each has a name, a colour, `points`, and a dash if it is a line. */
  draw({ over, described, series, shaded }) {
    this.#plot?.destroy();
    const shown = series.filter(({ points }) => points.length > 0);
    // A row for each point: several may be at one quantity.
    const rows = shown.flatMap(({ points }, series) =>
      points.map(([at, value]) => ({ at, value, series })),
    );
    rows.sort((a, b) => a.at - b.at);
    this.#box.setAttribute("aria-label", described);
    this.#legend.replaceChildren(
      ...shown.map(entry),
      shaded ? element("span", { class: "faint" }, shaded.words) : "",
    );
    const column = (_, own) => rows.map(({ value, series }) => (series === own ? value : null));
    this.#plot = new uPlot(
      {
        width: this.#box.clientWidth || 600,
        height: HEIGHT,
        legend: { show: false },
        padding: [8, 12, 0, 0],
        cursor: { show: false },
        scales: {
          x: { time: false },
          y: { range: (_, __, most) => [0, most * 1.08 || 1] },
        },
        axes: [
          axis({
            size: 20,
            label: over,
            labelSize: 16,
            labelFont: FONT,
            incrs: STEPS,
            values: ticked(grouped),
          }),
          axis({ size: 64, values: ticked((tick) => (tick === 0 ? "0" : bytes(tick))) }),
        ],
        series: [{}, ...shown.map(styled)],
        hooks: { drawClear: [(plot) => shaded && shade(plot, shaded.range)] },
      },
      [rows.map(({ at }) => at), ...shown.map(column)],
      this.#box,
    );
    const known = (values) => values.filter((value) => value !== null).length;
    this.#box.dataset.points = this.#plot.data.slice(1).map(known);
  }
}

const axis = (how) => ({
  stroke: colour("faint-ink"),
  grid: { stroke: colour("rule"), width: 1 },
  ticks: { show: false },
  font: FONT,
  ...how,
});

const ticked = (worded) => (_, ticks) => ticks.map(worded);

function styled({ name, colour: ink, dash }) {
  const stroke = colour(ink);
  return dash
    ? { label: name, stroke, width: 1.5, dash, spanGaps: true, points: { show: false } }
    : { label: name, stroke, paths: () => null, points: { show: true, size: 7, fill: stroke } };
}

function entry({ name, colour: ink, dash }) {
  const swatch = element("span", {
    class: dash ? "swatch stroke" : "swatch",
    "aria-hidden": "true",
  });
  swatch.style.background = colour(ink);
  return element("span", { class: "entry" }, swatch, name);
}

function shade(plot, [low, high]) {
  const [from, to] = [low, high].map((at) => plot.valToPos(at, "x", true));
  plot.ctx.save();
  plot.ctx.fillStyle = colour("panel");
  plot.ctx.fillRect(from, plot.bbox.top, Math.max(1, to - from), plot.bbox.height);
  plot.ctx.restore();
}
