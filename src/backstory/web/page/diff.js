/** Two contexts side by side: where they part, and what each has of its own. */
import { h } from "preact";
import * as state from "page/state.js";
import { cursor, openId, pin, reference, remember } from "page/open_log.js";
import { Branch, html, Kind, Pager, usePages, Waiting } from "page/parts.js";
import { number, visible, writeCount } from "page/format.js";

const CHANGES_PER_PAGE = 200;
const LONGEST = 4000; // characters of a message that are shown

const messages = (n) => writeCount(n, "message");
function textOf({ kind, content, data }) {
  if (kind !== "tool_call" || !data) return content || "";
  const given = data.arguments;
  return `${data.name}(${typeof given === "string" ? given : JSON.stringify(given)})`;
}

/** The words of one side, without the data that follow an event's text. */
function wordsOf(event, words, sign) {
  if (event.kind === "tool_call" || !words.length) return [["=", textOf(event).slice(0, LONGEST)]];
  let rest = (event.content || "").length;
  return words
    .filter(([op]) => op === "=" || op === sign)
    .flatMap(([op, text]) => {
      const shown = text.slice(0, Math.max(0, rest));
      rest -= text.length;
      return shown ? [[op, shown]] : [];
    });
}
const isCopy = ({ left, right }) =>
  left && right && left.kind === right.kind && textOf(left) === textOf(right);

/** Puts the messages of one side beside those of the other, up to the next that both have. */
function pairChanges(changes) {
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

/** As in git, the older side is red and the newer green. */
function isLeftOlder({ left, right }) {
  if (left.agent === right.agent) return left.at < right.at;
  return (
    state.agents.value.get(left.agent).created_at < state.agents.value.get(right.agent).created_at
  );
}

function Side({ event, words, sign, isOlder, id, same }) {
  if (!event) return html`<div class="card side none" aria-hidden="true"></div>`;
  const parts = wordsOf(event, words, sign).map(([op, text]) =>
    op === "=" ? visible(text) : h(isOlder ? "del" : "ins", null, visible(text)),
  );
  return html`<div class=${`card side ${same ? "" : isOlder ? "older" : "newer"}`}>
    <header>
      <${Branch} id=${id} at=${event.seq}>${number(event.seq)}<//> <${Kind} kind=${event.kind} />
    </header>
    ${same && html`<span class="badge">same text, written again</span>`}
    ${h("div", { class: "words" }, parts)}
  </div>`;
}

export function swap() {
  const to = state.otherSide.value;
  if (!to) return;
  state.pinned.value = { agent: openId.value, at: cursor.value };
  state.open(to.agent, to.at);
}

function compareWith(agent, at) {
  state.pinned.value = agent
    ? { agent: agent.id, at: Math.max(0, Math.min(at, agent.head)) }
    : null;
  remember(false);
}

function SideChoice({ to }) {
  const theirs = to && state.agents.value.get(to.agent);
  const choose = (event) => {
    const one = state.agents.value.get(event.target.value);
    compareWith(one, one?.head);
  };
  return html`<p class="facts">
    <b>${reference(cursor.value)}</b> compared with
    <select aria-label="Compare with" value=${to ? to.agent : ""} onChange=${choose}>
      <option value="">choose a branch</option>
      ${[...state.agents.value.values()].slice(0, 500).map((one) => html`<option key=${one.id} value=${one.id}>${one.name}</option>`)}
    </select>
    ${
      theirs &&
      html`<label
          >at
          <input
            type="number"
            min="0"
            max=${theirs.head}
            value=${to.at}
            onChange=${(event) => compareWith(theirs, Number(event.target.value))} /></label
        ><button onClick=${swap} title="D">Swap</button>`
    }
    <button onClick=${pin} title="d">Pin this position</button>
  </p>`;
}

function Changes({ page, after, turn }) {
  const { parted, total, common } = page;
  const isOlder = isLeftOlder(page);
  const showSide = (one, side, sign, isOlder) =>
    html`<${Side}
      event=${one[side]}
      words=${one.words}
      sign=${sign}
      isOlder=${isOlder}
      id=${page[side].agent}
      same=${isCopy(one)}
    />`;
  const showPair = (one, index) =>
    html`<div class="pair" key=${index}>
      ${showSide(one, "left", "-", isOlder)} ${showSide(one, "right", "+", !isOlder)}
    </div>`;
  return html`<p>
      ${parted ? html`The histories part after <b>${number(parted)}</b>.` : "The histories have nothing in common."}
      ${" "}${total ? `Different: ${messages(total)}.` : "The model sees no difference."}
    </p>
    ${common > 0 && html`<div class="card common">${messages(common)} in common</div>`}
    ${pairChanges(page.changes).map(showPair)}
    <${Pager}
      name="changes"
      first=${after}
      most=${CHANGES_PER_PAGE}
      total=${total}
      turn=${turn}
    />`;
}

export default function Diff() {
  const to = state.otherSide.value;
  const left = `${openId.value}@${cursor.value}`;
  const path = to && `/diff?left=${left}&right=${to.agent}@${to.at}`;
  const { value: page, error, after, turn } = usePages(path, 120);
  return html`<div class="diff">
    <${SideChoice} to=${to} />
    ${!to && html`<p class="hint">Choose a branch, or pin this position and go elsewhere.</p>`}
    ${to && !page && html`<${Waiting} error=${error} text="Comparing …" />`}
    ${page && html`<${Changes} page=${page} after=${after} turn=${turn} />`}
  </div>`;
}
