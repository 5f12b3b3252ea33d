/** Keyboard commands, and which key runs which. */
import * as state from "page/state.js";
import {
  cursor,
  go,
  goHead,
  letterAt,
  link,
  log,
  pin,
  reference,
  showPane,
} from "page/open_log.js";
import { signal } from "@preact/signals";
import { turnAxis } from "page/axis.js";
import { copy } from "page/parts.js";
import { swap } from "page/diff.js";
import { foldHere, stepLane } from "page/lanes.js";
import { nextHit, page, findStep } from "page/tape.js";

export const letters = signal(localStorage.getItem("letters") !== "off");

const goToNearest = (letters, by) => {
  for (let seq = cursor.value + by; seq >= 1 && seq <= log.value.head; seq += by) {
    if (letters.includes(letterAt(seq))) {
      go(seq);
      return;
    }
  }
};
const move = (name) => () => state.show("move", { move: name, at: cursor.value });
const copyRef = () => copy(reference(cursor.value), "Reference");
const copyLink = () => copy(link(cursor.value), "Link");

let playing = 0;
/** Steps through the log by itself, with idle time cut; or stops. */
function play() {
  if (!playing) playOn();
  else {
    clearTimeout(playing);
    playing = 0;
  }
}

function playOn() {
  const at = cursor.value;
  playing = 0;
  if (at >= log.value.head) return;
  const gap = log.value.times[at] - (log.value.times[at - 1] || 0);
  go(at + 1);
  playing = setTimeout(playOn, Math.max(60, Math.min(800, gap * 100)));
}

/** @type {[string, string, () => void][]} */
const MOVE_COMMANDS = [
  ["f", "Fork here", move("fork")],
  ["b", "Back to here", move("back")],
  ["u", "Undo the last move", move("undo")],
];

/** @type {[string, string, () => void][]} */
export const COMMANDS = [
  ["j", "Step forward", () => go(findStep(1))],
  ["k", "Step back", () => go(findStep(-1))],
  ["]", "Next prompt", () => goToNearest("u", 1)],
  ["[", "Previous prompt", () => goToNearest("u", -1)],
  ["}", "Next move", () => goToNearest("xwj", 1)],
  ["{", "Previous move", () => goToNearest("xwj", -1)],
  ["m", "Next mark", () => goToNearest("m", 1)],
  ["g", "Go to the head and follow", goHead],
  ["Home", "Go to the first event", () => go(1, { jump: true })],
  ["End", "Go to the head", goHead],
  ["PageDown", "A page forward", () => go(cursor.value + page())],
  ["PageUp", "A page back", () => go(Math.max(1, cursor.value - page()))],
  ["h", "Branch above", () => stepLane(-1)],
  ["l", "Branch below", () => stepLane(1)],
  ["ArrowLeft", "Fold the branch", () => foldHere(true)],
  ["ArrowRight", "Unfold the branch", () => foldHere(false)],
  ["1", "Context pane", () => showPane("context")],
  ["2", "Event pane", () => showPane("event")],
  ["3", "Request pane", () => showPane("request")],
  ["4", "Compare pane", () => showPane("diff")],
  ["o", "Overview", () => state.show("overview")],
  ["t", "Axis by time or by position", turnAxis],
  ["d", "Pin this position to compare", pin],
  ["D", "Swap the sides of a comparison", swap],
  ["y", "Copy the reference", copyRef],
  ["Y", "Copy the link", copyLink],
  [" ", "Play, or stop", play],
  ["n", "Next match", () => nextHit(1)],
  ["N", "Previous match", () => nextHit(-1)],
  ...(state.canWrite ? MOVE_COMMANDS : []),
  ["/", "Search everything", () => state.show("search")],
  ["?", "All keys", () => state.show("help")],
];
const BY_KEY = new Map(COMMANDS.map(([key, , run]) => [key, run]));
const EVERYWHERE = ["/", "?"];

const isIn = (event, selector) => event.target.closest?.(selector) != null;

/** What an arrow does where the focus is. */
function findArrow(event) {
  const by = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const isVertical = /Down|Up/.test(event.key);
  if (!by) return null;
  if (isVertical && isIn(event, "[role=tree]")) return () => stepLane(by);
  if (!isVertical && isIn(event, "[role=slider]")) return () => go(cursor.value + by);
  return isVertical ? BY_KEY.get(by > 0 ? "j" : "k") : null;
}

function openFind() {
  state.find.value ||= { q: "", positions: [], next: null };
  /** @type {HTMLElement} */ (document.querySelector(".find input"))?.focus();
}

/** What a key does with Ctrl or ⌘. The second Ctrl-F is the browser's own. */
function findWithControl(event, isHere) {
  if (event.key === "k") return () => state.show("search");
  return event.key === "f" && isHere && !isIn(event, ".find") ? openFind : null;
}

/** Whether the key means something else where the focus is. */
function isTaken(event) {
  if (isIn(event, "input, textarea, select")) return true;
  if (event.key === " " && isIn(event, "button, a, summary")) return true;
  return isIn(event, "[role=tablist], .pane") && /^(Arrow|Page|Home|End)/.test(event.key);
}

function findCommand(event) {
  const isHere = state.route.value.view === "workbench";
  if (event.ctrlKey || event.metaKey) return findWithControl(event, isHere);
  if (event.altKey || isTaken(event)) return null;
  if (event.key === "Escape") return state.setTo(state.toast, null);
  if (!letters.value && event.key.length === 1) return null;
  if (!isHere && !EVERYWHERE.includes(event.key)) return null;
  return findArrow(event) || BY_KEY.get(event.key);
}

/** Returns whether the key was taken. */
export function pressKey(event) {
  const run = findCommand(event);
  run?.();
  return Boolean(run);
}
