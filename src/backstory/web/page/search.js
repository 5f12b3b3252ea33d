/** One box for everything: events of all sessions, agents, marks, positions and commands. */
import { signal, useEffect, useRef } from "./components.js";
import html from "./html.js";
import * as state from "./state.js";
import { close, Overlay } from "./overlay.js";
import { COMMANDS } from "./keys.js";
import { useLater } from "./parts.js";

const text = signal("");
const hits = signal([]);
const next = signal(null); // where the following page begins
const note = signal("");
const place = signal(0);

const load = state.fetcher(async (asked, stop) => {
  const { q, after } = JSON.parse(asked);
  for (;;) {
    const found = await state.ask(`/search?q=${encodeURIComponent(q)}&after=${after}`, { signal: stop });
    hits.value = after ? [...hits.value, ...found.hits] : found.hits;
    next.value = found.next;
    note.value = found.behind ? `The index has ${state.number(found.done)} of ${state.number(found.total)} events so far.` : found.hits.length || after ? "" : "No event matches.";
    if (!found.behind || after) return;
    await new Promise((done) => setTimeout(done, 1000));
    if (stop.aborted) return;
  }
});
const more = () => load(JSON.stringify({ q: text.value.trim(), after: next.value }));

/** What of the open session fits: agents, marks, a position, a command. */
function near(asked) {
  const low = asked.toLowerCase();
  const found = [];
  if (/^@?\d+$/.test(asked) && state.agent.value) {
    const at = Number(asked.replace("@", ""));
    found.push({ title: `Go to position ${state.number(at)}`, what: state.agent.value.name, run: () => state.go(at, { jump: true }) });
  }
  for (const one of state.agents.value.values()) {
    if (found.length < 6 && one.name.toLowerCase().includes(low)) found.push({ title: one.name, what: one.spawned ? "sub-agent" : "branch", run: () => state.open(one.id) });
    for (const mark of one.marks) {
      if (found.length < 8 && mark.label && mark.label.toLowerCase().includes(low)) found.push({ title: mark.label, what: `mark, ${one.name}@${mark.seq}`, run: () => state.open(one.id, mark.seq) });
    }
  }
  for (const [keys, what, run] of COMMANDS) if (found.length < 12 && what.toLowerCase().includes(low)) found.push({ title: what, what: `command, ${keys}`, run });
  found.push({ title: `Open the reference ${asked}`, what: "reference", run: () => state.navigate(`${state.root}/r/${encodeURIComponent(asked)}`) });
  return found;
}

const openHit = (hit) => ({ run: () => state.navigate(`${state.root}/s/${hit.session}/a/${hit.agent}@${hit.seq}?pane=event`) });

function Marked({ hit }) {
  const parts = [];
  let end = 0;
  for (const [low, high] of hit.spans) {
    parts.push(hit.snippet.slice(end, low), html`<mark key=${low}>${hit.snippet.slice(low, high)}</mark>`);
    end = high;
  }
  return html`<span class="snippet">${parts}${hit.snippet.slice(end)}</span>`;
}

export default function Search() {
  const box = useRef(null);
  const asked = text.value.trim();
  useEffect(() => {
    if (box.current) { box.current.focus(); box.current.select(); }
  }, []);
  useEffect(() => {
    place.value = 0;
    if (!asked) { hits.value = []; next.value = null; note.value = ""; }
  }, [asked]);
  useLater(asked ? 150 : 0, () => load(asked && JSON.stringify({ q: asked, after: 0 })), [asked]);
  const local = asked ? near(asked) : [];
  const all = [...hits.value.map((hit) => ({ hit, ...openHit(hit) })), ...local];
  const choose = (one) => { close(); one.run(); };
  const onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && all.length) {
      event.preventDefault();
      place.value = (place.value + step + all.length) % all.length;
      document.getElementById(`hit-${place.value}`)?.scrollIntoView({ block: "nearest" });
    }
    if (event.key === "Escape") { event.preventDefault(); close(); }
    if (event.key === "Enter" && all[place.value]) choose(all[place.value]);
  };
  return html`<${Overlay} label="Search" class="search-box"><input ref=${box} type="search" value=${text.value} placeholder="Words, a branch, a mark, a position, a command" aria-label="Search"
      role="combobox" aria-expanded=${all.length > 0} aria-controls="hits" aria-activedescendant=${all.length ? `hit-${place.value}` : undefined}
      onInput=${(event) => { text.value = event.target.value; }} onKeyDown=${onKey} />
    <p class="hint" role="status">${note.value || (asked ? "" : 'All words must match. Use "quotes" for a phrase, begin* for a prefix.')}</p>
    <div id="hits" role="listbox" aria-label="Results">${all.map((one, index) => html`<div role="option" id=${`hit-${index}`} key=${index} class="result" aria-selected=${index === place.value}
      onClick=${() => choose(one)} onMouseMove=${() => { place.value = index; }}>
      ${one.hit ? html`<small>${one.hit.ref} · ${state.WORDS[one.hit.kind] || one.hit.kind}${one.hit.live ? "" : " · left behind"}</small><${Marked} hit=${one.hit} />`
        : html`<span>${one.title}</span><small>${one.what}</small>`}</div>`)}</div>
    ${next.value !== null && hits.value.length > 0 && html`<button class="more" onClick=${more}>Show more events</button>`}<//>`;
}
