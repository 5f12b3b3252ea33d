/** The page begins here: the key, the address, the frame around every view, the keyboard and the stream. */
import { h, render } from "preact";
import { batch, effect } from "@preact/signals";
import * as state from "page/state.js";
import { route, agents, log, dialog, toast, failure, live, root } from "page/state.js";
import { html, Page } from "page/parts.js";
import { darkness, look } from "page/lanes.js";
import { Workbench } from "page/workbench.js";
import Sessions from "page/sessions.js";
import Check from "page/check.js";
import Search from "page/search.js";
import { Help, Locked } from "page/help.js";
import Move from "page/moves.js";
import Overview from "page/overview.js";
import { pressed } from "page/keys.js";
import { listen } from "page/live.js";

// --- the key: an address has a code that works once, and leaves the address at once ---

async function takeKey() {
  const given = new URLSearchParams(window.location.hash.slice(1));
  if (!given.has("key") && !given.has("code")) return;
  history.replaceState(null, "", window.location.pathname + window.location.search);
  if (given.has("key")) {
    state.setKey(given.get("key"));
    return;
  }
  try {
    const { key } = await state.ask("/key", { body: { code: given.get("code") } });
    state.setKey(key);
  } catch (error) {
    if (error.status !== 401 || !state.readKey()) throw error; // a used address, in a browser that has the key
  }
}

// --- the address ---

let opened = null; // the route whose log is shown

async function arrive(to) {
  failure.value = "";
  if (to.view === "reference") {
    const ref = encodeURIComponent(decodeURIComponent(to.ref));
    const found = await state.ask(`/resolve?ref=${ref}`);
    const at = found.at === null ? "" : `@${found.at}`;
    state.navigate(`${root}/s/${found.session}/a/${found.agent}${at}`, true);
    return;
  }
  if (to.view !== "workbench") return;
  if (!agents.peek().has(to.agent)) await state.loadAgents(to.session);
  const found = [...agents.peek().values()].filter((one) => one.id.startsWith(to.agent));
  if (found.length !== 1)
    throw new state.Failed(404, { error: `There is no agent ${to.agent} in this session.` });
  const [{ id, session }] = found;
  if (id !== to.agent || session !== to.session) {
    route.value = { ...to, agent: id, session };
    return;
  }
  await state.loadLog(id, (next) => {
    if (route.peek() !== to) return;
    const isKnown = opened === to && state.shown.value === id && log.value.head === next.head;
    if (isKnown) log.value = next;
    else openAt(to, next);
    opened = to;
  });
}

function openAt(to, next) {
  const [id, at] = (to.with || "").split("@");
  batch(() => {
    log.value = next;
    state.readTo.value = next.head;
    state.domain.value = null;
    state.following.value = to.at === null;
    state.cursor.value = Math.min(to.at ?? next.head, next.head);
    state.pane.value = to.pane;
    state.format.value = to.format || "";
    if (agents.value.has(id)) state.other.value = { agent: id, at: Number(at) || 0 };
    if (to.q) state.find.value = { q: to.q, positions: [], next: 0 };
  });
  const [asked, head] = [to.at || 0, next.head].map(state.number);
  if (to.at > next.head) failure.value = `Position ${asked} is after the head, ${head}.`;
}

effect(() => {
  const one = route.value.view === "workbench" && state.agent.value;
  document.title = one ? `${state.title.value || one.name} · backstory` : "backstory";
});

effect(() => {
  const to = route.value;
  arrive(to).catch((error) => {
    if (error.status === 404 || error instanceof URIError) route.value = state.MISSING;
    state.trouble(error);
  });
});

window.addEventListener("popstate", () => {
  state.forget();
  route.value = state.parse(window.location);
});

// --- the stream ---

function hear({ type, heads, error, why }) {
  if (type === "connected") connect().catch(state.trouble);
  else if (type === "heads") hearHeads(heads);
  else if (type === "refused") state.trouble(error);
  else {
    live.value = "lost";
    if (why) failure.value = why;
  }
}

/** Asks once for what was missed, and then only listens. */
async function connect() {
  const { view, session } = route.peek();
  if (live.value === "lost" && session) await state.loadAgents(session);
  if (log.peek().head && view === "workbench") await state.catchUp();
  if (live.value === "lost") failure.value = "";
  live.value = "on";
}

