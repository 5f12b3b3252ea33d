/** One agent: its branches above, every position in the middle, the events and what was seen below. */
import { useEffect, useRef, useState } from "preact/hooks";
import { effect, signal } from "@preact/signals";
import html from "page/html.js";
import * as state from "page/state.js";
import { momentOf } from "page/format.js";
import { log, cursor, pane, route, number } from "page/state.js";
import { Lanes } from "page/lanes.js";
import { Scrubber } from "page/scrubber.js";
import { Tape } from "page/tape.js";
import { Context } from "page/context.js";
import Detail from "page/detail.js";
import Request from "page/request.js";
import Diff from "page/diff.js";
import { axis, turnAxis } from "page/axis.js";

/** On a narrow screen one of these is shown at a time. */
export const part = signal("tape");
const isMenuOpen = signal(false);
const split = signal(localStorage.getItem("split") || ""); // the width of the events, if a person dragged it
const PANES = [
  ["context", "Context"],
  ["event", "Event"],
  ["request", "Request"],
  ["diff", "Compare"],
];

effect(() => {
  if (route.value.view === "workbench" && route.value.pane !== "context") part.value = "pane";
}); // a link to a pane shows it

export function showPane(name) {
  pane.value = name;
  state.remember(false);
}

const ask = (move) => state.show("move", { move, at: cursor.peek() });

function Size({ at }) {
  if (log.value.missing) return html`<span>loading ${state.loading.value}</span>`;
  const outside = log.value.outside[at] || 0;
  const { count, size } = log.value;
  return html`<span>${number(count[at])} live · ≈ ${number(size[at])} tokens</span>
    ${outside > 0 && html`<span title="The provider counted these, but the log does not contain them">+ ${number(outside)} not in the log</span>`}`;
}

function Position() {
  const at = cursor.value;
  return html`<div class="position">
    <b class="where" title=${state.reference(at)}
      ><span>${state.agent.value?.name}</span>@${number(at)}</b
    >
    of ${number(log.value.head)}<br />
    ${at > 0 && log.value.times[at - 1] > 0 && html`<time>${momentOf(state.timeOf(at))}</time>`}
    <${Size} at=${at} />
    <p>
      <button class="small" title="o" onClick=${() => state.show("overview")}>Overview</button>
      <button class="small" title="t" aria-pressed=${axis.value === "time"} onClick=${turnAxis}>
        Time axis
      </button>
    </p>
  </div>`;
}

const MOVES = [
  ["fork", "Fork here", "f"],
  ["back", "Back to here", "b"],
  ["undo", "Undo", "u"],
  ["clear", "Clear", ""],
  ["mark", "Mark", ""],
  ["rename", "Rename", ""],
];

function Menu() {
  const box = useRef(null);
  const isOpen = isMenuOpen.value;
  const close = () => {
    isMenuOpen.value = false;
  };
  useEffect(() => {
    if (!isOpen) return undefined;
    const onClick = (event) => {
      if (!box.current.contains(event.target)) close();
    };
    document.addEventListener("click", onClick);
    return () => document.removeEventListener("click", onClick);
  }, [isOpen]);
  const onKey = (event) => {
    if (event.key !== "Escape" || !isOpen) return;
    event.stopPropagation();
    close();
    box.current.firstElementChild.focus();
  };
  return html`<div class="menu" ref=${box} onKeyDown=${onKey}>
    <button
      aria-expanded=${isOpen}
      onClick=${() => {
        isMenuOpen.value = !isOpen;
      }}
    >
      Moves ▾
    </button>
    ${
      isOpen &&
      html`<div class="moves" role="group" aria-label="Moves">
        ${MOVES.map(
          ([move, name, key]) =>
            html`<button
              key=${move}
              onClick=${() => {
                close();
                ask(move);
              }}
            >
              ${name}${key && html` <kbd>${key}</kbd>`}
            </button>`,
        )}
      </div>`
    }
  </div>`;
}

