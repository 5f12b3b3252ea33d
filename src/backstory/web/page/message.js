/** One event for reading: its heading, its thinking, its text, and its images. */
import { h } from "preact";
import { useEffect, useState } from "preact/hooks";
import * as state from "page/state.js";
import { log, number } from "page/state.js";
import { durationOf, visible } from "page/format.js";
import { html, Kind, Place } from "page/parts.js";

const TAGS = new Set(
  "p h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s a br hr table thead tbody tr th td span div".split(
    " ",
  ),
);

/** Elements of a tree [tag, attributes, …children]. Anything that is not on the list is text. */
export function elements(node, place) {
  if (!Array.isArray(node)) return String(node);
  const [tag, { class: look, title, href = "" }, ...children] = node;
  const inside = children.map(elements);
  if (!TAGS.has(tag)) return inside;
  const given = { key: place, class: look, title };
  if (/^h[1-6]$/.test(tag))
    return h("div", { ...given, class: "heading", role: "heading", "aria-level": "4" }, inside);
  if (tag === "a" && /^(https?|mailto):/i.test(href))
    Object.assign(given, { href, rel: "noreferrer noopener", target: "_blank" });
  if (tag === "pre") given.tabIndex = 0;
  return h(tag, given, inside);
}

/** Whether the lines of a result have numbers already: many tools write them. */
function isNumbered(text) {
  const [one, two] = text.split("\n", 2).map((line) => /^\s*(\d+)\b/.exec(line)?.[1]);
  return one !== undefined && (two === undefined || Number(two) === Number(one) + 1);
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

function Outcome({ seq, failed }) {
  const result = log.value.partner[seq - 1];
  if (!result || result < seq) return null;
  const seconds = log.value.times[result - 1] - log.value.times[seq - 1];
  const isBad = failed.has(result);
  return html`<span class=${isBad ? "outcome failed" : "outcome"}
    >${isBad ? "✗ failed" : "✓"} ${durationOf(seconds)}</span
  >`;
}

function Thinking({ tree, size }) {
  const [isOpen, setOpen] = useState(false);
  const onToggle = (event) => setOpen(event.currentTarget.open);
  return html`<details class="thinking" open=${isOpen} onToggle=${onToggle}>
    <summary>thinking (${number(size)} characters)</summary>
    ${isOpen && html`<div class="body">${tree.map(elements)}</div>`}
  </details>`;
}

function Text({ seq, view, open }) {
  const [unfolded, unfold] = useState(false);
  const load = async () => {
    await state.loadEvents([seq], { full: true });
    unfold(true);
  };
  if (view.left_out)
    return html`<button onClick=${() => load().catch(state.trouble)}>
      Load ${number(view.left_out)} characters
    </button>`;
  const isWhole = open || unfolded || !view.folded;
  return html`<div class=${isWhole ? "body" : "body folded"}>
      ${isRead(seq, view.tree) ? html`<${Lines} text=${view.tree[0][2]} />` : view.tree.map(elements)}
    </div>
    ${!isWhole && html`<button onClick=${() => unfold(true)}>Show all</button>`}`;
}

const Badge = ({ look = "", title, children }) =>
  html`<span class=${`badge ${look}`} title=${title}>${children}</span>`;

/** What is known of an event beside its text. */
const Facts = ({ seq, event: { data, usage, view } }) =>
  html`${view.subject && html`<b class="subject clip" title=${view.subject}>${view.subject}</b>`}
    <${Outcome} seq=${seq} failed=${log.value.errors} />
    ${data?.meta && html`<${Badge} title="Nobody typed this">${visible(String(data.meta))}<//>`}
    <${Compacted} seq=${seq} what=${data?.compacted} />
    ${usage && html`<${Badge}>${describeUsage(usage)}<//>`}
    ${data?.copy_of && html`<${Badge}>copy of ${data.copy_of}<//>`}`;

export function Message({ seq, open, isNew }) {
  const event = state.eventAt(seq);
  const kind = state.kindAt(seq);
  const name = kind === "tool_call" && event?.data?.name;
  const failed = log.value.errors.has(seq);
  return html`<article class=${`message card ${failed ? "failed" : ""} ${kind}`} data-seq=${seq}>
    <header>
      <${Place} seq=${seq} />
      <${Kind} kind=${kind} name=${name} />
      ${isNew && html`<${Badge} look="new">new<//>`}
      ${failed && html`<${Badge} look="failed">failed<//>`}
      ${event && html`<${Facts} seq=${seq} event=${event} />`}
    </header>
    ${event?.view.thinking && html`<${Thinking} tree=${event.view.thinking} size=${event.view.thought} />`}
    ${event ? html`<${Text} seq=${seq} view=${event.view} open=${open} />` : html`<p class="hint">…</p>`}
    ${event?.images.map((type, n) => html`<${Image} key=${n} seq=${seq} n=${n} held=${event.pictures} />`)}
  </article>`;
}

function describeUsage(usage) {
  const facts = [
    usage.model,
    usage.read && `${number(usage.read)} tokens in`,
    usage.wrote && `${number(usage.wrote)} out`,
    usage.cost && state.costOf(usage),
  ];
  return facts.filter(Boolean).join(" · ");
}

/** What a summary stands for, and the way to see it. Another tool's summary does not say it: then it is what the clear
 *  before it left behind. */
function Compacted({ seq, what }) {
  const { count, size, compactions } = log.value;
  const [clear] = [...compactions].find(([, summary]) => summary === seq) || [];
  if (!clear) return null;
  const last = clear - 1;
  const { to, events, tokens } = what || { to: last, events: count[last], tokens: size[last] };
  const compare = () => {
    state.other.value = { agent: state.here(), at: to };
    state.pane.value = "diff";
    state.go(seq, { jump: true });
  };
  return html`<${Badge}
      >summary of ${number(events)} messages${tokens ? `, ≈ ${number(tokens)} tokens` : ""}<//
    >
    <button class="small" onClick=${compare}>What was dropped</button>`;
}

/** An image comes with the key, so it is fetched and shown from memory. */
function Image({ seq, n, held }) {
  const [url, setUrl] = useState(held ? held[n] : "");
  useEffect(() => {
    if (held) return undefined;
    let made = "";
    const load = async () => {
      const path = `/events/${state.ownerOf(seq)}/${seq}/image/${n}`;
      const answer = await state.ask(path, { raw: true });
      made = URL.createObjectURL(await answer.blob());
      setUrl(made);
    };
    load().catch(state.trouble);
    return () => made && URL.revokeObjectURL(made);
  }, [seq, n]);
  return url && html`<img src=${url} alt=${`image ${n + 1} of event ${seq}`} />`;
}
