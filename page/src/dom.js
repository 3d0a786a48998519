// Elements and their texts. Text never becomes markup.

/** An element with properties and attributes, and what is in it. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "on")
      Object.entries(value).forEach(([event, listener]) => made.addEventListener(event, listener));
    else if (name === "class") made.className = value;
    else if (value !== undefined && value !== false)
      made.setAttribute(name, value === true ? "" : value);
  }
  made.append(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false),
  );
  return made;
}

/** The element that has this id. */
export const byId = (id) => document.getElementById(id);

/** A share of a whole as a bar behind a cell. */
export function bar(share) {
  const made = element("span", { class: "bar", "aria-hidden": "true" });
  made.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return made;
}

/** Has a screen reader say something. */
export function announce(text) {
  byId("announcer").textContent = text;
}

/** A colour of the style sheet, as it is now. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** A canvas's context at the resolution of the screen, cleared. */
export function context(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const drawing = canvas.getContext("2d");
  drawing.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawing.clearRect(0, 0, width, height);
  return drawing;
}
