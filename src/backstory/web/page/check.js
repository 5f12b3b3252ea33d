/** Is the store sound, and how large is it? */
import html from "page/html.js";
import * as state from "page/state.js";
import { Kind, Page, Table, useAnswer } from "page/parts.js";

const COUNTS = [
  ["sessions", "sessions"],
  ["agents", "agents"],
  ["events", "events"],
  ["live", "live"],
  ["dead", "left behind"],
  ["bytes", "bytes of events"],
  ["size", "bytes of the store"],
];
const MOST_FINDINGS = 200;

const Waiting = ({ answer, text }) =>
  answer.error
    ? html`<p class="problem" role="alert">${answer.error.message}</p>`
    : html`<p class="hint">${text}</p>`;

const Finding = ({ of }) =>
  html`<li>
    <b>${of.severity}</b>
    ${of.agent || "the store"}${of.position === null ? "" : `@${of.position}`}: ${of.problem};
    ${of.remedy}
  </li>`;

function Findings() {
  const answer = useAnswer("/verify");
  if (!answer.value) return html`<${Waiting} answer=${answer} text="Reading …" />`;
  const { findings } = answer.value;
  if (!findings.length)
    return html`<p class="good">The store is sound: every event is as it was written.</p>`;
  return html`<p class="problem">${state.counted(findings.length, "problem")}</p>
    <ul>
      ${findings.slice(0, MOST_FINDINGS).map((one, index) => html`<${Finding} key=${index} of=${one} />`)}
    </ul>`;
}

function Statistics() {
  const answer = useAnswer("/stats");
  const all = answer.value;
  if (!all) return html`<${Waiting} answer=${answer} text="Counting …" />`;
  const kinds = Object.entries(all.kinds);
  const link = (one) => html`<${Page} to=${`${state.root}/r/${one.id}`}>${one.name}<//>`;
  return html`<${Table}
      name="check"
      head=${["What", "#Count"]}
      rows=${COUNTS.map(([name, what]) => [what, all[name]])}
    />
    <h2>Kinds of events</h2>
    <${Table}
      name="check"
      head=${["Kind", "#Events"]}
      rows=${kinds.map(([kind, count]) => [html`<${Kind} kind=${kind} name=${kind} />`, count])}
    />
    <h2>Largest agents</h2>
    <${Table}
      name="check"
      head=${["Agent", "#Events", "#Live", "#Bytes"]}
      rows=${all.largest.map((one) => [link(one), one.events, one.live, one.bytes])}
    />`;
}

export default function Check() {
  return html`<main class="plain wide">
    <h1>Check</h1>
    <h2>Verify</h2>
    <div role="status"><${Findings} /></div>
    <h2>Statistics</h2>
    <${Statistics} />
  </main>`;
}
