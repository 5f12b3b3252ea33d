/** One agent at a glance: its origin, its models and their usage, every move and mark. */
import { useState } from "preact/hooks";
import * as state from "page/state.js";
import { costOf, momentOf, number } from "page/format.js";
import { log, moveAt, openAgent, timeOf } from "page/open_log.js";
import {
  close,
  Closing,
  html,
  Kind,
  Overlay,
  Pager,
  Place,
  Table,
  useAnswer,
  Waiting,
} from "page/parts.js";

const STEPS_PER_PAGE = 200; // moves or marks of one page of the table
const NAMES = { cwd: "folder", source: "from" };
const USAGE = ["Model", "#Answers", "#Tokens in", "#Cached", "#Tokens out", "#Cost"];
const STEPS = ["#Position", "What", "Target or label", "#Context before", "#after", "#When"];

function wordsOf(value) {
  if (!value || typeof value !== "object") return String(value);
  const parts = Object.values(value).filter((part) => typeof part === "string");
  return parts.join(" · ");
}

/** What is known of an agent beside its events, and of its session. */
function listFacts(one) {
  const { agents } = state;
  const about = Object.entries({ ...agents.value.get(one.session)?.about, ...one.about });
  const parent = agents.value.get(one.parent);
  const known = about.filter(([, value]) => value !== null && value !== "");
  const found = known.map(([name, value]) => [
    NAMES[name] || name.replaceAll("_", " "),
    wordsOf(value),
  ]);
  if (parent)
    found.push([one.spawned ? "spawned by" : "forked from", `${parent.name}@${one.born_seq}`]);
  const [first, last] = [one.created_at, one.updated_at].map((text) => momentOf(new Date(text)));
  return [...found, ["written", `${first} to ${last}`], ["id", one.id]];
}

function Usage({ id }) {
  const { value, error } = useAnswer(`/agents/${id}/usage`);
  if (!value) return html`<${Waiting} error=${error} text="Reading …" />`;
  if (!value.models.length)
    return html`<p class="hint">The log does not say which models answered.</p>`;
  const rows = value.models.map((one) => [
    one.model || "unknown",
    one.answers,
    one.read,
    one.cached,
    one.wrote,
    one.cost ? costOf(one) : "unknown",
  ]);
  return html`<${Table} head=${USAGE} rows=${rows} />`;
}

/** Moves and marks in order: [position, what it is, its target or label]. */
function listSteps() {
  const { moves, bases, marks, compactions } = log.value;
  const found = moves.map((seq, place) => {
    const summary = compactions.get(seq);
    const target = bases[place] ? `back to ${number(bases[place])}` : "to nothing";
    return [seq, moveAt(seq), summary ? `summary at ${number(summary)}` : target];
  });
  const flags = marks.map(([seq, label]) => [seq, "mark", label || ""]);
  return [...found, ...flags].sort((one, other) => one[0] - other[0]);
}

const writeStep = ([seq, what, more]) => [
  html`<span onClick=${close}><${Place} seq=${seq} /></span>`,
  html`<${Kind} kind=${what === "compaction" ? "clear" : what} name=${what} />`,
  more,
  log.value.size[seq - 1],
  log.value.size[seq],
  momentOf(timeOf(seq)),
];

export default function Overview() {
  const one = openAgent.value;
  const all = listSteps();
  const [first, setFirst] = useState(Math.max(0, all.length - STEPS_PER_PAGE));
  return html`<${Overlay} label="Overview" class="overview"
    ><h2>${one.name}</h2>
    <dl>
      ${listFacts(one).map(
        ([name, value]) =>
          html`<div key=${name}>
            <dt>${name}</dt>
            <dd>${value}</dd>
          </div>`,
      )}
    </dl>
    <h3>Models and usage</h3>
    <div role="status"><${Usage} id=${one.id} /></div>
    <h3>Moves and marks</h3>
    ${all.length ? html`<${Table} head=${STEPS} rows=${all.slice(first, first + STEPS_PER_PAGE).map(writeStep)} />` : html`<p class="hint">There are none.</p>`}
    <${Pager} first=${first} most=${STEPS_PER_PAGE} total=${all.length} turn=${setFirst} />
    <${Closing}
  /><//>`;
}
