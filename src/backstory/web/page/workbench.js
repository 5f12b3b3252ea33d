/** One agent: branches, every position, its events, and what the model saw. */
import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import { effect, signal } from "@preact/signals";
import { html } from "page/parts.js";
import * as state from "page/state.js";
import { momentOf, number, writeCount } from "page/format.js";
import { cursor, log, openAgent, openId, reference, showPane, timeOf } from "page/open_log.js";
import { Lanes } from "page/lanes.js";
import { Scrubber } from "page/scrubber.js";
import { Tape } from "page/tape.js";
import { Context } from "page/context.js";
import { Detail } from "page/event.js";
import Request from "page/request.js";
import Diff from "page/diff.js";
import { axis, turnAxis } from "page/axis.js";

const LEFT = 230; // pixels of the column with the names of the branches
const LEAST = 360; // pixels of the pane
const part = signal("tape"); // on a narrow screen one part is shown at a time
const split = signal(localStorage.getItem("split") || ""); // the width of the events, if a person dragged it

effect(() => {
  if (state.route.value.view === "workbench" && state.route.value.pane !== "context")
    part.value = "pane";
}); // a link to a pane shows it

function Size({ at }) {
  const { count, size, outside, missing } = log.value;
  if (missing) return html`<span>loading ${number(missing)} earlier events</span>`;
  return html`<span>${number(count[at])} live · ≈ ${number(size[at])} tokens</span>
    ${outside[at] > 0 && html`<span title=${state.OUTSIDE}>+ ${number(outside[at])} not in the log</span>`}`;
}

function Position() {
  const at = cursor.value;
  return html`<div class="position">
    <b class="where" title=${reference(at)}
      ><span class="clip">${openAgent.value?.name}</span>@${number(at)}</b
    >
    of ${number(log.value.head)}
    ${at > 0 && log.value.times[at - 1] > 0 && html`<time>${momentOf(timeOf(at))}</time>`}
    <${Size} at=${at} />
    <p class="facts">
      <button class="small" title="o" onClick=${() => state.show("overview")}>Overview</button>
      <button class="small" title="t" aria-pressed=${axis.value === "time"} onClick=${turnAxis}>
        Time axis
      </button>
    </p>
  </div>`;
}

const MENU_MOVES = [
  ["fork", "Fork here", "f"],
  ["back", "Back to here", "b"],
  ["undo", "Undo", "u"],
  ["clear", "Clear", ""],
  ["mark", "Mark", ""],
  ["rename", "Rename", ""],
];

/** Closes when something else is clicked, or by Esc. */
function Menu() {
  const box = useRef(null);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const onClick = (event) => {
      if (!box.current.contains(event.target)) setOpen(false);
    };
    document.addEventListener("click", onClick);
    return () => document.removeEventListener("click", onClick);
  }, []);
  const onKey = (event) => {
    if (event.key !== "Escape" || !isOpen) return;
    event.stopPropagation();
    setOpen(false);
    box.current.firstElementChild.focus();
  };
  const ask = (move) => {
    setOpen(false);
    state.show("move", { move, at: cursor.peek() });
  };
  return html`<div class="menu" ref=${box} onKeyDown=${onKey}>
    <button aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>Moves ▾</button>
    ${
      isOpen &&
      html`<div class="moves" role="group" aria-label="Moves">
        ${MENU_MOVES.map(([move, name, key]) => html`<button key=${move} class="quiet" onClick=${() => ask(move)}>${name}${key && html` <kbd>${key}</kbd>`}</button>`)}
      </div>`
    }
  </div>`;
}

/** Between the events and the pane; it can be dragged, or moved with arrow keys. */
function Split() {
  const set = (width) => {
    const most = window.innerWidth - LEFT - LEAST;
    split.value = `${Math.round(Math.max(60, Math.min(most, width)))}px`;
    localStorage.setItem("split", split.value);
  };
  const onMove = (event) => {
    if (event.buttons) set(event.clientX - LEFT);
  };
  const onKey = (event) => {
    const step = { ArrowLeft: -40, ArrowRight: 40 }[event.key];
    if (!step) return;
    event.stopPropagation();
    set(event.currentTarget.offsetLeft - LEFT + step);
  };
  const forget = () => {
    split.value = "";
    localStorage.removeItem("split");
  };
  return html`<div
    class="split"
    role="separator"
    tabindex="0"
    aria-orientation="vertical"
    aria-label="Width of the events"
    aria-valuenow=${parseInt(split.value, 10) || 0}
    onPointerDown=${(event) => event.currentTarget.setPointerCapture(event.pointerId)}
    onPointerMove=${onMove}
    onDblClick=${forget}
    onKeyDown=${onKey}
  ></div>`;
}

