/** Moves: each shows what it would do, and is written only if the head is still the same. */
import { useEffect, useRef, useState } from "preact/hooks";
import * as state from "page/state.js";
import { catchUp, goHead, kindAt, log, openAgent, openId, reference } from "page/open_log.js";
import { number, writeCount } from "page/format.js";
import { ranges, isWithin } from "page/lineage.js";
import { close, copy, html, Kind, Overlay, Waiting } from "page/parts.js";

/** Each move, the word on its button, and what a person types. */
const MOVE_TEXTS = {
  fork: ["Fork here", "Fork", "Name"],
  rewind: ["Rewind to this mark", "Rewind"],
  jump: ["Go back to this position", "Go back"],
  clear: ["Clear the context", "Clear"],
  undo: ["Undo the last move", "Undo"],
  redo: ["Redo", "Redo"],
  mark: ["Set a mark at the head", "Set mark", "Label"],
  rename: ["Rename this agent", "Rename", "Name"],
};

/** Back to here is a rewind if a mark of the context is there, else a jump. */
function chooseMove({ move, at }) {
  if (move !== "back") return move;
  const isOnStack = isWithin(ranges(log.value, log.value.head), at);
  return kindAt(at) === "mark" && isOnStack ? "rewind" : "jump";
}

/** Returns the path below that of the agent, and the body. @returns {[string, object]} */
function requestOf(move, { at, head, text }) {
  if (move === "fork") return ["fork", { at, name: text || null }];
  if (move === "rename") return ["rename", { name: text }];
  const label = move === "mark" ? text || null : null;
  return ["move", { move, to: at, label, expected: head }];
}

function offerChat(made) {
  const line = `backstory chat ${made.id}`;
  const run = () => copy(line, "Command");
  state.toast.value = { text: `Forked as ${made.name}.`, action: `Copy "${line}"`, run };
}

async function showResult(move, made) {
  if (move === "fork" || move === "rename") await state.loadAgents(state.route.value.session);
  if (move === "rename") return;
  if (move === "fork") {
    state.open(made.id);
    offerChat(made);
    return;
  }
  await catchUp();
  goHead();
  if (move === "mark") return;
  const undoes = move === "undo" ? "redo" : "undo";
  const run = () => state.show("move", { move: undoes, at: 0 });
  const text = `Written at ${number(made.seq)}. Nothing was deleted.`;
  state.toast.value = { text, action: MOVE_TEXTS[undoes][1], run };
}

/** As everywhere on the page; what no model is given has no tokens. */
const sumTokens = (positions) => positions.reduce((sum, seq) => sum + log.value.tokens[seq - 1], 0);

const Lines = ({ title, summary, lines }) =>
  summary.events > 0 &&
  html`<h3>
      ${title}: ${writeCount(summary.events, "event")}, ≈ ${number(sumTokens(summary.positions))}
      tokens
    </h3>
    <ul class="plain-list lines">
      ${lines.map(([seq, kind, text]) => html`<li key=${seq} class="clip"><span class="seq">${number(seq)}</span> <${Kind} kind=${kind} /> ${text}</li>`)}
      ${summary.events > lines.length && html`<li class="hint">and ${number(summary.events - lines.length)} more</li>`}
    </ul>`;

function Preview({ of: { leaves, returns, lines } }) {
  if (!leaves.events && !returns.events) return html`<p>The context would stay as it is.</p>`;
  return html`<${Lines} title="Would leave the context" summary=${leaves} lines=${lines.leaves} />
    <${Lines} title="Would come back" summary=${returns} lines=${lines.returns} />`;
}

const ignoreEnter = (event) => {
  if (event.key === "Enter") event.preventDefault();
};

export default function Move({ over }) {
  const move = chooseMove(over);
  const path = `/agents/${openId.value}`;
  const at = ["fork", "rewind", "jump"].includes(move) ? over.at : null;
  const [title, button, field] = MOVE_TEXTS[move];
  const [preview, setPreview] = useState(field ? { head: log.value.head } : null);
  const [problem, setProblem] = useState("");
  const [text, setText] = useState(move === "rename" ? openAgent.value.name : "");
  const [busy, setBusy] = useState(false);
  const cancel = useRef(null);
  const look = async () => {
    const to = at === null ? "" : `&to=${at}`;
    if (!field) setPreview(await state.ask(`${path}/preview?move=${move}${to}`));
  };
  useEffect(() => {
    cancel.current.focus();
    look().catch((error) => setProblem(error.message));
  }, []);
  const confirm = async () => {
    setBusy(true);
    setProblem("");
    try {
      const [name, body] = requestOf(move, { at, head: preview.head, text });
      const made = await state.ask(`${path}/${name}`, { body });
      close();
      await showResult(move, made);
    } catch (error) {
      setBusy(false);
      setProblem(error.message);
      if (error.status === 409 && error.head) await lookAgain(error.head);
    }
  };
  const lookAgain = async (head) => {
    setProblem(
      `Someone wrote to it in the meantime: nothing was written. This is what the move would do now, at ${number(head)}.`,
    );
    await catchUp();
    if (field) setPreview({ head });
    else await look().catch(() => {});
  };
  const isReady = preview && !busy && (move !== "rename" || text.trim());
  return html`<${Overlay} label=${title} class="move"
    ><h2>${title}</h2>
    ${at !== null && html`<p><b>${reference(at)}</b>: ${number(log.value.count[at] || 0)} events live there, ≈ ${number(log.value.size[at] || 0)} tokens.</p>`}
    ${
      field &&
      html`<label
        >${field}
        <input
          value=${text}
          maxlength="200"
          placeholder=${move === "rename" ? "" : "optional"}
          onInput=${(event) => setText(event.target.value)}
          onKeyDown=${ignoreEnter}
      /></label>`
    }
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!preview && !problem && html`<${Waiting} text="Loading …" />`}
    ${preview && !field && html`<${Preview} of=${preview} />`}
    <p class="hint">
      ${move === "rename" ? "The id stays the same." : "Nothing is deleted: the log keeps everything."}
    </p>
    <p class="buttons">
      <button ref=${cancel} onClick=${close}>Cancel</button>
      <button class="primary" disabled=${!isReady} onClick=${confirm}>${button}</button>
    </p><//
  >`;
}
