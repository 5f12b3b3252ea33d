/** Ranges of positions: what left one behind, what came and what left between two positions. No elements. */

/** The move that left a position behind, 0 if it is in the live ranges. */
export function leftBy(live, seq) {
  let [low, high] = [0, live.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (live[middle][1] < seq) low = middle + 1;
    else high = middle;
  }
  return low < live.length && seq < live[low][0] ? live[low][0] : 0;
}

/** The parts of some ranges that are in none of the others; both ascending. */
export function without(ranges, others) {
  const found = [];
  for (const [first, last] of ranges) {
    let low = first;
    for (const [from, to] of others) {
      if (to < low || from > last) continue;
      if (from > low) found.push([low, from - 1]);
      low = Math.max(low, to + 1);
    }
    if (low <= last) found.push([low, last]);
  }
  return found;
}

export const within = (ranges, seq) => ranges.some(([low, high]) => seq >= low && seq <= high);
