/** Everything of one event: as it reads, why it is where it is, its data, and what was born there. */
import { useState } from "preact/hooks";
import * as state from "page/state.js";
import { cursor, log } from "page/state.js";
import { Message } from "page/message.js";
import { Branch, copy, html, Json, Place, useAnswer, useEvents, Waiting } from "page/parts.js";
import { momentOf } from "page/format.js";

function Stored({ event: { seq, kind, content, data } }) {
  const [isOpen, setOpen] = useState(false);
  return html`<details open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>As it is stored</summary>
    ${isOpen && html`<${Json} value=${{ seq, kind, content, data }} />`}
  </details>`;
}

const Child = ({ of }) =>
  html`<li>
    <${Branch} id=${of.id}>${of.name}<//> ${of.spawned ? "spawned" : "forked"},
    ${state.counted(of.head - of.fork_seq, "event")}
  </li>`;

export default function Detail() {
  const seq = cursor.value;
  const id = state.shown.value;
  const summary = log.value.compactions.get(seq);
  const partner = summary || log.value.partner[seq - 1];
  useEvents([seq, partner]);
  const path = seq && id ? `/agents/${id}/explain/${seq}?at=${log.value.head}` : "";
  const { value: reason, error } = useAnswer(path, { delay: 60 });
  if (!seq) return html`<p class="hint">Before the first event there is nothing.</p>`;
  const event = state.eventAt(seq);
  const owner = state.agents.value.get(state.ownerOf(seq));
  const children = [...state.agents.value.values()].filter(
    (one) => one.parent === owner?.id && one.born_seq === seq,
  );
  return html`<div class="detail">
    <p class="facts">
      <b>${state.reference(seq)}</b>
      <span class="hint"
        >${event && momentOf(new Date(event.created_at))}${owner && owner.id !== id && ` · inherited from ${owner.name}`}</span
      >
      <span class="gap"></span
      ><button onClick=${() => copy(state.reference(seq), "Reference")} title="y">
        Copy reference
      </button>
      <button onClick=${() => copy(state.link(seq), "Link")} title="Y">Copy link</button>
    </p>
    ${error && html`<${Waiting} error=${error} />`}
    ${reason && html`<p class="card reason">At the head, ${reason.reason}.${reason.by && html` <${Place} seq=${reason.by}>Go to ${state.number(reason.by)}<//>`}</p>`}
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
    ${event && html`<${Stored} key=${seq} event=${event} />`}
  </div>`;
}
