/** One box for events of all sessions, agents, marks, positions and commands. */
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import * as state from "page/state.js";
import { go, log, openAgent, reference } from "page/open_log.js";
import { ageOf, momentOf, number, visible } from "page/format.js";
import { COMMANDS } from "page/keys.js";
import { close, html, Overlay, useLater } from "page/parts.js";

const text = signal("");
const newest = signal(null); // the newest answer: {q, groups, next, behind, total}
const choice = signal(0);
const enteredWords = signal(""); // their first hit is opened as soon as it comes

const HINT = 'All words must match. Use "quotes" for a phrase, begin* for a prefix.';
const RETRY = 1000; // milliseconds after which an index that is behind is asked again
const POSITION = /^@?\d+$/;
const MOST_SUGGESTIONS = 5; // branches, marks or commands

const readWords = () => text.value.trim();
/** The answer to what is asked for now, if it has come. */
const findAnswer = () => (newest.value?.q === readWords() ? newest.value : null);

const ask = (q, after, stop) =>
  state.ask(`/search?q=${encodeURIComponent(q)}&after=${after}`, { signal: stop });

/** Asks for the first hits, and again while the index is behind. */
async function load(q, stop) {
  while (q && !stop.aborted) {
    newest.value = { q, ...(await ask(q, 0, stop)) };
    const { groups, behind } = newest.value;
    if (groups.length && enteredWords.value === q) openHit(groups[0].session, groups[0].hits[0]);
    if (!behind) return;
    await new Promise((done) => setTimeout(done, RETRY));
  }
}

/** Adds the next page. A session may have hits in both. */
async function loadMore() {
  const { q, groups, next } = findAnswer();
  const more = await ask(q, next);
  const joined = new Map(groups.map((one) => [one.session.id, one]));
  for (const one of more.groups) {
    const hits = joined.get(one.session.id)?.hits || [];
    joined.set(one.session.id, { ...one, hits: [...hits, ...one.hits] });
  }
  if (findAnswer()?.q === q) newest.value = { ...more, q, groups: [...joined.values()] };
}

function describeProgress() {
  if (!readWords()) return HINT;
  if (!findAnswer()) return "Searching …";
  const { behind, total, groups } = findAnswer();
  const share = Math.floor((100 * (total - behind)) / total);
  if (behind) return `Searching … ${share} % of the events so far`;
  return groups.length ? "" : "No event matches. Try fewer words, or begin* for a prefix.";
}

/** Marks of the open lineage, agents of its session, a position, commands. */
function findNear(asked) {
  const fits = (name) => name?.toLowerCase().includes(asked.toLowerCase());
  const found = [];
  const add = (title, what, run) => found.push({ title, what, run });
  const addPosition = (at, title, what) => add(title, what, () => go(at, { jump: true }));
  if (POSITION.test(asked) && openAgent.value) {
    const at = Number(asked.replace("@", ""));
    addPosition(at, `Go to position ${number(at)}`, openAgent.value.name);
  }
  const agents = [...state.agents.value.values()].filter((one) => fits(one.name));
  for (const one of agents.slice(0, MOST_SUGGESTIONS))
    add(one.name, one.spawned ? "sub-agent" : "branch", () => state.open(one.id));
  const marks = log.value.marks.filter(([, label]) => fits(label));
  for (const [seq, label] of marks.slice(0, MOST_SUGGESTIONS))
    addPosition(seq, label, `mark, ${reference(seq)}`);
  const commands = COMMANDS.filter(([, what]) => fits(what));
  for (const [keys, what, run] of commands.slice(0, MOST_SUGGESTIONS))
    add(what, `command, ${keys}`, run);
  const address = `${state.root}/r/${encodeURIComponent(asked)}`;
  if (/[@/]/.test(asked))
    add(`Open the reference ${asked}`, "reference", () => state.navigate(address));
  return found;
}

function openHit(session, hit) {
  enteredWords.value = "";
  close();
  state.navigate(`${state.root}/s/${session.id}/a/${hit.agent}@${hit.seq}?pane=event`);
}

