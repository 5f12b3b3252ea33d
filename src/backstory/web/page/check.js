/** Is the store sound, and how large is it? */
import * as state from "page/state.js";
import { writeCount } from "page/format.js";
import { html, Kind, Page, Table, useAnswer, Waiting } from "page/parts.js";

const COUNTS = {
  sessions: "sessions",
  agents: "agents",
  events: "events",
  live: "live",
  dead: "left behind",
  bytes: "bytes of events",
  size: "bytes of the store",
};
const MOST_FINDINGS = 200;

const Finding = ({ of }) =>
  html`<li>
    <b>${of.severity}</b>
    ${of.agent || "the store"}${of.position === null ? "" : `@${of.position}`}: ${of.problem};
    ${of.remedy}
  </li>`;

function Findings() {
  const { value, error } = useAnswer("/verify");
  if (!value) return html`<${Waiting} error=${error} text="Reading …" />`;
  const { findings } = value;
  if (!findings.length)
    return html`<p class="good">The store is sound: every event is as it was written.</p>`;
  return html`<p class="problem">${writeCount(findings.length, "problem")}</p>
    <ul>
      ${findings.slice(0, MOST_FINDINGS).map((one, index) => html`<${Finding} key=${index} of=${one} />`)}
    </ul>`;
}

function Statistics() {
  const { value: all, error } = useAnswer("/stats");
  if (!all) return html`<${Waiting} error=${error} text="Counting …" />`;
  const counts = Object.entries(COUNTS).map(([name, what]) => [what, all[name]]);
  const kinds = Object.entries(all.kinds).map(([kind, count]) => [
    html`<${Kind} kind=${kind} name=${kind} />`,
    count,
  ]);
  const link = (one) => html`<${Page} to=${`${state.root}/r/${one.id}`}>${one.name}<//>`;
  const largest = all.largest.map((one) => [link(one), one.events, one.live, one.bytes]);
  return html`<${Table} head=${["What", "#Count"]} rows=${counts} />
    <h2>Kinds of events</h2>
    <${Table} head=${["Kind", "#Events"]} rows=${kinds} />
    <h2>Largest agents</h2>
    <${Table} head=${["Agent", "#Events", "#Live", "#Bytes"]} rows=${largest} />`;
}

export default function Check() {
  return html`<main class="plain">
    <h1>Check</h1>
    <h2>Verify</h2>
    <div role="status"><${Findings} /></div>
    <h2>Statistics</h2>
    <${Statistics} />
  </main>`;
}
