/** Everything of one event: as it reads, why it is where it is, its data, and what was born there. */
import { useEffect, useState } from "./vendor/hooks.js";
import html from "./html.js";
import * as state from "./state.js";
import { cursor, log } from "./state.js";
import { Message } from "./context.js";

export async function copy(text, what) {
  await navigator.clipboard.writeText(text).catch(() => {});
  state.toast.value = { text: `${what} copied: ${text}` };
}

export const goTo = (seq) => (event) => {
  if (event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  state.go(seq, { jump: true });
};
export const Place = ({ seq }) => html`<a href=${state.addressOf(state.route.value.agent, seq)} onClick=${goTo(seq)}>${seq}</a>`;

const load = state.fetcher((name, stop) => state.loadEvents(name.split(",").map(Number), stop));
const why = state.fetcher(async (name, stop) => {
  const [id, seq, at] = name.split(" ");
  reasons.set(name, await state.ask(`/agents/${id}/explain/${seq}?at=${at}`, { signal: stop }));
  state.texts.value += 1;
});
const reasons = new Map();

export default function Detail() {
  const seq = cursor.value;
  const [raw, setRaw] = useState(false);
  const partner = log.value.partner[seq - 1];
  const id = state.shown.value;
  const at = log.value.head;
  void state.texts.value;
  useEffect(() => {
    if (!seq || !id) return undefined;
    const waiting = setTimeout(() => {
      load([seq, partner].filter((one) => one && !state.eventAt(one)).join(","));
      if (!reasons.has(`${id} ${seq} ${at}`)) why(`${id} ${seq} ${at}`);
    }, 60);
    return () => clearTimeout(waiting);
  }, [seq, id, at]);
  if (!seq) return html`<p class="hint">Before the first event there is nothing.</p>`;
  const event = state.eventAt(seq);
  const reason = reasons.get(`${id} ${seq} ${at}`);
  const children = [...state.agents.value.values()].filter((one) => one.parent === state.ownerOf(seq) && one.born_seq === seq);
  const owner = state.agents.value.get(state.ownerOf(seq));
  return html`<div class="detail"><p class="facts"><b>${state.reference(seq)}</b> <span class="hint">${event && new Date(event.created_at).toLocaleString()}${owner && owner.id !== id ? ` · inherited from ${owner.name}` : ""}</span>
    <span class="gap"></span><button onClick=${() => copy(state.reference(seq), "Reference")} title="y">Copy reference</button>
    <button onClick=${() => copy(state.link(seq), "Link")} title="Y">Copy link</button></p>
    ${reason && html`<p class="reason">At the head, ${reason.reason}.${reason.by && html` <a href=${state.addressOf(id, reason.by)} onClick=${goTo(reason.by)}>Go to ${reason.by}</a>`}</p>`}
    ${log.value.compactions.has(seq) && html`<p class="reason">This is a compaction: the <a href=${state.addressOf(id, log.value.compactions.get(seq))} onClick=${goTo(log.value.compactions.get(seq))}>summary at ${log.value.compactions.get(seq)}</a> stands
      for what was before. <a href=${state.addressOf(id, seq - 1)} onClick=${goTo(seq - 1)}>What the model saw until then</a></p>`}
    <${Message} seq=${seq} open=${true} key=${`m${seq}`} />
    ${partner > 0 && html`<h2>${partner > seq ? "Its result" : "Its call"}</h2><${Message} seq=${partner} key=${`m${partner}`} />`}
    ${children.length > 0 && html`<h2>Born here</h2><ul>${children.map((one) => html`<li key=${one.id}><a href=${state.addressOf(one.id, null)} onClick=${(click) => {
      click.preventDefault(); state.open(one.id);
    }}>${one.name}</a> ${one.spawned ? "spawned" : "forked"}, ${state.number(one.head)} events</li>`)}</ul>`}
    ${event && html`<details open=${raw} onToggle=${(toggle) => setRaw(toggle.currentTarget.open)}><summary>As it is stored</summary>
      ${raw && html`<pre tabindex="0">${visible(JSON.stringify({ seq: event.seq, kind: event.kind, content: event.content, data: event.data }, null, 2))}</pre>`}</details>`}</div>`;
}

/** Control and direction characters, shown and not obeyed. */
export const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g,
  (c) => `<U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