/** Between the events and the pane: it can be dragged, or moved with the arrow keys. */
function Split() {
  const set = (width) => {
    const most = window.innerWidth - 230 - 360;
    split.value = `${Math.round(Math.max(60, Math.min(most, width)))}px`;
    localStorage.setItem("split", split.value);
  };
  const readWidth = () => document.querySelector(".tape").getBoundingClientRect().width - 230;
  const onMove = (event) => {
    if (event.buttons) set(event.clientX - 230);
  };
  const onKey = (event) => {
    const step = { ArrowLeft: -40, ArrowRight: 40 }[event.key];
    if (!step) return;
    event.stopPropagation();
    set(readWidth() + step);
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
    onDblClick=${() => {
      split.value = "";
      localStorage.removeItem("split");
    }}
    onKeyDown=${onKey}
  ></div>`;
}

function Tabs() {
  const onKey = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.stopPropagation();
    const place = PANES.findIndex(([name]) => name === pane.value);
    showPane(PANES[(place + step + PANES.length) % PANES.length][0]);
    event.currentTarget.querySelector("[aria-selected=true]")?.focus();
  };
  return html`<div class="tabs">
    <div role="tablist" aria-label="Panes" onKeyDown=${onKey}>
      ${PANES.map(
        ([name, title]) =>
          html`<button
            role="tab"
            id=${`tab-${name}`}
            key=${name}
            aria-controls="pane"
            aria-selected=${pane.value === name}
            tabindex=${pane.value === name ? 0 : -1}
            onClick=${() => showPane(name)}
          >
            ${title}
          </button>`,
      )}
    </div>
    ${state.canWrite && html`<${Menu} />`}
  </div>`;
}

const Footer = () =>
  html`<footer class="keys" aria-hidden="true">
    ${[
      ["j k", "step"],
      ["[ ]", "prompt"],
      ["{ }", "move"],
      ["g", "head"],
      ["1–4", "panes"],
      ["d", "compare"],
      ["space", "play"],
      ["/", "search"],
      ["?", "all keys"],
    ].map(
      ([keys, what]) =>
        html`<span key=${keys}>
          ${keys.split(" ").map((one) => html`<kbd key=${one}>${one}</kbd>`)} ${what}</span
        >`,
    )}
  </footer>`;

const Parts = () =>
  html`<nav class="parts" aria-label="Parts of the page">
    ${[
      ["lanes", "Branches"],
      ["tape", "Events"],
      ["pane", "Context"],
    ].map(
      ([name, title]) =>
        html`<button
          key=${name}
          aria-pressed=${part.value === name}
          onClick=${state.setTo(part, name)}
        >
          ${name === "pane" ? PANES.find(([one]) => one === pane.value)[1] : title}
        </button>`,
    )}
  </nav>`;

/** Says at most every five seconds how many events are new, for those who listen to the page. */
function Announcer() {
  const said = useRef({ head: 0, time: 0 });
  const [text, setText] = useState("");
  useEffect(() => {
    const head = log.value.head;
    const { time } = said.current;
    if (!said.current.head || Date.now() - time < 5000) {
      said.current.head ||= head;
      return;
    }
    if (head > said.current.head) setText(`${head - said.current.head} new events`);
    said.current = { head, time: Date.now() };
  }, [log.value.head]);
  return html`<div class="unseen" aria-live="polite">${text}</div>`;
}

const SHOWN = { context: Context, event: Detail, request: Request, diff: Diff };

export function Workbench() {
  const name = pane.value;
  return html`<main class="bench" data-part=${part.value} style=${{ "--split": split.value }}>
    <h1 class="unseen">${state.agent.value ? state.agent.value.name : "Loading"}</h1>
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
        ${state.shown.value && !log.value.head && html`<p class="hint">Nothing has been written yet.</p>`}
        ${log.value.head > 0 && html`<${SHOWN[name]} />`}
      </div>
    </section>
    <${Parts} /><${Footer} /><${Announcer} />
  </main>`;
}
