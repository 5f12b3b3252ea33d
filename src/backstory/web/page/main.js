/** The page begins here: key, address, stream, keyboard, and the frame around every view. */
import { h, render } from "preact";
import { batch, effect } from "@preact/signals";
import * as state from "page/state.js";
import { route, agents, dialog, toast, failure, live, root } from "page/state.js";
import {
  catchUp,
  cursor,
  following,
  goHead,
  loadLog,
  log,
  openAgent,
  openId,
  readTo,
  newCount,
} from "page/open_log.js";
import { number } from "page/format.js";
import { Closing, html, Overlay, Page } from "page/parts.js";
import { darkness, look } from "page/lanes.js";
import { Workbench } from "page/workbench.js";
import Sessions from "page/sessions.js";
import Check from "page/check.js";
import Search from "page/search.js";
import Move from "page/moves.js";
import Overview from "page/overview.js";
import { COMMANDS, letters, pressKey } from "page/keys.js";
import { listen } from "page/live.js";

// --- the key: the code in an address works once, and leaves the address at once ---

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
    if (error.status !== 401 || !state.readKey()) throw error; // the address was used, but the key is known
  }
}

// --- the address ---

let openRoute = null; // the route whose log is shown

async function arrive(to) {
  failure.value = "";
  if (to.view === "reference") {
    const ref = encodeURIComponent(decodeURIComponent(to.ref));
    const found = await state.ask(`/resolve?ref=${ref}`);
    if (route.peek() !== to) return;
    const at = found.at === null ? "" : `@${found.at}`;
    state.navigate(`${root}/s/${found.session}/a/${found.agent}${at}`, true);
    return;
  }
  if (to.view !== "workbench") return;
  if (!agents.peek().has(to.agent)) await state.loadAgents(to.session);
  if (route.peek() !== to) return;
  const found = [...agents.peek().values()].filter((one) => one.id.startsWith(to.agent));
  if (found.length !== 1)
    throw new state.Failed(404, { error: `There is no agent ${to.agent} in this session.` });
  const [{ id, session }] = found;
  if (id !== to.agent || session !== to.session) {
    route.value = { ...to, agent: id, session };
    return;
  }
  await loadLog(id, (next) => {
    if (route.peek() !== to) return;
    const isKnown = openRoute === to && openId.value === id && log.value.head === next.head;
    if (isKnown) log.value = next;
    else openAt(to, next);
    openRoute = to;
  });
}

function openAt(to, next) {
  const [id, at] = (to.with || "").split("@");
  batch(() => {
    log.value = next;
    readTo.value = next.head;
    state.domain.value = null;
    following.value = to.at === null;
    cursor.value = Math.min(to.at ?? next.head, next.head);
    state.pane.value = to.pane;
    state.format.value = to.format || "";
    if (agents.value.has(id)) state.pinned.value = { agent: id, at: Number(at) || 0 };
    if (to.q) state.find.value = { q: to.q, positions: [], next: 0 };
  });
  const [asked, head] = [to.at || 0, next.head].map(number);
  if (to.at > next.head) failure.value = `Position ${asked} is after the head, ${head}.`;
}

effect(() => {
  const one = route.value.view === "workbench" && openAgent.value;
  document.title = one ? `${state.title.value || one.name} · backstory` : "backstory";
});

effect(() => {
  const to = route.value;
  arrive(to).catch((error) => {
    if (route.peek() !== to) return;
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
  if (view === "workbench") await catchUp();
  if (live.value === "lost") failure.value = "";
  live.value = "on";
}

function hearHeads(heads) {
  const { session } = route.peek();
  const known = agents.peek();
  state.newHeads.value = heads;
  const mine = known.size ? heads.filter((one) => one.session === session) : [];
  if (mine.some((one) => !known.has(one.agent))) state.loadAgents(session).catch(state.trouble);
  else if (mine.some((one) => known.get(one.agent).head !== one.head)) {
    const next = new Map(known);
    for (const one of mine) next.set(one.agent, { ...next.get(one.agent), ...one });
    agents.value = next;
  }
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
  if (state.file) return html`<span class="status">saved file</span>`;
  if (live.value === "lost")
    return html`<span class="status lost" role="status">connection lost, reconnecting</span>`;
  if (route.value.view !== "workbench") return live.value === "on" && html`<${Good} text="live" />`;
  if (following.value) return html`<${Good} text="following" />`;
  const more = newCount.value;
  return html`<button class="status" onClick=${goHead} title="Go to the head and follow (g)">
    ${more ? `${number(more)} new` : "follow"}
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
  const one = route.value.view === "workbench" && openAgent.value;
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

// --- all keys; and what to do without a key ---

const KEY_NAMES = {
  " ": "space",
  ArrowLeft: "←",
  ArrowRight: "→",
  PageDown: "PgDn",
  PageUp: "PgUp",
};
const MORE_KEYS = [
  ["⌘K", "Search everything"],
  ["Ctrl-F", "Find in this lineage"],
  ["Esc", "Close"],
];

const Locked = ({ over }) =>
  html`<${Overlay} label="No access" locked=${true} class="move"
    ><h2>No access</h2>
    <p>${over.why}</p><//
  >`;

function Help() {
  const toggle = (event) => {
    letters.value = event.target.checked;
    localStorage.setItem("letters", letters.value ? "on" : "off");
  };
  return html`<${Overlay} label="All keys" class="help"
    ><h2>Keys</h2>
    <dl>
      ${[...COMMANDS, ...MORE_KEYS].map(
        ([key, what]) =>
          html`<div key=${key}>
            <dt><kbd>${KEY_NAMES[key] || key}</kbd></dt>
            <dd>${what}</dd>
          </div>`,
      )}
    </dl>
    <label
      ><input type="checkbox" checked=${letters.value} onChange=${toggle} /> Use single-letter
      keys</label
    >
    <${Closing}
  /><//>`;
}

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
  if (!dialog.value && pressKey(event)) event.preventDefault();
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
