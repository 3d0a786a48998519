// Live bytes over time: of everything, or of what is selected of it.

/** Bytes at each of the times: of the heap, of touched mappings, and what of these no block accounts for. */
export function courses(data, filter) {
  const { curves, times } = data.timeline;
  if (filter && filter.curve === null) return ofGroups(data.moments.groups, filter, times.length);
  const chosen = filter ? [curves[filter.curve]] : curves;
  const sum = (key) => times.map((_, at) => chosen.reduce((sum, curve) => sum + curve[key][at], 0));
  return { heap: sum("heap"), touched: sum("touched"), large: sum("large") };
}

/** Live bytes at each of the times. */
export function live(data, filter) {
  const { heap, touched } = courses(data, filter);
  return heap.map((bytes, at) => bytes + touched[at]);
}

/** What was touched of large mappings is not known by thread and operator. */
function ofGroups(groups, filter, length) {
  const [heap, touched, large] = [0, 1, 2].map(() => new Array(length).fill(0));
  groups.group.forEach((group, row) => {
    if (!filter.groups[group]) return;
    heap[groups.time[row]] += groups.heap[row];
    touched[groups.time[row]] += groups.mapped[row];
  });
  for (let at = 1; at < length; at++) {
    heap[at] += heap[at - 1];
    touched[at] += touched[at - 1];
  }
  return { heap, touched, large };
}
