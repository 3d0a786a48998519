// The page: reads its data, and shows it.

import { byId, element } from "./dom.js";
import { load } from "./data.js";
import { headline } from "./headline.js";
import { selection } from "./selection.js";
import { Timeline } from "./timeline.js";
import { Views } from "./views.js";

async function main() {
  const data = await load(byId("data").textContent);
  const selected = selection();
  headline(data);
  const timeline = new Timeline(byId("timeline"), data, selected);
  const views = new Views(byId("views"), data, selected);
  const draw = () => {
    timeline.draw();
    views.draw();
  };
  draw();
  let waiting = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(draw);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.documentElement.dataset.ready = "yes";
}

main().catch((error) => {
  byId("headline").append(
    element(
      "p",
      { class: "wrong" },
      `The page cannot show its data: ${error.message}. A newer browser may.`,
    ),
  );
});
