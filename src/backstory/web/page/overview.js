/** One agent at a glance, as text: where it came from, which models answered and what that took, every move and mark.
 *  It says what the scrubber draws. */
import { useEffect, useState } from "preact/hooks";
import html from "page/html.js";
import * as state from "page/state.js";
import { momentOf } from "page/format.js";
import { log, number } from "page/state.js";
import { close, Kind, Overlay, Pager, Place, Table } from "page/parts.js";

const MOST = 200; // moves or marks of one page of the table
const NAMES = { cwd: "folder", source: "from" };

/** What is known of an agent beside its events; an agent that says nothing is described by its session. */
function facts(one) {
  const root = state.agents.value.get(one.session);
  const about = { ...root?.about, ...one.about };
  const words = (value) =>
    value && typeof value === "object"
      ? Object.values(value)
          .filter((part) => typeof part === "string")
          .join(" · ")
      : String(value);
  const known = Object.entries(about)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => [NAMES[name] || name.replaceAll("_", " "), words(value)]);
  const parent = state.agents.value.get(one.parent);
  return [
    ...known,
    ...(parent
      ? [[one.spawned ? "spawned by" : "forked from", `${parent.name}@${one.born_seq}`]]
      : []),
    ["written", `${momentOf(new Date(one.created_at))} to ${momentOf(new Date(one.updated_at))}`],
    ["id", one.id],
  ];
}

async function usage(id, tell) {
  const sums = new Map();
  for (let next = 0; next !== null;) {
    const found = await state.ask(`/agents/${id}/usage?after=${next}`);
    for (const one of found.models) {
      const sum = sums.get(one.model) || {
        model: one.model,
        answers: 0,
        read: 0,
        cached: 0,
        wrote: 0,
        cost: 0,
      };
      for (const name of ["answers", "read", "cached", "wrote", "cost"]) sum[name] += one[name];
      sum.is_estimate ||= one.is_estimate;
      sums.set(one.model, sum);
    }
    next = found.next;
  }
  tell([...sums.values()]);
}

const Models = ({ all }) =>
  html`<${Table}
    head=${["Model", "#Answers", "#Tokens in", "#Cached", "#Tokens out", "#Cost"]}
    rows=${all.map((one) => [one.model || "unknown", one.answers, one.read, one.cached, one.wrote, one.cost ? state.costOf(one) : "unknown"])}
  />`;

/** Moves and marks, in order: [position, what it is, where it leads or what it is called]. */
function steps() {
  const { moves, bases, marks, compactions } = log.value;
  const found = moves.map((seq, place) => [
    seq,
    compactions.has(seq) ? "compaction" : state.kindAt(seq),
    compactions.has(seq)
      ? `summary at ${compactions.get(seq)}`
      : bases[place]
        ? `back to ${bases[place]}`
        : "to nothing",
  ]);
  return [...found, ...marks.map(([seq, label]) => [seq, "mark", label || ""])].sort(
    (a, b) => a[0] - b[0],
  );
}

export default function Overview() {
  const one = state.agent.value;
  const [models, setModels] = useState(null);
  const all = steps();
  const [first, setFirst] = useState(Math.max(0, all.length - MOST));
  useEffect(() => {
    usage(one.id, setModels).catch(state.trouble);
  }, []);
  const { size } = log.value;
  return html`<${Overlay} label="Overview" class="overview"
    ><h2>${one.name}</h2>
    <dl>
      ${facts(one).map(
        ([name, value]) =>
          html`<div key=${name}>
            <dt>${name}</dt>
            <dd>${value}</dd>
          </div>`,
      )}
    </dl>
    <h3>Models and usage</h3>
    <div role="status">
      ${!models ? html`<p class="hint">Reading …</p>` : models.length ? html`<${Models} all=${models} />` : html`<p class="hint">The log does not say which models answered.</p>`}
    </div>
    <h3>Moves and marks</h3>
    ${
      !all.length
        ? html`<p class="hint">There are none.</p>`
        : html`<${Table}
            head=${["#Position", "What", "Target or label", "#Context before", "#after", "#When"]}
            rows=${all
              .slice(first, first + MOST)
              .map(([seq, what, more]) => [
                html`<span onClick=${close}><${Place} seq=${seq} /></span>`,
                html`<${Kind} kind=${what === "compaction" ? "clear" : what} name=${what} />`,
                more,
                size[seq - 1],
                size[seq],
                momentOf(state.timeOf(seq)),
              ])}
          />`
    }
    <${Pager} first=${first} most=${MOST} total=${all.length} turn=${setFirst} />
    <p class="buttons"><button onClick=${close}>Close</button></p><//
  >`;
}
