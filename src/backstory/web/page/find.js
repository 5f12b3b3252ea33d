/** Find in this lineage: every position, dead ones and those that never were on the screen too. */
import { useEffect, useRef } from "./components.js";
import html from "./html.js";
import * as state from "./state.js";
import { find, cursor } from "./state.js";
import { useLater } from "./parts.js";

const load = state.fetcher(async (q, stop) => {
  let positions = [];
  let next = 0;
  while (next !== null && positions.length < 5000) {
    const found = await state.ask(`/agents/${state.here()}/find?q=${encodeURIComponent(q)}&after=${next}`, { signal: stop });
    positions = positions.concat(found.positions);
    next = found.next;
    if (find.value?.q === q) find.value = { q, positions, next };
  }
  if (positions.length && !positions.includes(cursor.value)) nextHit(1);
});

/** To the next hit, or the one before; it wraps. */
export function nextHit(by) {
  const { positions } = find.value || { positions: [] };
  if (!positions.length) return;
  const later = positions.findIndex((seq) => seq > cursor.value);
  const earlier = positions.findLastIndex((seq) => seq < cursor.value);
  const place = by > 0 ? (later < 0 ? 0 : later) : (earlier < 0 ? positions.length - 1 : earlier);
  state.go(positions[place], { jump: true });
}

export default function Find() {
  const box = useRef(null);
  const { q, positions, next } = find.value;
  useEffect(() => { box.current.focus(); }, []);
  useLater(q ? 200 : 0, () => load(q), [q, state.here()]);
  const place = positions.indexOf(cursor.value);
  const onKey = (event) => {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { event.stopPropagation(); find.value = null; /** @type {HTMLElement} */ (document.querySelector(".rows")).focus(); }
  };
  return html`<div class="find" role="search"><input ref=${box} type="search" value=${q} aria-label="Find in this lineage" placeholder="Find in this lineage" onKeyDown=${onKey}
      onInput=${(event) => { find.value = { q: event.target.value, positions: [], next: 0 }; state.remember(false); }} />
    <span role="status">${q ? `${place >= 0 ? `${place + 1} of ` : ""}${state.number(positions.length)}${next === null ? "" : " …"}` : ""}</span>
    <button onClick=${() => nextHit(-1)} aria-label="Earlier">↑</button><button onClick=${() => nextHit(1)} aria-label="Later">↓</button>
    <button onClick=${() => { find.value = null; }} aria-label="Close find">Close</button></div>`;
}
