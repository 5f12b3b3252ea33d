/** Everything of one event: as it reads, why it is where it is, its data, and what was born there. */
import { useState } from "preact/hooks";
import html from "page/html.js";
import * as state from "page/state.js";
import { cursor, log } from "page/state.js";
import { Message } from "page/message.js";
import { Branch, copy, Place, useAnswer, useLater } from "page/parts.js";
import { momentOf, visible } from "page/format.js";

const load = state.eventFetcher();

export default function Detail() {
  const seq = cursor.value;
  const [raw, setRaw] = useState(false);
  const summary = log.value.compactions.get(seq);
  const partner = summary || log.value.partner[seq - 1];
  const id = state.shown.value;
  const at = log.value.head;
  void state.texts.value;
  useLater(
    60,
    () => {
      if (!seq || !id) return;
      load([seq, partner].filter((one) => one && !state.eventAt(one)).join(","));
    },
    [seq, id, at],
  );
  const why = useAnswer(seq && id ? `/agents/${id}/explain/${seq}?at=${at}` : "", { delay: 60 });
  if (!seq) return html`<p class="hint">Before the first event there is nothing.</p>`;
  const event = state.eventAt(seq);
  const reason = why.value;
  const children = [...state.agents.value.values()].filter(
    (one) => one.parent === state.ownerOf(seq) && one.born_seq === seq,
  );
  const owner = state.agents.value.get(state.ownerOf(seq));
  return html`<div class="detail">
    <p class="facts">
      <b>${state.reference(seq)}</b>
      <span class="hint"
        >${event && momentOf(new Date(event.created_at))}${owner && owner.id !== id ? ` · inherited from ${owner.name}` : ""}</span
      >
      <span class="gap"></span
      ><button onClick=${() => copy(state.reference(seq), "Reference")} title="y">
        Copy reference
      </button>
      <button onClick=${() => copy(state.link(seq), "Link")} title="Y">Copy link</button>
    </p>
    ${why.error && html`<p class="problem" role="alert">${why.error.message}</p>`}
    ${reason && html`<p class="reason">At the head, ${reason.reason}.${reason.by && html` <${Place} seq=${reason.by}>Go to ${reason.by}<//>`}</p>`}
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
          ${children.map((one) => html`<li key=${one.id}><${Branch} id=${one.id}>${one.name}<//> ${one.spawned ? "spawned" : "forked"}, ${state.counted(one.head - one.fork_seq, "event")}</li>`)}
        </ul>`
    }
    ${
      event &&
      html`<details open=${raw} onToggle=${(toggle) => setRaw(toggle.currentTarget.open)}>
        <summary>As it is stored</summary>
        ${raw && html`<pre tabindex="0">${visible(JSON.stringify({ seq: event.seq, kind: event.kind, content: event.content, data: event.data }, null, 2))}</pre>`}
      </details>`
    }
  </div>`;
}
