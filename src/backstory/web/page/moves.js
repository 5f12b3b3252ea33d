/** Moves: each shows first what it would do, and is written only if the head is still where it was seen. */
import { useEffect, useRef, useState } from "preact/hooks";
import html from "page/html.js";
import * as state from "page/state.js";
import { log, number } from "page/state.js";
import { ranges, within } from "page/lineage.js";
import { close, copy, Kind, Overlay } from "page/parts.js";

/** Each move, and the word on its button. */
const MOVES = {
  fork: ["Fork here", "Fork"],
  rewind: ["Rewind to this mark", "Rewind"],
  jump: ["Go back to this position", "Go back"],
  clear: ["Clear the context", "Clear"],
  undo: ["Undo the last move", "Undo"],
  redo: ["Redo", "Redo"],
  mark: ["Set a mark at the head", "Set mark"],
  rename: ["Rename this agent", "Rename"],
};

/** Back to here is a rewind where a mark on the stack is (one in the context at the head), a jump anywhere else. */
function meant({ move, at }) {
  if (move !== "back") return move;
  return state.kindAt(at) === "mark" && within(ranges(log.value, log.value.head), at)
    ? "rewind"
    : "jump";
}

const agentPath = () => `/agents/${state.here()}`;

async function write(move, { at, head, text }) {
  if (move === "fork")
    return state.ask(`${agentPath()}/fork`, { body: { at, name: text || null } });
  if (move === "rename") return state.ask(`${agentPath()}/rename`, { body: { name: text } });
  const to = move === "rewind" || move === "jump" ? at : null;
  return state.ask(`${agentPath()}/move`, {
    body: { move, to, label: move === "mark" ? text || null : null, expected: head },
  });
}

async function after(move, made) {
  if (move === "fork" || move === "rename") await state.loadAgents(state.route.value.session);
  if (move === "fork") {
    state.open(made.id);
    const line = `backstory chat ${made.id}`;
    state.toast.value = {
      text: `Forked as ${made.name}.`,
      action: `Copy "${line}"`,
      run: () => copy(line, "Command"),
    };
    return;
  }
  if (move === "rename") return;
  await state.catchUp();
  state.goHead();
  const undoes = move === "undo" ? "redo" : "undo";
  if (move !== "mark")
    state.toast.value = {
      text: `Written at ${made.seq}. Nothing was deleted.`,
      action: MOVES[undoes][1],
      run: () => state.show("move", { move: undoes, at: 0 }),
    };
}

const Lines = ({ title, summary, lines }) =>
  summary.events > 0 &&
  html`<h3>
      ${title}: ${state.counted(summary.events, "event")}, ≈ ${number(summary.tokens)} tokens
    </h3>
    <ul class="lines">
      ${lines.map(([seq, kind, text]) => html`<li key=${seq}><span class="seq">${seq}</span> <${Kind} kind=${kind} /> ${text}</li>`)}
      ${summary.events > lines.length && html`<li class="hint">and ${number(summary.events - lines.length)} more</li>`}
    </ul>`;

export default function Move({ over }) {
  const move = meant(over);
  const [preview, setPreview] = useState(null);
  const [problem, setProblem] = useState("");
  const [text, setText] = useState(move === "rename" ? state.agent.value.name : "");
  const [busy, setBusy] = useState(false);
  const cancel = useRef(null);
  const goesBack = move === "rewind" || move === "jump";
  const [title, button] = MOVES[move];
  const shows = !["fork", "mark", "rename"].includes(move);
  const look = async () => {
    if (!shows) {
      setPreview({ head: log.value.head });
      return;
    }
    const to = goesBack ? `&to=${over.at}` : "";
    setPreview(await state.ask(`${agentPath()}/preview?move=${move}${to}`));
  };
  useEffect(() => {
    cancel.current.focus();
    look().catch((error) => setProblem(error.message));
  }, []);
  const confirm = async () => {
    setBusy(true);
    setProblem("");
    try {
      const made = await write(move, { at: over.at, head: preview.head, text });
      close();
      await after(move, made);
    } catch (error) {
      setBusy(false);
      if (error.status !== 409 || !error.head) {
        setProblem(error.message);
        return;
      }
      setProblem(
        `Someone wrote to it in the meantime: nothing was written. This is what the move would do now, at ${error.head}.`,
      );
      await state.catchUp();
      await look().catch(() => {});
      if (!shows) setPreview({ head: error.head });
    }
  };
  const nothing = preview && shows && !preview.leaves.events && !preview.returns.events;
  return html`<${Overlay} label=${title} class="move"
    ><h2>${title}</h2>
    ${(move === "fork" || goesBack) && html`<p><b>${state.reference(over.at)}</b>: ${number(log.value.count[over.at] || 0)} events live there, ≈ ${number(log.value.size[over.at] || 0)} tokens.</p>`}
    ${
      !shows &&
      html`<label
        >${move === "mark" ? "Label" : "Name"}
        <input
          value=${text}
          maxlength="200"
          placeholder=${move === "rename" ? "" : "optional"}
          onInput=${(event) => setText(event.target.value)}
          onKeyDown=${(event) => {
            if (event.key === "Enter") event.preventDefault();
          }}
      /></label>`
    }
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${shows && !preview && !problem && html`<p class="hint">Loading …</p>`}
    ${
      shows &&
      preview &&
      html`<${Lines}
          title="Would leave the context"
          summary=${preview.leaves}
          lines=${preview.lines.leaves}
        />
        <${Lines}
          title="Would come back"
          summary=${preview.returns}
          lines=${preview.lines.returns}
        />`
    }
    ${nothing && html`<p>The context would stay as it is.</p>`}
    <p class="hint">
      ${move === "rename" ? "The id stays the same." : "Nothing is deleted: the log keeps everything."}
    </p>
    <p class="buttons">
      <button ref=${cancel} onClick=${close}>Cancel</button>
      <button
        class="primary"
        disabled=${!preview || busy || (move === "rename" && !text.trim())}
        onClick=${confirm}
      >
        ${button}
      </button>
    </p><//
  >`;
}
