/** Small parts that several views are made of. */
import { h } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import html from "page/html.js";
import * as state from "page/state.js";

/** A link that the page follows itself; with Ctrl it is the browser's own. */
const Link = ({ to, act, children }) =>
  html`<a
    href=${to}
    onClick=${(event) => {
      if (event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      act();
    }}
    >${children}</a
  >`;

export const Page = ({ to, children }) =>
  html`<${Link} to=${to} act=${() => state.navigate(to)}>${children}<//>`;
export const Place = ({ seq, children }) =>
  html`<${Link} to=${state.addressOf(state.here(), seq)} act=${() => state.go(seq, { jump: true })}
    >${children?.length ? children : seq}<//
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

/** A table. Columns whose name begins with # hold numbers. */
export const Table = ({ head, rows, name }) => {
  const side = (place) => (head[place][0] === "#" ? "n" : undefined);
  return html`<table class=${name}>
    <thead>
      <tr>
        ${head.map((title, place) => html`<th key=${place} class=${side(place)}>${title.replace("#", "")}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        (cells, row) =>
          html`<tr key=${row}>
            ${cells.map((cell, place) => html`<td key=${place} class=${side(place)}>${typeof cell === "number" ? state.number(cell) : cell}</td>`)}
          </tr>`,
      )}
    </tbody>
  </table>`;
};

/** Turns the pages of a list, `most` to a page, if it has more than one. */
export const Pager = ({ name, first, most, total, turn }) =>
  total > most &&
  html`<p class="facts">
    <button disabled=${!first} onClick=${() => turn(Math.max(0, first - most))}>Earlier</button>
    <span
      >${name} ${state.number(first + 1)}–${state.number(Math.min(total, first + most))} of
      ${state.number(total)}</span
    >
    <button disabled=${first + most >= total} onClick=${() => turn(first + most)}>Later</button>
  </p>`;

/** Does something when what it needs has stayed the same for a while. */
export const useLater = (milliseconds, act, needs) =>
  useEffect(() => {
    const waiting = setTimeout(act, milliseconds);
    return () => clearTimeout(waiting);
  }, needs);

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

/** Returns the answer of `path` as {value, error, isLoading}. A new path cancels the request before it. */
export function useAnswer(path, { delay = 0, again = 0 } = {}) {
  const [answer, setAnswer] = useState({ path: "", value: null, error: null });
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    const load = async () => {
      try {
        setAnswer({ path, value: await state.ask(path, { signal: stop.signal }), error: null });
      } catch (error) {
        if (!stop.signal.aborted) setAnswer({ path, value: null, error });
      }
    };
    const timer = setTimeout(load, delay);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [path, again]);
  const isLoading = Boolean(path) && answer.path !== path; // the answer to another path is never shown
  return {
    isLoading,
    value: isLoading ? null : answer.value,
    error: isLoading ? null : answer.error,
  };
}

/** A dialog of the browser's own: Esc closes it, and the focus goes back to where it was. */
export function Overlay({ label, children, locked, ...more }) {
  const box = useRef(null);
  useLayoutEffect(() => {
    const dialog = box.current;
    dialog.showModal();
    return () => dialog.close(); // before it is removed: then the focus goes back
  }, []);
  return h(
    "dialog",
    {
      ref: box,
      "aria-label": label,
      onCancel: (event) => {
        event.preventDefault();
        if (!locked) close();
      },
      onClick: (event) => {
        if (event.target === box.current && !locked) close();
      },
      ...more,
    },
    children,
  );
}

export function close() {
  state.dialog.value = null;
}
