/** The sessions, the latest written first. */
import { signal, useEffect } from "./components.js";
import html from "./html.js";
import * as state from "./state.js";
import { number } from "./state.js";
import { Page } from "./parts.js";

const found = signal(null);
const more = signal(false);
const text = signal("");
const visited = Number(localStorage.getItem("visited") || 0);
localStorage.setItem("visited", String(Date.now()));

/** @type {[number, string][]} */
const UNITS = [[31557600, "y"], [2629800, "mo"], [86400, "d"], [3600, "h"], [60, "min"]];

export function age(stamp) {
  const seconds = (Date.now() - Date.parse(stamp)) / 1000;
  for (const [size, unit] of UNITS) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return "now";
}

async function load(before) {
  const page = await state.ask(`/sessions${before ? `?before=${before}` : ""}`);
  found.value = before ? [...found.value, ...page.sessions] : page.sessions;
  more.value = page.more;
}

const curves = signal(new Map());
/** One at a time, for the sessions that are listed: each is drawn when it is there. */
const loadCurves = state.fetcher(async (name, stop) => {
  for (const id of name.split(",")) {
    if (curves.value.has(id)) continue;
    const { curve } = await state.ask(`/sessions/${id.split("@")[0]}/curve`, { signal: stop });
    curves.value = new Map(curves.value).set(id, curve);
  }
});
const curveName = (one) => `${one.id}@${one.events}`;

/** How the context grew and shrank. */
function Sparkline({ curve }) {
  const most = Math.max(1, ...curve);
  const points = curve.map((size, n) => `${(n * 70) / Math.max(1, curve.length - 1)},${17 - (size / most) * 15}`).join(" ");
  return html`<svg class="spark" viewBox="0 0 70 18" width="70" height="18" aria-hidden="true"><polygon points=${`-1,20 ${points} 71,20`} /></svg>`;
}

export default function Sessions() {
  useEffect(() => {
    state.log.value = { ...state.log.value, head: 0 };
    load().catch(state.trouble);
  }, [state.fresh.value]);
  useEffect(() => { if (found.value?.length) loadCurves(found.value.map(curveName).join(",")); }, [found.value]);
  if (!found.value) return html`<main class="plain"><p class="hint">Loading …</p></main>`;
  const asked = text.value.toLowerCase();
  const rows = found.value.filter((one) => `${one.title} ${one.name} ${one.prompt} ${one.tags.join(" ")}`.toLowerCase().includes(asked));
  const isOld = (one) => Date.parse(one.updated_at) < visited;
  const line = visited && rows.some(isOld) && !isOld(rows[0]) ? rows.findIndex(isOld) : -1;
  return html`<main class="plain wide"><h1>Sessions</h1>
    <p class="facts"><input class="filter" type="search" placeholder="Filter" aria-label="Filter sessions" onInput=${(event) => { text.value = event.target.value; }} />${!state.file && html`<${Page} to=${`${state.root}/check`}>Check the store<//>`}</p>
    ${!found.value.length && html`<p class="hint">There is nothing in this store yet. Start with <code>backstory chat</code> or <code>backstory new</code>.</p>`}
    <table class="sessions"><thead><tr><th>Title</th><th>First prompt</th><th class="n">Branches</th><th class="n">Events</th><th class="n">Context</th><th class="n">Written</th></tr></thead>
    <tbody>${rows.map((one, index) => html`<tr key=${one.id} class=${`${state.fresh.value.has(one.id) ? "fresh" : ""} ${index === line ? "seen" : ""}`}>
      <td colspan=${one.prompt === one.title ? 2 : 1}><${Page} to=${`${state.root}/s/${one.id}/a/${one.latest}`}>${one.title}<//>${one.name !== one.title && one.name !== one.about.tool && html` <span class="hint">${one.name}</span>`}${one.tags.map((tag) => html` <span class="badge" key=${tag}>${tag}</span>`)}
        ${Object.keys(one.about).length > 0 && html`<small class="about">${Object.values(one.about).join(" · ")}</small>`}</td>
      ${one.prompt !== one.title && html`<td class="prompt">${one.prompt}</td>`}<td class="n">${number(one.agents)}</td><td class="n">${number(one.events)}</td>
      <td class="n">≈ ${number(one.tokens)} ${curves.value.has(curveName(one)) && html`<${Sparkline} curve=${curves.value.get(curveName(one))} />`}</td><td class="n">${age(one.updated_at)}</td></tr>`)}</tbody></table>
    ${more.value && html`<button onClick=${() => load(found.value[found.value.length - 1].id).catch(state.trouble)}>Show earlier sessions</button>`}</main>`;
}
