// Heap blocks by size and by lifetime.

import { bar, element } from "./dom.js";
import { bytes, grouped, seconds } from "./format.js";

/** The view. */
export class Histograms {
  constructor({ histograms }) {
    this.element = element(
      "div",
      { class: "histograms" },
      histograms && [
        table("Heap blocks by size", "size", histograms.sizes.map(named(bytes))),
        table("Heap blocks by lifetime", "live for", [
          ...histograms.lifetimes.map(named((time) => seconds(time / 1e9))),
          {
            name: "not released",
            blocks: histograms.unreleased_blocks,
            bytes: histograms.unreleased_bytes,
          },
        ]),
      ],
    );
  }

  /** All of it is there: it is of the whole recording. */
  draw() {}
}

const named =
  (worded) =>
  ({ from, to, ...of }) => ({
    ...of,
    from,
    name: to === null ? `${worded(from)} and more` : `${worded(from)} to below ${worded(to)}`,
  });

function table(title, of, bins) {
  const most = Math.max(1, ...bins.map(({ blocks }) => blocks));
  const heads = [of, "blocks", "bytes"].map((head, at) =>
    element("th", { scope: "col", class: at ? "number" : "" }, head),
  );
  const row = ({ name, from, blocks, bytes: sum }) =>
    element(
      "tr",
      { "data-from": from, "data-blocks": blocks, "data-bytes": sum },
      element("td", {}, name),
      element("td", { class: "number share" }, bar(blocks / most), grouped(blocks)),
      element("td", { class: "number" }, bytes(sum)),
    );
  const box = { class: "table-box", tabindex: 0, role: "region", "aria-label": title };
  return element(
    "div",
    box,
    element(
      "table",
      {},
      element("caption", {}, title),
      element("thead", {}, element("tr", {}, heads)),
      element("tbody", {}, bins.map(row)),
    ),
  );
}
