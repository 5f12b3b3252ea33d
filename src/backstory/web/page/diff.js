/** Two contexts side by side: where they part, and what each has of its own. */
import { h } from "preact";
import { signal } from "@preact/signals";
import html from "page/html.js";
import * as state from "page/state.js";
import { agents, cursor, other, number } from "page/state.js";
import { Branch, Kind, useLater } from "page/parts.js";
import { visible } from "page/format.js";

const found = signal(null);
const LONGEST = 4000; // characters of a message that are shown

const load = state.fetcher(async (name, stop) => {
  const [left, right, after] = name.split(" ");
  const page = await state.ask(`/diff?left=${left}&right=${right}&after=${after}`, {
    signal: stop,
  });
  const before = Number(after) && found.value ? found.value.changes : [];
  found.value = { ...page, changes: [...before, ...page.changes], name: `${left} ${right}` };
});

const messages = (n) => state.counted(n, "message");
const textOf = (event) => {
  if (event.kind === "tool_call" && event.data) {
    return `${event.data.name}(${typeof event.data.arguments === "string" ? event.data.arguments : JSON.stringify(event.data.arguments)})`;
  }
  return event.content || "";
};

/** The words of one side. Behind an event's text its data stand: they are for machines, and left out; a call is shown as it reads. */
function wordsOf(event, words, sign) {
  if (event.kind === "tool_call" || !words.length) return [["=", textOf(event).slice(0, LONGEST)]];
  let rest = (event.content || "").length;
  return words
    .filter(([op]) => op === "=" || op === sign)
    .flatMap(([op, text]) => {
      const kept = text.slice(0, Math.max(0, rest));
      rest -= text.length;
      return kept ? [[op, kept]] : [];
    });
}
const isCopy = ({ left, right }) =>
  left && right && left.kind === right.kind && textOf(left) === textOf(right);

/** What only one side has stands beside what only the other has, up to the next message that both have. */
function paired(changes) {
  const rows = [];
  let from = 0;
  for (const one of changes) {
    const side = one.left ? "left" : "right";
    const free = rows.findIndex((row, place) => place >= from && !row[side]);
    if (one.left && one.right) from = rows.push(one);
    else if (free < 0) rows.push({ ...one });
    else rows[free][side] = one[side];
  }
  return rows;
}

/** Whether the cursor's side is the older one: git's colours, red for the older and green for the newer. */
function isLeftOlder(page) {
  const [left, right] = [page.left, page.right];
  if (left.agent === right.agent) return left.at < right.at;
  const [one, another] = [agents.value.get(left.agent), agents.value.get(right.agent)];
  return one.created_at < another.created_at;
}

function Side({ event, words, sign, isOlder, id, same }) {
  if (!event) return html`<div class="side none" aria-hidden="true"></div>`;
  const parts = wordsOf(event, words, sign).map(([op, text]) =>
    op === "=" ? visible(text) : h(isOlder ? "del" : "ins", null, visible(text)),
  );
  return html`<div class=${`side ${same ? "" : isOlder ? "older" : "newer"}`}>
    <header>
      <${Branch} id=${id} at=${event.seq}>${event.seq}<//> <${Kind} kind=${event.kind} />
    </header>
    ${same && html`<span class="badge">same text, written again</span>`}
    ${h("div", { class: "words" }, parts)}
  </div>`;
}

export function pin() {
  state.pin();
  state.toast.value = { text: `Comparing with ${state.reference(cursor.value)} from now on` };
}
export function swap() {
  const to = other.value;
  if (!to) return;
  state.pin();
  state.open(to.agent, to.at);
}

export default function Diff() {
  const to = other.value;
  const name =
    to && state.shown.value ? `${state.shown.value}@${cursor.value} ${to.agent}@${to.at}` : "";
  useLater(
    120,
    () => {
      if (name) load(`${name} 0`);
    },
    [name],
  );
  const choose = (event) => {
    const one = agents.value.get(event.target.value);
    other.value = one ? { agent: one.id, at: one.head } : null;
    state.remember(false);
  };
  const page = found.value?.name === name ? found.value : null;
  const theirs = to && agents.value.get(to.agent);
  return html`<div class="diff">
    <p class="facts">
      <b>${state.reference(cursor.value)}</b> compared with
      <select aria-label="Compare with" value=${to ? to.agent : ""} onChange=${choose}>
        <option value="">choose a branch</option>
        ${[...agents.value.values()].slice(0, 500).map((one) => html`<option key=${one.id} value=${one.id}>${one.name}</option>`)}
      </select>
      ${
        to &&
        html`<label
            >at
            <input
              type="number"
              min="0"
              max=${theirs ? theirs.head : to.at}
              value=${to.at}
              onChange=${(event) => {
                other.value = {
                  ...to,
                  at: Math.max(0, Math.min(Number(event.target.value), theirs ? theirs.head : 0)),
                };
                state.remember(false);
              }} /></label
          ><button onClick=${swap} title="D">Swap</button>`
      }
      <button onClick=${pin} title="d">Pin this position</button>
    </p>
    ${!to && html`<p class="hint">Choose a branch, or pin this position and go elsewhere.</p>`}
    ${to && !page && html`<p class="hint">Comparing …</p>`}
    ${
      page &&
      html`<p>
          ${page.parted ? html`The histories part after <b>${number(page.parted)}</b>.` : "The histories have nothing in common."}
          ${" "}${page.total ? `Different: ${messages(page.total)}.` : "The model sees no difference."}
        </p>
        ${page.common > 0 && html`<div class="common">${messages(page.common)} in common</div>`}
        ${paired(page.changes).map(
          (one, index) =>
            html`<div class="pair" key=${index}>
              <${Side}
                event=${one.left}
                words=${one.words}
                sign="-"
                isOlder=${isLeftOlder(page)}
                id=${page.left.agent}
                same=${isCopy(one)}
              /><${Side}
                event=${one.right}
                words=${one.words}
                sign="+"
                isOlder=${!isLeftOlder(page)}
                id=${page.right.agent}
                same=${isCopy(one)}
              />
            </div>`,
        )}
        ${page.changes.length < page.total && html`<button onClick=${() => load(`${name} ${page.changes.length}`)}>Show more changes</button>`}`
    }
  </div>`;
}