function Tabs() {
  const onKey = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.stopPropagation();
    const names = Object.keys(state.PANES);
    showPane(names.at((names.indexOf(state.pane.value) + step) % names.length));
    event.currentTarget.querySelector("[aria-selected=true]").focus();
  };
  const Tab = (name) =>
    html`<button
      role="tab"
      class="quiet"
      id=${`tab-${name}`}
      key=${name}
      aria-controls="pane"
      aria-selected=${state.pane.value === name}
      tabindex=${state.pane.value === name ? 0 : -1}
      onClick=${() => showPane(name)}
    >
      ${state.PANES[name]}
    </button>`;
  return html`<div class="tabs strip">
    <div role="tablist" aria-label="Panes" onKeyDown=${onKey}>
      ${Object.keys(state.PANES).map(Tab)}
    </div>
    ${state.canWrite && html`<${Menu} />`}
  </div>`;
}

const HINTS = {
  "j k": "step",
  "[ ]": "prompt",
  "{ }": "move",
  g: "head",
  "1–4": "panes",
  d: "compare",
  space: "play",
  "/": "search",
  "?": "all keys",
};

const Key = ([keys, what]) =>
  html`<span key=${keys}
    >${keys.split(" ").map((one) => html`<kbd key=${one}>${one}</kbd>`)} ${what}</span
  >`;

const Footer = () =>
  html`<footer class="keys" aria-hidden="true">${Object.entries(HINTS).map(Key)}</footer>`;

function Parts() {
  const names = { lanes: "Branches", tape: "Events", pane: state.PANES[state.pane.value] };
  const Part = ([name, title]) =>
    html`<button key=${name} aria-pressed=${part.value === name} onClick=${state.setTo(part, name)}>
      ${title}
    </button>`;
  return html`<nav class="parts strip" aria-label="Parts of the page">
    ${Object.entries(names).map(Part)}
  </nav>`;
}

/** Tells screen readers at most every five seconds how many events are new. */
function Announcer() {
  const [text, setText] = useState("");
  useEffect(() => {
    let said = log.peek().head;
    const timer = setInterval(() => {
      const { head } = log.peek();
      if (head > said) setText(writeCount(head - said, "new event"));
      said = head;
    }, 5000);
    return () => clearInterval(timer);
  }, [openId.value]);
  return html`<div class="unseen" aria-live="polite">${text}</div>`;
}

const SHOWN = { context: Context, event: Detail, request: Request, diff: Diff };

/** The open pane, or what went wrong in it. */
function Pane({ name }) {
  const [error] = useErrorBoundary();
  if (error)
    return html`<p class="problem" role="alert">This cannot be shown: ${error.message}</p>`;
  if (log.value.head) return html`<${SHOWN[name]} />`;
  return openId.value && html`<p class="hint">Nothing has been written yet.</p>`;
}

export function Workbench() {
  const name = state.pane.value;
  return html`<main class="bench" data-part=${part.value} style=${{ "--split": split.value }}>
    <h1 class="unseen">${openAgent.value?.name || "Loading"}</h1>
    <${Lanes} />
    <${Position} /><${Scrubber} />
    <${Tape} />
    <${Split} />
    <section class="panes" aria-label="What the model saw">
      <${Tabs} />
      <div
        id="pane"
        role="tabpanel"
        aria-labelledby=${`tab-${name}`}
        tabindex="0"
        class=${`pane ${name}`}
      >
        <${Pane} key=${name} name=${name} />
      </div>
    </section>
    <${Parts} /><${Footer} /><${Announcer} />
  </main>`;
}
