/** Everything of one event: as it reads, why it is where it is, its data, and what was born there. */
import { useState } from "./components.js";
import html from "./html.js";
import * as state from "./state.js";
import { cursor, log } from "./state.js";
import { Message } from "./context.js";
import { Branch, copy, Place, useLater, visible } from "./parts.js";

const load = state.eventFetcher();
const why = state.fetcher(async (name, stop) => {
  const [id, seq, at] = name.split(" ");
  reasons.set(name, await state.ask(`/agents/${id}/explain/${seq}?at=${at}`, { signal: stop }));
  state.texts.value += 1;
});
const reasons = new Map();

export default function Detail() {
  const seq = cursor.value;
  const [raw, setRaw] = useState(false);
  const summary = log.value.compactions.get(seq);
  const partner = summary || log.value.partner[seq - 1];
  const id = state.shown.value;
  const at = log.value.head;
  void state.texts.value;
  useLater(60, () => {
    if (!seq || !id) return;
    load([seq, partner].filter((one) => one && !state.eventAt(one)).join(","));
    if (!reasons.has(`${id} ${seq} ${at}`)) why(`${id} ${seq} ${at}`);
  }, [seq, id, at]);
  if (!seq) return html`<p class="hint">Before the first event there is nothing.</p>`;
  const event = state.eventAt(seq);
  const reason = reasons.get(`${id} ${seq} ${at}`);
  const children = [...state.agents.value.values()].filter((one) => one.parent === state.ownerOf(seq) && one.born_seq === seq);
  const owner = state.agents.value.get(state.ownerOf(seq));
  return html`<div class="detail"><p class="facts"><b>${state.reference(seq)}</b> <span class="hint">${event && new Date(event.created_at).toLocaleString()}${owner && owner.id !== id ? ` · inherited from ${owner.name}` : ""}</span>
    <span class="gap"></span><button onClick=${() => copy(state.reference(seq), "Reference")} title="y">Copy reference</button>
    <button onClick=${() => copy(state.link(seq), "Link")} title="Y">Copy link</button></p>
    ${reason && html`<p class="reason">At the head, ${reason.reason}.${reason.by && html` <${Place} seq=${reason.by}>Go to ${reason.by}<//>`}</p>`}
    <${Message} seq=${seq} open=${true} key=${`m${seq}`} />
    ${partner > 0 && html`<h2>${summary ? "The summary" : partner > seq ? "Its result" : "Its call"}</h2><${Message} seq=${partner} open=${summary} key=${`m${partner}`} />`}
    ${children.length > 0 && html`<h2>Started here</h2><ul>${children.map((one) => html`<li key=${one.id}><${Branch} id=${one.id}>${one.name}<//> ${one.spawned ? "spawned" : "forked"}, ${state.counted(one.head - one.fork_seq, "event")}</li>`)}</ul>`}
    ${event && html`<details open=${raw} onToggle=${(toggle) => setRaw(toggle.currentTarget.open)}><summary>As it is stored</summary>
      ${raw && html`<pre tabindex="0">${visible(JSON.stringify({ seq: event.seq, kind: event.kind, content: event.content, data: event.data }, null, 2))}</pre>`}</details>`}</div>`;
}
