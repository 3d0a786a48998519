// Figures and names as people read them.

const UNITS = ["kB", "MB", "GB", "TB", "PB", "EB"];

/** Bytes: three digits and a unit, powers of 1000. */
export function bytes(count) {
  let [value, unit] = [Math.abs(count), "B"];
  for (const next of UNITS) {
    if (value < 999.5) break;
    [value, unit] = [value / 1000, next];
  }
  const digits = unit === "B" || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${count < 0 ? "−" : ""}${value.toFixed(digits)} ${unit}`;
}

/** A whole number with its thousands apart. */
export const grouped = (count) =>
  String(typeof count === "bigint" ? count : Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ",");

/** What a measure counts. */
export const amount = (count, unit) => (unit === "bytes" ? bytes(count) : grouped(count));

/** A part of a whole. */
export function percent(part, whole) {
  const share = whole > 0 ? (100 * part) / whole : 0;
  return `${share.toFixed(share >= 99.95 || share === 0 ? 0 : 1)} %`;
}

/** A length of time. */
export function seconds(value) {
  if (value >= 100) return `${value.toFixed(0)} s`;
  if (value >= 1) return `${value.toFixed(2)} s`;
  return value >= 1e-3
    ? `${(value * 1e3).toFixed(value >= 0.1 ? 0 : 1)} ms`
    : `${(value * 1e6).toFixed(0)} µs`;
}

/** The last part of a path. */
export const baseName = (path) => path.slice(path.lastIndexOf("/") + 1);

// Characters that would act instead of being seen: controls, and those that turn the direction of text.
const ACTING =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

/** A name from the trace with such characters made visible. */
export function visible(text) {
  return text.replace(ACTING, (character) => {
    const code = character.charCodeAt(0);
    if (code === 9) return "    ";
    return code < 32
      ? String.fromCharCode(0x2400 + code)
      : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}
