/** The x-axis of the lanes and the scrubber: by position, or by time with pauses folded. */
import { computed, signal } from "@preact/signals";
import { agents, domain } from "page/state.js";
import { log, openId } from "page/open_log.js";
import { findLastIndexAtMost } from "page/lineage.js";

export const PAD = 10;
const PAUSE = 120; // seconds: a longer pause is drawn as one of this length
const BEYOND = 1.25; // sub-agents may make the axis so much longer, and no more

export const axis = signal(localStorage.getItem("axis") || "events");
export function turnAxis() {
  axis.value = axis.value === "time" ? "events" : "time";
  domain.value = null;
  localStorage.setItem("axis", axis.value);
}

/** Each agent with its depth, its children, and its offset: place = position + offset. */
export const tree = computed(() => {
  const nodes = new Map();
  for (const one of agents.value.values())
    nodes.set(one.id, { one, children: [], depth: 0, offset: 0 });
  const roots = [];
  for (const node of nodes.values()) {
    const parent = nodes.get(node.one.parent);
    if (parent) parent.children.push(node);
    else roots.push(node);
  }
  const later = (a, b) =>
    b.one.born_seq - a.one.born_seq || (a.one.created_at < b.one.created_at ? 1 : -1);
  const waiting = roots.sort(later).toReversed();
  while (waiting.length) {
    const node = waiting.pop();
    node.children.sort(later);
    for (const child of node.children) {
      child.depth = node.depth + 1;
      // Who inherits continues the positions of the parent.
      child.offset = node.offset + (child.one.fork_seq === 0 ? child.one.born_seq : 0);
      waiting.push(child);
    }
  }
  return { nodes, roots };
});

export const offset = computed(() => tree.value.nodes.get(openId.value)?.offset ?? 0);

/** The known moments and their places with pauses folded; null if the axis is not time. */
const clock = computed(() => {
  if (axis.value !== "time") return null;
  const { times, head } = log.value;
  const own = new Float64Array(head + 1);
  for (let n = 1; n <= head; n++) own[n] = Math.max(own[n - 1], times[n - 1]); // imported times may go back
  const others = [...agents.value.values()].flatMap((one) => [
    Date.parse(one.created_at) / 1000,
    Date.parse(one.updated_at) / 1000,
  ]);
  const moments = Float64Array.from([...own.subarray(1), ...others]).sort();
  const places = new Float64Array(moments.length);
  for (let n = 1; n < moments.length; n++)
    places[n] = places[n - 1] + Math.min(PAUSE, moments[n] - moments[n - 1]);
  const placeAt = (moment) => {
    const known = Math.max(0, findLastIndexAtMost(moments, moment));
    return places[known] + Math.max(0, Math.min(PAUSE, moment - moments[known]));
  };
  return {
    spots: own.map((moment, n) => (n ? placeAt(moment) : 0)),
    placeAt,
    end: places.at(-1) || 1,
  };
});

/** The place of a position of the open log, and the last position at a place or before it. */
export const placeOf = (seq) => (clock.value ? clock.value.spots[seq] : offset.value + seq);
export const seqAt = (place) =>
  clock.value
    ? Math.max(0, findLastIndexAtMost(clock.value.spots, place))
    : Math.max(0, Math.min(log.value.head, Math.floor(place - offset.value)));

export const startOf = ({ one, offset: by }) =>
  clock.value ? clock.value.placeAt(Date.parse(one.created_at) / 1000) : by + one.fork_seq;
export const endOf = ({ one, offset: by }) =>
  clock.value ? clock.value.placeAt(Date.parse(one.updated_at) / 1000) : by + one.head;

/** The whole axis: the family of the open agent, and a part of what its sub-agents need. */
export const whole = computed(() => {
  if (clock.value) return [0, clock.value.end];
  const low = offset.value;
  let high = low + Math.max(1, log.value.head);
  for (const node of tree.value.nodes.values())
    if (node.offset === low) high = Math.max(high, endOf(node));
  const most = low + (high - low) * BEYOND;
  for (const node of tree.value.nodes.values())
    if (node.offset > low) high = Math.max(high, Math.min(most, endOf(node)));
  return [low, high];
});
export const extent = computed(() => domain.value || whole.value);

export const xOf = (place, width) => {
  const [low, high] = extent.value;
  return PAD + ((place - low) / (high - low || 1)) * (width - 2 * PAD);
};
export const placeAtX = (x, width) => {
  const [low, high] = extent.value;
  return low + ((x - PAD) / Math.max(1, width - 2 * PAD)) * (high - low);
};
