// The times that the page knows, and which of them are selected.

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
