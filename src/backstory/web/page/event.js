/** One event: as a message, and in full with the reason why it is in the context or not. */
import { h } from "preact";
import { useEffect, useState } from "preact/hooks";
import * as state from "page/state.js";
import {
  cursor,
  eventAt,
  go,
  kindAt,
  link,
  loadEvents,
  log,
  openId,
  ownerOf,
  reference,
} from "page/open_log.js";
import { costOf, durationOf, momentOf, number, visible, writeCount } from "page/format.js";
import {
  Branch,
  copy,
  html,
  Json,
  Kind,
  Place,
  useAnswer,
  useEvents,
  Waiting,
} from "page/parts.js";

const TAGS = new Set(
  "p h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s a br hr table thead tbody tr th td span div".split(
    " ",
  ),
);

/** Elements of a tree [tag, attributes, …children]. Other tags are text. */
function buildElements(node, place) {
  if (!Array.isArray(node)) return String(node);
  const [tag, { class: look, title, href = "" }, ...children] = node;
  const inside = children.map(buildElements);
  if (!TAGS.has(tag)) return inside;
  const given = { key: place, class: look, title };
  if (/^h[1-6]$/.test(tag))
    return h("div", { ...given, class: "heading", role: "heading", "aria-level": "4" }, inside);
  if (tag === "a" && /^(https?|mailto):/i.test(href))
    Object.assign(given, { href, rel: "noreferrer noopener", target: "_blank" });
  if (tag === "pre") given.tabIndex = 0;
  return h(tag, given, inside);
}

/** Many tools number the lines of a result themselves. */
function isNumbered(text) {
  const [one, two] = text.split("\n", 2).map((line) => /^\s*(\d+)\b/.exec(line)?.[1]);
  return one !== undefined && (two === undefined || Number(two) === Number(one) + 1);
}

/** Whether this is what a tool read from a file: its lines get numbers. */
function isRead(seq, tree) {
  const call = eventAt(log.value.partner[seq - 1]);
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
    ${isOpen && html`<div class="body">${tree.map(buildElements)}</div>`}
  </details>`;
}

function Text({ seq, view, open }) {
  const [unfolded, unfold] = useState(false);
  const load = async () => {
    await loadEvents([seq], { full: true });
    unfold(true);
  };
  if (view.left_out)
    return html`<button onClick=${() => load().catch(state.trouble)}>
      Load ${number(view.left_out)} characters
    </button>`;
  const isWhole = open || unfolded || !view.folded;
  return html`<div class=${isWhole ? "body" : "body folded"}>
      ${isRead(seq, view.tree) ? html`<${Lines} text=${view.tree[0][2]} />` : view.tree.map(buildElements)}
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
    <${SummaryFacts} seq=${seq} what=${data?.compacted} />
    ${usage && html`<${Badge}>${describeUsage(usage)}<//>`}
    ${data?.copy_of && html`<${Badge}>copy of ${data.copy_of}<//>`}`;

export function Message({ seq, open, isNew }) {
  const event = eventAt(seq);
  const kind = kindAt(seq);
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
    usage.cost && costOf(usage),
  ];
  return facts.filter(Boolean).join(" · ");
}

/** What a summary replaces. If another tool wrote it, that is what the clear before it left. */
function SummaryFacts({ seq, what }) {
  const { count, size, compactions } = log.value;
  const [clear] = [...compactions].find(([, summary]) => summary === seq) || [];
  if (!clear) return null;
  const last = clear - 1;
  const { to, events, tokens } = what || { to: last, events: count[last], tokens: size[last] };
  const compare = () => {
    state.pinned.value = { agent: openId.value, at: to };
    state.pane.value = "diff";
    go(seq, { jump: true });
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
      const path = `/events/${ownerOf(seq)}/${seq}/image/${n}`;
      const answer = await state.ask(path, { raw: true });
      made = URL.createObjectURL(await answer.blob());
      setUrl(made);
    };
    load().catch(state.trouble);
    return () => made && URL.revokeObjectURL(made);
  }, [seq, n]);
  return url && html`<img src=${url} alt=${`image ${n + 1} of event ${seq}`} />`;
}

// --- in full ---

function StoredJson({ event: { seq, kind, content, data } }) {
  const [isOpen, setOpen] = useState(false);
  return html`<details open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>As it is stored</summary>
    ${isOpen && html`<${Json} value=${{ seq, kind, content, data }} />`}
  </details>`;
}

const Child = ({ of }) =>
  html`<li>
    <${Branch} id=${of.id}>${of.name}<//> ${of.spawned ? "spawned" : "forked"},
    ${writeCount(of.head - of.fork_seq, "event")}
  </li>`;

export function Detail() {
  const seq = cursor.value;
  const id = openId.value;
  const summary = log.value.compactions.get(seq);
  const partner = summary || log.value.partner[seq - 1];
  useEvents([seq, partner]);
  const path = seq && id ? `/agents/${id}/explain/${seq}?at=${log.value.head}` : "";
  const { value: reason, error } = useAnswer(path, { delay: 60 });
  if (!seq) return html`<p class="hint">Before the first event there is nothing.</p>`;
  const event = eventAt(seq);
  const owner = state.agents.value.get(ownerOf(seq));
  const children = [...state.agents.value.values()].filter(
    (one) => one.parent === owner?.id && one.born_seq === seq,
  );
  return html`<div class="detail">
    <p class="facts">
      <b>${reference(seq)}</b>
      <span class="hint"
        >${event && momentOf(new Date(event.created_at))}${owner && owner.id !== id && ` · inherited from ${owner.name}`}</span
      >
      <span class="gap"></span
      ><button onClick=${() => copy(reference(seq), "Reference")} title="y">Copy reference</button>
      <button onClick=${() => copy(link(seq), "Link")} title="Y">Copy link</button>
    </p>
    ${error && html`<${Waiting} error=${error} />`}
    ${reason && html`<p class="card reason">At the head, ${reason.reason}.${reason.by && html` <${Place} seq=${reason.by}>Go to ${number(reason.by)}<//>`}</p>`}
    <${Message} seq=${seq} open=${true} key=${`m${seq}`} />
    ${
      partner > 0 &&
      html`<h2>${summary ? "The summary" : partner > seq ? "Its result" : "Its call"}</h2>
        <${Message} seq=${partner} open=${summary} key=${`m${partner}`} />`
    }
    ${
      children.length > 0 &&
      html`<h2>Started here</h2>
        <ul>
          ${children.map((one) => html`<${Child} key=${one.id} of=${one} />`)}
        </ul>`
    }
    ${event && html`<${StoredJson} key=${seq} event=${event} />`}
  </div>`;
}
