/** One agent: its branches above, every position in the middle, the events and what was seen below. */
import { computed, effect, signal, useEffect, useRef, useState } from "./components.js";
import html from "./html.js";
import * as state from "./state.js";
import { log, cursor, pane, dialog, route, number } from "./state.js";
import { Lanes } from "./lanes.js";
import { Scrubber } from "./scrubber.js";
import { Tape } from "./tape.js";
import { Context } from "./context.js";
import Detail from "./detail.js";
import Request from "./request.js";
import Diff from "./diff.js";
import { axis, turnAxis } from "./axis.js";

/** On a narrow screen one of these is shown at a time. */
export const part = signal("tape");
const menu = signal(false); // whether the moves are shown on a narrow screen
const PANES = [["context", "Context"], ["event", "Event"], ["request", "Request"], ["diff", "Diff"]];

const summary = computed(() => {
  const at = cursor.value;
  return { at, live: log.value.count[at] || 0, tokens: log.value.size[at] || 0 };
});

effect(() => { if (route.value.view === "workbench" && route.value.pane !== "context") part.value = "pane"; }); // a link to a pane shows it

export function showPane(name) {
  pane.value = name;
  state.remember(false);
}

const ask = (move) => { dialog.value = { name: "move", move, at: cursor.peek() }; };

function Position() {
  const { at, live, tokens } = summary.value;
  return html`<div class="position">
    <b class="where" title=${state.reference(at)}><span>${state.agent.value?.name}</span>@${number(at)}</b> of ${number(log.value.head)}<br />
    ${at > 0 && html`<time>${state.timeOf(at).toLocaleString()}</time>`}
    <span>${number(live)} live · ≈ ${number(tokens)} tokens</span>
    <p><button class="small" title="o" onClick=${() => { dialog.value = { name: "overview" }; }}>Overview</button>
      <button class="small" title="t" aria-pressed=${axis.value === "time"} onClick=${turnAxis}>Time axis</button></p></div>`;
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
  return html`<div class="tabs"><div role="tablist" aria-label="Panes" onKeyDown=${onKey}>
    ${PANES.map(([name, title]) => html`<button role="tab" id=${`tab-${name}`} key=${name} aria-controls="pane"
      aria-selected=${pane.value === name} tabindex=${pane.value === name ? 0 : -1}
      onClick=${() => showPane(name)}>${title}</button>`)}</div>
    ${state.canWrite && html`<button class="menu" aria-expanded=${menu.value} onClick=${() => { menu.value = !menu.value; }}>Moves</button>
    <div class=${`moves ${menu.value ? "open" : ""}`} role="group" aria-label="Moves">
      <button onClick=${() => ask("fork")} title="f">Fork here</button>
      <button onClick=${() => ask("back")} title="b">Back to here</button>
      <button onClick=${() => ask("mark")} title="Set a mark at the head">Mark</button>
      <button onClick=${() => ask("clear")}>Clear</button>
      <button onClick=${() => ask("undo")} title="u">Undo</button>
      <button onClick=${() => ask("rename")}>Rename</button></div>`}</div>`;
}

const Footer = () => html`<footer class="keys" aria-hidden="true">
  ${[["j k", "step"], ["[ ]", "prompt"], ["{ }", "move"], ["g", "head"], ["1–4", "panes"], ["d", "compare"],
    ["space", "play"], ["/", "search"], ["?", "all keys"]].map(([keys, what]) => html`<span key=${keys}>
    ${keys.split(" ").map((one) => html`<kbd key=${one}>${one}</kbd>`)} ${what}</span>`)}</footer>`;

const Parts = () => html`<nav class="parts" aria-label="Parts of the page">
  ${[["lanes", "Branches"], ["tape", "Events"], ["pane", "Context"]].map(([name, title]) => html`<button key=${name}
    aria-pressed=${part.value === name} onClick=${() => { part.value = name; }}>
    ${name === "pane" ? PANES.find(([one]) => one === pane.value)[1] : title}</button>`)}</nav>`;

/** Says at most every five seconds how many events are new, for those who listen to the page. */
function Announcer() {
  const said = useRef({ head: 0, time: 0 });
  const [text, setText] = useState("");
  useEffect(() => {
    const head = log.value.head;
    const { time } = said.current;
    if (!said.current.head || Date.now() - time < 5000) { said.current.head ||= head; return; }
    if (head > said.current.head) setText(`${head - said.current.head} new events`);
    said.current = { head, time: Date.now() };
  }, [log.value.head]);
  return html`<div class="unseen" aria-live="polite">${text}</div>`;
}

const SHOWN = { context: Context, event: Detail, request: Request, diff: Diff };

export function Workbench() {
  const name = pane.value;
  return html`<main class="bench" data-part=${part.value}>
    <h1 class="unseen">${state.agent.value ? state.agent.value.name : "Loading"}</h1>
    <${Lanes} />
    <${Position} /><${Scrubber} />
    <${Tape} />
    <section class="panes" aria-label="What the model saw"><${Tabs} />
      <div id="pane" role="tabpanel" aria-labelledby=${`tab-${name}`} tabindex="0" class=${`pane ${name}`}>
        ${state.loading.value && html`<p class="hint" role="status">Loading ${state.loading.value}</p>`}
        ${state.shown.value && !log.value.head && html`<p class="hint">Nothing has been written yet.</p>`}
        ${log.value.head > 0 && html`<${SHOWN[name]} />`}
      </div></section>
    <${Parts} /><${Footer} /><${Announcer} />
  </main>`;
}