function Snippet({ hit }) {
  const parts = [];
  let end = 0;
  for (const [low, high] of hit.spans) {
    parts.push(hit.snippet.slice(end, low));
    parts.push(html`<mark key=${low}>${hit.snippet.slice(low, high)}</mark>`);
    end = high;
  }
  return html`<span class="snippet">${parts}${hit.snippet.slice(end)}</span>`;
}

function SessionHead({ of: { title, about, updated_at: written } }) {
  const facts = [about.cwd, about.tool, ageOf(written)].filter(Boolean);
  return html`<p class="hit-session" role="presentation">
    <b class="clip">${visible(title)}</b>
    <small class="clip" title=${momentOf(new Date(written))}>${facts.join(" · ")}</small>
  </p>`;
}

function describeHit({ ref, kind, live }) {
  const facts = [ref, state.WORDS[kind] || kind, live ? "" : "left behind"];
  return facts.filter(Boolean).join(" · ");
}

const Option = ({ of: { hit, head, title, what }, index, onClick }) =>
  html`${head && html`<${SessionHead} of=${head} />`}
    <div
      role="option"
      id=${`hit-${index}`}
      class="result"
      aria-selected=${index === choice.value}
      onClick=${onClick}
      onMouseMove=${state.setTo(choice, index)}
    >
      ${
        hit
          ? html`<small>${describeHit(hit)}</small><${Snippet} hit=${hit} />`
          : html`<span>${title}</span><small>${what}</small>`
      }
    </div>`;

/** Everything that can be chosen, in the order in which it stands. */
function listOptions() {
  if (!readWords()) return [];
  const options = [];
  for (const { session, hits } of findAnswer()?.groups || [])
    for (const hit of hits)
      options.push({
        hit,
        head: hit === hits[0] && session,
        run: () => openHit(session, hit),
      });
  return [...options, ...findNear(readWords())];
}

export default function Search({ over }) {
  const box = useRef(null);
  const asked = readWords();
  useEffect(() => {
    if (over.text) text.value = over.text;
    box.current.focus();
    box.current.select();
  }, []);
  useLater(150, (stop) => load(asked, stop), [asked]);
  const options = listOptions();
  const choose = (one) => {
    close();
    one.run();
  };
  const move = (step) => {
    choice.value = (choice.value + step + options.length) % options.length;
    document.getElementById(`hit-${choice.value}`)?.scrollIntoView({ block: "nearest" });
  };
  const enter = () => {
    const isWaiting = describeProgress().startsWith("Searching") && !options[0]?.hit;
    if (isWaiting && !choice.value && !POSITION.test(asked)) enteredWords.value = asked;
    else if (options[choice.value]) choose(options[choice.value]);
  };
  const onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter") enter();
    else if (event.key === "Escape") close();
    else if (step && options.length) move(step);
    else return;
    event.preventDefault();
  };
  const onInput = (event) => {
    text.value = event.target.value;
    choice.value = 0;
    enteredWords.value = "";
  };
  return html`<${Overlay} label="Search" class="search-box"
    ><input
      ref=${box}
      type="search"
      value=${text.value}
      placeholder="Words, a branch, a mark, a position, a command"
      aria-label="Search"
      role="combobox"
      aria-expanded=${options.length > 0}
      aria-controls="hits"
      aria-activedescendant=${options.length ? `hit-${choice.value}` : undefined}
      onInput=${onInput}
      onKeyDown=${onKey}
    />
    <p class="hint" role="status">${describeProgress()}</p>
    <div id="hits" role="listbox" aria-label="Results">
      ${options.map((one, index) => html`<${Option} key=${index} of=${one} index=${index} onClick=${() => choose(one)} />`)}
    </div>
    ${findAnswer()?.next > 0 && html`<button class="more" onClick=${() => loadMore().catch(state.trouble)}>Show more events</button>`}<//
  >`;
}
