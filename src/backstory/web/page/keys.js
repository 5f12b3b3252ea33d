import * as state from "page/state.js";
import { cursor, log, find } from "page/state.js";
import { signal } from "@preact/signals";
import { turnAxis } from "page/axis.js";
import { copy } from "page/parts.js";
import { pin, swap } from "page/diff.js";
import { foldHere, laneStep } from "page/lanes.js";
import { nextHit, page, stepped } from "page/tape.js";
import { showPane } from "page/workbench.js";

export const letters = signal(localStorage.getItem("letters") !== "off");

const near = (letters, by) => {
  for (let seq = cursor.value + by; seq >= 1 && seq <= log.value.head; seq += by) {
    if (letters.includes(state.letterAt(seq))) return state.go(seq);
  }
  return undefined;
};
const move = (name) => () => {
  if (state.canWrite) state.show("move", { move: name, at: cursor.value });
};
const copyRef = () => copy(state.reference(cursor.value), "Reference");
const copyLink = () => copy(state.link(cursor.value), "Link");

let playing = 0;
/** Steps through the log by itself, with idle time cut. */
function play() {
  if (playing) {
    clearTimeout(playing);
    playing = 0;
    return;
  }
  const next = () => {
    if (cursor.value >= log.value.head) {
      playing = 0;
      return;
    }
    const gap = log.value.times[cursor.value] - (log.value.times[cursor.value - 1] || 0);
    state.go(cursor.value + 1);
    playing = setTimeout(next, Math.max(60, Math.min(800, gap * 100)));
  };
  next();
}

/** @type {[string, string, () => void][]} */
const MOVES = [
  ["f", "Fork here", move("fork")],
  ["b", "Back to here", move("back")],
  ["u", "Undo the last move", move("undo")],
];

/** Keys, what they do, and how. @type {[string, string, () => void][]} */
export const COMMANDS = [
  ["j", "Step forward", () => state.go(stepped(1))],
  ["k", "Step back", () => state.go(stepped(-1))],
  ["]", "Next prompt", () => near("u", 1)],
  ["[", "Previous prompt", () => near("u", -1)],
  ["}", "Next move", () => near("xwj", 1)],
  ["{", "Previous move", () => near("xwj", -1)],
  ["m", "Next mark", () => near("m", 1)],
  ["g", "Go to the head and follow", state.goHead],
  ["Home", "Go to the first event", () => state.go(1, { jump: true })],
  ["End", "Go to the head", state.goHead],
  ["PageDown", "A page forward", () => state.go(cursor.value + page())],
  ["PageUp", "A page back", () => state.go(Math.max(1, cursor.value - page()))],
  ["h", "Branch above", () => laneStep(-1)],
  ["l", "Branch below", () => laneStep(1)],
  ["ArrowLeft", "Fold the branch", () => foldHere(true)],
  ["ArrowRight", "Unfold the branch", () => foldHere(false)],
  ["1", "Context pane", () => showPane("context")],
  ["2", "Event pane", () => showPane("event")],
  ["3", "Request pane", () => showPane("request")],
  ["4", "Diff pane", () => showPane("diff")],
  ["o", "Overview", () => state.show("overview")],
  ["t", "Axis by time or by position", turnAxis],
  ["d", "Pin this position for the diff", pin],
  ["D", "Swap the sides of the diff", swap],
  ["y", "Copy the reference", copyRef],
  ["Y", "Copy the link", copyLink],
  [" ", "Play, or stop", play],
  ["n", "Next match", () => nextHit(1)],
  ["N", "Previous match", () => nextHit(-1)],
  ...(state.canWrite ? MOVES : []),
  ["/", "Search everything", () => state.show("search")],
  ["?", "All keys", () => state.show("help")],
];
const BY_KEY = new Map(COMMANDS.map(([key, , run]) => [key, run]));
const EVERYWHERE = new Set(["/", "?"]);

/** Returns whether the key was taken */
export function pressed(event) {
  const typing =
    /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable;
  if ((event.ctrlKey || event.metaKey) && event.key === "k") {
    state.show("search");
    return true;
  }
  const here = state.route.value.view === "workbench";
  if ((event.ctrlKey || event.metaKey) && event.key === "f" && here) {
    if (find.value && document.activeElement.closest(".find")) return false; // the second time it is the browser's own
    find.value = find.value || { q: "", positions: [], next: null };
    /** @type {HTMLElement} */ (document.querySelector(".find input"))?.focus();
    return true;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || typing) return false;
  if (event.key === "Escape") {
    state.toast.value = null;
    return true;
  }
  if (!letters.value && event.key.length === 1) return false;
  if (event.key === " " && /^(BUTTON|A|SUMMARY)$/.test(event.target.tagName)) return false;
  if (event.target.closest?.("[role=tablist], .pane") && /^(Arrow|Page|Home|End)/.test(event.key))
    return false;
  const key = { ArrowDown: "j", ArrowUp: "k" }[event.key] || event.key;
  const inTree = event.target.closest?.("[role=tree]");
  if (inTree && (key === "j" || key === "k") && event.key.startsWith("Arrow")) {
    laneStep(key === "j" ? 1 : -1);
    return true;
  }
  if (event.target.closest?.("[role=slider]") && /^Arrow(Left|Right)$/.test(event.key)) {
    state.go(cursor.value + (event.key === "ArrowRight" ? 1 : -1));
    return true;
  }
  const run = BY_KEY.get(key);
  if (!run || (!here && !EVERYWHERE.has(key))) return false;
  run();
  return true;
}
