/** What came into the context and what left it between a pinned position and the cursor. Positions only; no elements. */

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
