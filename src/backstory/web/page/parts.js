/** Small parts that several views are made of. */
import { useEffect } from "./components.js";
import html from "./html.js";
import * as state from "./state.js";

/** A link that the page follows itself; with Ctrl it is the browser's own. */
const Link = ({ to, act, children }) => html`<a href=${to} onClick=${(event) => {
  if (event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  act();
}}>${children}</a>`;

/** To a page of ours. */
export const Page = ({ to, children }) => html`<${Link} to=${to} act=${() => state.navigate(to)}>${children}<//>`;
/** To a position of the open agent. */
export const Place = ({ seq, children }) => html`<${Link} to=${state.addressOf(state.here(), seq)} act=${() => state.go(seq, { jump: true })}>${children?.length ? children : seq}<//>`;
/** To an agent, at its head or a position. */
export const Branch = ({ id, at = null, children }) => html`<${Link} to=${state.addressOf(id, at)} act=${() => state.open(id, at)}>${children}<//>`;

export const Kind = ({ kind, name }) => html`<span class="kind" style=${{ color: `var(--${state.hue(kind)})` }}>${name || state.WORDS[kind] || kind}</span>`;

/** A diamond for a sub-agent, an elbow for a fork, a dot for a root. */
export const Shape = ({ of, depth }) => html`<svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true"><path d=${of.spawned ? "M5 1 9 5 5 9 1 5z" : depth ? "M2 0v5h7" : "M5 1a4 4 0 1 0 .1 0z"}
  fill=${depth && !of.spawned ? "none" : "currentColor"} stroke="currentColor" /></svg>`;

/** A table. Columns whose name begins with # hold numbers. */
export const Table = ({ head, rows, name }) => {
  const side = (place) => (head[place][0] === "#" ? "n" : undefined);
  return html`<table class=${name}><thead><tr>${head.map((title, place) => html`<th key=${place} class=${side(place)}>${title.replace("#", "")}</th>`)}</tr></thead>
    <tbody>${rows.map((cells, row) => html`<tr key=${row}>${cells.map((cell, place) => html`<td key=${place} class=${side(place)}>${typeof cell === "number" ? state.number(cell) : cell}</td>`)}</tr>`)}</tbody></table>`;
};

/** Does something when what it needs has stayed the same for a while. */
export const useLater = (milliseconds, act, needs) => useEffect(() => {
  const waiting = setTimeout(act, milliseconds);
  return () => clearTimeout(waiting);
}, needs);

/** Does something whenever an element gets another size. */
export const useSize = (ref, act) => useEffect(() => {
  const watcher = new ResizeObserver(() => { if (ref.current) act(ref.current); });
  watcher.observe(ref.current);
  return () => watcher.disconnect();
}, []);

export async function copy(text, what) {
  await navigator.clipboard.writeText(text).catch(() => {});
  state.toast.value = { text: `${what} copied: ${text}` };
}

/** Control and direction characters, shown and not obeyed. */
export const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g,
  (c) => `<U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
