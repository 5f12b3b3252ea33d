/** One event for reading: its heading, its thinking, its text, and its images. */
import { h } from "preact";
import { useEffect, useState } from "preact/hooks";
import html from "page/html.js";
import * as state from "page/state.js";
import { log, number } from "page/state.js";
import { durationOf, visible } from "page/format.js";
import { Kind, Place } from "page/parts.js";

const TAGS = new Set(
  "p h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s a br hr table thead tbody tr th td span div".split(
    " ",
  ),
);

/** Whether the lines of a result have numbers already: many tools write them. */
function isNumbered(text) {
  const [one, two] = text.split("\n", 2).map((line) => /^\s*(\d+)\b/.exec(line)?.[1]);
  return one !== undefined && (two === undefined || Number(two) === Number(one) + 1);
}

/** Elements of a tree [tag, attributes, …children]. Anything that is not on the list is text. */
export function elements(node, place) {
  if (!Array.isArray(node)) return String(node);
  const [tag, attributes, ...children] = node;
  if (!TAGS.has(tag)) return children.map(elements);
  const given = { key: place, class: attributes.class, title: attributes.title };
  if (/^h[1-6]$/.test(tag))
    return h(
      "div",
      { ...given, class: `heading ${tag}`, role: "heading", "aria-level": "4" },
      children.map(elements),
    );
  if (tag === "a" && /^(https?|mailto):/i.test(attributes.href || "")) {
    Object.assign(given, { href: attributes.href, rel: "noreferrer noopener", target: "_blank" });
  }
  if (tag === "pre") given.tabIndex = 0;
  return h(tag, given, children.map(elements));
}

/** Whether this is what a tool read from a file: its lines get numbers. */
function isRead(seq, tree) {
  const call = state.eventAt(log.value.partner[seq - 1]);
  const text = tree.length === 1 && tree[0][0] === "pre" ? tree[0][2] : null;
  return call?.view.tool === "read" && typeof text === "string" && !isNumbered(text);
}

const Lines = ({ text }) =>
  h(
    "pre",
    { class: "numbered", tabIndex: 0 },
    text.split("\n").map((line, index) => h("span", { key: index }, `${line}\n`)),
  );

function Outcome({ seq }) {
  const result = log.value.partner[seq - 1];
  if (!result || result < seq) return null;
  const seconds = log.value.times[result - 1] - log.value.times[seq - 1];
  const failed = log.value.errors.has(result);
  return html`<span class=${failed ? "outcome failed" : "outcome"}
    >${failed ? "✗ failed" : "✓"} ${durationOf(seconds)}</span
  >`;
}

function Thinking({ tree, size }) {
  const [isOpen, setOpen] = useState(false);
  return html`<details
    class="thinking"
    open=${isOpen}
    onToggle=${(event) => setOpen(event.currentTarget.open)}
  >
    <summary>thinking (${number(size)} characters)</summary>
    ${isOpen && html`<div class="body">${tree.map(elements)}</div>`}
  </details>`;
}

function Text({ seq, event, open }) {
  const [unfolded, unfold] = useState(false);
  const { view } = event;
  const load = () =>
    state.loadEvents([seq], undefined, true).then(() => unfold(true), state.trouble);
  if (view.left_out)
    return html`<button onClick=${load}>Load ${number(view.left_out)} characters</button>`;
  const isWhole = open || unfolded || !view.folded;
  return html`<div class=${isWhole ? "body" : "body folded"}>
      ${isRead(seq, view.tree) ? html`<${Lines} text=${view.tree[0][2]} />` : view.tree.map(elements)}
    </div>
    ${!isWhole && html`<button onClick=${() => unfold(true)}>Show all</button>`}`;
}

export function Message({ seq, open, isNew }) {
  const event = state.eventAt(seq);
  const kind = state.kindAt(seq);
  const name = kind === "tool_call" && event?.data?.name;
  const failed = log.value.errors.has(seq);
  return html`<article class=${`message ${failed ? "failed" : ""} ${kind}`} data-seq=${seq}>
    <header>
      <${Place} seq=${seq} />
      <${Kind} kind=${kind} name=${name} />
      ${event?.view.subject && html`<b class="subject" title=${event.view.subject}>${event.view.subject}</b>`}
      ${isNew && html`<span class="badge new">new</span>`}
      ${failed && html`<span class="badge failed">failed</span>`} <${Outcome} seq=${seq} />
      ${event?.data?.meta && html`<span class="badge" title="Nobody typed this">${visible(String(event.data.meta))}</span>`}
      <${Compacted} seq=${seq} what=${event?.data?.compacted} />
      ${event?.usage && html`<${Usage} usage=${event.usage} />`}
      ${event?.data?.copy_of && html`<span class="badge">copy of ${event.data.copy_of}</span>`}
    </header>
    ${event?.view.thinking && html`<${Thinking} tree=${event.view.thinking} size=${event.view.thought} />`}
    ${event ? html`<${Text} seq=${seq} event=${event} open=${open} />` : html`<p class="hint">…</p>`}
    ${event?.images.map((type, n) => html`<${Image} key=${n} seq=${seq} n=${n} held=${event.pictures} />`)}
  </article>`;
}

function Usage({ usage }) {
  const facts = [
    usage.model,
    usage.read && `${number(usage.read)} tokens in`,
    usage.wrote && `${number(usage.wrote)} out`,
    usage.cost && state.costOf(usage),
  ].filter(Boolean);
  return html`<span class="badge">${facts.join(" · ")}</span>`;
}

/** What a summary stands for, and the way to see it. Another tool's summary does not say it: then it is what the clear
 *  before it left behind. */
function Compacted({ seq, what }) {
  const [clear] = [...log.value.compactions].find(([, summary]) => summary === seq) || [];
  if (!clear) return null;
  const { count, size } = log.value;
  const { to, events, tokens } = what || {
    to: clear - 1,
    events: count[clear - 1],
    tokens: size[clear - 1],
  };
  const compare = () => {
    state.other.value = { agent: state.here(), at: to };
    state.pane.value = "diff";
    state.go(seq, { jump: true });
  };
  return html`<span class="badge"
      >summary of ${number(events)} messages${tokens ? `, ≈ ${number(tokens)} tokens` : ""}</span
    >
    <button class="small" onClick=${compare}>What was dropped</button>`;
}

/** An image comes with the key, so it is fetched and shown from memory. */
function Image({ seq, n, held }) {
  const [url, setUrl] = useState(held ? held[n] : "");
  useEffect(() => {
    if (held) return undefined;
    let made = "";
    state
      .ask(`/events/${state.ownerOf(seq)}/${seq}/image/${n}`, { raw: true })
      .then(async (answer) => setUrl((made = URL.createObjectURL(await answer.blob()))))
      .catch(state.trouble);
    return () => made && URL.revokeObjectURL(made);
  }, [seq, n]);
  return url && html`<img src=${url} alt=${`image ${n + 1} of event ${seq}`} />`;
}
