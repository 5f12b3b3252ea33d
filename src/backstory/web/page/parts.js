/** Small parts that several views are made of. */
import { h } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import htm from "htm";
import * as state from "page/state.js";
import { eventAt, go, loadEvents, openId } from "page/open_log.js";
import { number, visible } from "page/format.js";

const build = htm.bind(h);
const templates = new WeakMap(); // the texts of a template, without line breaks

/** Elements from templates: html`<p class="hint">…</p>`. A line break is a space, as in HTML and for prettier (htm alone
 *  would drop it), and nothing at the ends of a template. */
export function html(texts, ...values) {
  if (!templates.has(texts)) {
    const spaced = [...texts];
    spaced[0] = spaced[0].replace(/^\s*\n\s*/, "");
    spaced.push(spaced.pop().replace(/\s*\n\s*$/, ""));
    const joined = spaced.map((text) => text.replace(/\s*\n\s*/g, " "));
    templates.set(texts, joined);
  }
  return build(templates.get(texts), ...values);
}

/** A link that the page follows itself; with Ctrl it is the browser's own. */
function Link({ to, act, children }) {
  const onClick = (event) => {
    if (event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  };
  return html`<a href=${to} onClick=${onClick}>${children}</a>`;
}

export const Page = ({ to, children }) =>
  html`<${Link} to=${to} act=${() => state.navigate(to)}>${children}<//>`;
export const Place = ({ seq, children }) =>
  html`<${Link} to=${state.addressOf(openId.value, seq)} act=${() => go(seq, { jump: true })}
    >${children || number(seq)}<//
  >`;
export const Branch = ({ id, at = null, children }) =>
  html`<${Link} to=${state.addressOf(id, at)} act=${() => state.open(id, at)}>${children}<//>`;

export const Kind = ({ kind, name }) =>
  html`<span class="kind" style=${{ color: `var(--${state.hue(kind)})` }}
    >${name || state.WORDS[kind] || kind}</span
  >`;

/** A diamond for a sub-agent, an elbow for a fork, a dot for a root. */
export const Shape = ({ of, depth }) =>
  html`<svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
    <path
      d=${of.spawned ? "M5 1 9 5 5 9 1 5z" : depth ? "M2 0v5h7" : "M5 1a4 4 0 1 0 .1 0z"}
      fill=${depth && !of.spawned ? "none" : "currentColor"}
      stroke="currentColor"
    />
  </svg>`;

/** A quiet button that is on or off. */
export const Chip = ({ name, count, isOn, onClick }) =>
  html`<button class="chip quiet" aria-pressed=${isOn} onClick=${onClick}>
    ${name}${count > 0 && html` <small>${number(count)}</small>`}
  </button>`;

/** A table. Columns whose name begins with # hold numbers. */
export function Table({ head, rows }) {
  const side = (place) => (head[place][0] === "#" ? "n" : undefined);
  const show = (cell) => (typeof cell === "number" ? number(cell) : cell);
  const write = (tag, cells) =>
    h(
      "tr",
      null,
      cells.map((cell, place) => h(tag, { class: side(place) }, show(cell))),
    );
  return html`<table>
    <thead>
      ${write(
        "th",
        head.map((title) => title.replace("#", "")),
      )}
    </thead>
    <tbody>
      ${rows.map((cells) => write("td", cells))}
    </tbody>
  </table>`;
}

/** Turns the pages of a list, `most` to a page, if it has more than one. */
export const Pager = ({ name, first, most, total, turn }) =>
  total > most &&
  html`<p class="facts">
    <button disabled=${!first} onClick=${() => turn(Math.max(0, first - most))}>Earlier</button>
    <span
      >${name} ${number(first + 1)}–${number(Math.min(total, first + most))} of
      ${number(total)}</span
    >
    <button disabled=${first + most >= total} onClick=${() => turn(first + most)}>Later</button>
  </p>`;

export const Json = ({ value }) =>
  html`<pre tabindex="0">${visible(JSON.stringify(value, null, 2))}</pre>`;

/** Calls `act` when its needs have been the same for a while; a change aborts it. */
export const useLater = (milliseconds, act, needs) =>
  useEffect(() => {
    const stop = new AbortController();
    const run = async () => act(stop.signal);
    const waiting = setTimeout(() => run().catch(state.trouble), milliseconds);
    return () => {
      clearTimeout(waiting);
      stop.abort();
    };
  }, needs);

/** Asks for some events in full that are not here yet. Returns which. */
export function useEvents(seqs) {
  const missing = seqs.filter((seq) => seq && !eventAt(seq));
  const load = (stop) => (missing.length ? loadEvents(missing, { stop }) : undefined);
  useLater(40, load, [missing.join(","), openId.value]);
  return missing;
}

export const useSize = (ref, act) =>
  useEffect(() => {
    const watcher = new ResizeObserver(() => {
      if (ref.current) act(ref.current);
    });
    watcher.observe(ref.current);
    return () => watcher.disconnect();
  }, []);

export async function copy(text, what, shown = `: ${text}`) {
  await navigator.clipboard.writeText(text).catch(() => {});
  state.toast.value = { text: `${what} copied${shown}` };
}

/** Returns the answer of `path` as {value, error}. Until it comes, the last answer of the same topic stays. */
export function useAnswer(path, { topic = path, delay = 0 } = {}) {
  const [answer, setAnswer] = useState({});
  const load = async (stop) => {
    if (!path) return;
    try {
      setAnswer({ topic, value: await state.ask(path, { signal: stop }) });
    } catch (error) {
      if (!stop.aborted) setAnswer({ topic, error });
    }
  };
  useLater(delay, load, [path]);
  return answer.topic === topic ? answer : {};
}

/** The same from a row on: {value, error, after, turn}; `turn` goes to another row. */
export function usePages(path, delay) {
  const [place, setPlace] = useState({ path, after: 0 });
  const after = place.path === path ? place.after : 0;
  const answer = useAnswer(path && `${path}&after=${after}`, { topic: path, delay });
  return { ...answer, after, turn: (next) => setPlace({ path, after: next }) };
}

/** Says what is awaited, or what went wrong instead. */
export const Waiting = ({ error, text }) =>
  error
    ? html`<p class="problem" role="alert">${error.message}</p>`
    : html`<p class="hint">${text}</p>`;

/** The browser's own dialog: Esc closes it, and the focus goes back. */
export function Overlay({ label, children, locked, ...more }) {
  const box = useRef(null);
  useLayoutEffect(() => {
    const dialog = box.current;
    dialog.showModal();
    return () => dialog.close(); // before it is removed: then the focus goes back
  }, []);
  const leave = () => {
    if (!locked) close();
  };
  const onCancel = (event) => {
    event.preventDefault();
    leave();
  };
  const onClick = (event) => {
    if (event.target === box.current) leave();
  };
  return h("dialog", { ref: box, "aria-label": label, onCancel, onClick, ...more }, children);
}

export const close = () => {
  state.dialog.value = null;
};

export const Closing = () => html`<p class="buttons"><button onClick=${close}>Close</button></p>`;