function hearHeads(heads) {
  const { session, agent } = route.peek();
  const known = agents.peek();
  state.heard.value = heads;
  const mine = known.size ? heads.filter((one) => one.session === session) : [];
  if (mine.some((one) => !known.has(one.agent))) state.loadAgents(session).catch(state.trouble);
  else if (mine.some((one) => known.get(one.agent).head !== one.head)) {
    const next = new Map(known);
    for (const { agent: id, head, name } of mine) next.set(id, { ...next.get(id), head, name });
    agents.value = next;
  }
  const open = mine.find((one) => one.agent === agent);
  if (log.peek().head && open?.head > log.peek().head) state.catchUp().catch(state.trouble);
}

// --- the frame around every view ---

look.theme = localStorage.getItem("theme") || "auto";

function turn() {
  const isDark = look.theme === "dark" || (look.theme === "auto" && darkness.matches);
  look.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", look.theme);
  state.looks.value += 1;
}

const Good = ({ text }) => html`<span class="status on"><i class="dot"></i>${text}</span>`;

function Status() {
  const isBench = route.value.view === "workbench";
  if (state.file) return html`<span class="status">saved file</span>`;
  if (live.value === "lost")
    return html`<span class="status lost" role="status">connection lost, reconnecting</span>`;
  if (!isBench) return live.value === "on" && html`<${Good} text="live" />`;
  if (state.following.value) return html`<${Good} text="following" />`;
  const more = state.unseen.value;
  return html`<button class="status" onClick=${state.goHead} title="Go to the head and follow (g)">
    ${more ? `${state.number(more)} new` : "follow"}
  </button>`;
}

function Crumb({ one }) {
  const title = state.title.value;
  const facts = [one.about.cwd, title !== one.name && title].filter(Boolean);
  return html`<span class="crumb clip">
    / <b>${one.name}</b>${facts.map((part) => ` · ${part}`)}
  </span>`;
}

function Top() {
  const one = route.value.view === "workbench" && state.agent.value;
  return html`<header class="top strip">
    <b class="brand"><${Page} to=${`${root}/`}>backstory<//></b>
    ${one && html`<${Crumb} one=${one} />`}
    <span class="gap"></span>
    <button class="search" onClick=${() => state.show("search")}>Search <kbd>/</kbd></button>
    <${Status} />
    <span class="mode hint" title=${state.user ? `as ${state.user}` : ""}
      >${state.canWrite ? "can write" : "read only"}</span
    >
    <button class="icon" aria-label="Light or dark" onClick=${turn}>
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
        <circle cx="8" cy="8" r="6.5" fill="none" stroke="currentColor" stroke-width="1.5" />
        <path d="M8 1.5a6.5 6.5 0 0 1 0 13z" fill="currentColor" />
      </svg>
    </button>
    <button class="icon" aria-label="All keys" onClick=${() => state.show("help")}>?</button>
  </header>`;
}

const Alert = () =>
  html`<div class="alert strip" role="alert">
    ${failure.value}
    <button onClick=${state.setTo(failure, "")}>Close</button>
  </div>`;

function Toast({ of: { text, action, run } }) {
  const act = () => {
    toast.value = null;
    run();
  };
  return html`<div class="toast strip" role="status">
    ${text} ${action && html`<button onClick=${act}>${action}</button>`}
    <button onClick=${state.setTo(toast, null)}>Close</button>
  </div>`;
}

const Missing = () =>
  html`<main class="plain">
    <h1>There is nothing at this address</h1>
    <p><a href=${`${root}/`}>All sessions</a></p>
  </main>`;

const VIEWS = { workbench: Workbench, sessions: Sessions, check: Check, missing: Missing };
const DIALOGS = { search: Search, help: Help, move: Move, locked: Locked, overview: Overview };

function App() {
  const view = VIEWS[route.value.view];
  const over = dialog.value;
  return html`<${Top} /> ${failure.value && html`<${Alert} />`} ${view && html`<${view} />`}
    ${over && html`<${DIALOGS[over.name]} key=${over.name} over=${over} />`}
    ${toast.value && html`<${Toast} of=${toast.value} />`}`;
}

window.addEventListener("keydown", (event) => {
  if (!dialog.value && pressed(event)) event.preventDefault();
});

takeKey()
  .then(() => {
    route.value = state.parse(window.location);
    if (!state.file) listen(hear);
  })
  .catch((error) => {
    route.value = { view: "none" };
    state.trouble(error);
  });
render(h(App), document.getElementById("app"));
