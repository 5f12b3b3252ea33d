/** The scrubber: the size of the context at every position, and what is left behind. */
import { useLayoutEffect, useRef } from "preact/hooks";
import * as state from "page/state.js";
import { clockOf, dayOf, momentOf, number } from "page/format.js";
import { cursor, go, kindAt, leftAt, liveRanges, log, openId, timeOf } from "page/open_log.js";
import { axis, extent, PAD, placeAtX, placeOf, seqAt, tree, whole, xOf } from "page/axis.js";
import { drawArea, drawDot, drawLine, palette, pen } from "page/lanes.js";
import { html, useSize } from "page/parts.js";
import { findLargest } from "page/lineage.js";

const FLAGS = 14;
const CLOSE = 8; // marks closer than this are one flag
const MANY = 2000; // events: of a longer log, a second strip shows those near the cursor
const HATCH = 5; // pixels between two lines of what is left behind
const NEAR = 160; // events on each side of the cursor in that strip
const PROMPT = "u".charCodeAt(0);

/** The columns of the curve: [x, the largest context, the part of it in the log]. */
function findColumns(width) {
  const { size, outside, sized } = log.value;
  const columns = [];
  for (let x = PAD; x <= width - PAD; x++) {
    if (placeAtX(x, width) > placeOf(sized)) break;
    const at = seqAt(placeAtX(x + 1, width));
    const top = findLargest(log.value, seqAt(placeAtX(x, width)), at);
    columns.push([x, top, top * (size[at] / (size[at] + outside[at] || 1))]);
  }
  return columns;
}

/** The size of the context in the log, and above it what else its provider counted. */
function drawCurve(context, width, tall) {
  const [fill, edge, outside] = palette("curve", "curve-edge", "line");
  const [low, high] = extent.value;
  const most = findLargest(log.value, seqAt(low), seqAt(high)) || 1;
  const yOf = (tokens) => tall - (tokens / most) * (tall - FLAGS - 4);
  const columns = findColumns(width);
  if (!columns.length) return;
  const inLog = columns.map(([x, , tokens]) => [x, yOf(tokens)]);
  const tops = columns.map(([x, top]) => [x, yOf(top)]);
  context.fillStyle = fill;
  drawArea(context, [PAD, tall], ...inLog, [columns.at(-1)[0], tall]);
  context.strokeStyle = outside;
  context.lineWidth = 1;
  for (let n = 0; n < columns.length; n += HATCH) drawLine(context, inLog[n], tops[n]);
  context.strokeStyle = edge;
  context.lineWidth = 1.5;
  drawLine(context, ...tops);
  context.textAlign = "right";
  write(context, `${number(Math.round(most))} tokens`, width - PAD, FLAGS + 8);
  context.textAlign = "left";
}

function write(context, text, x, y) {
  [context.fillStyle] = palette("dim");
  context.font = "10px system-ui";
  context.fillText(text, x, y);
}

function drawTimes(context, width, tall) {
  if (axis.value !== "time") return;
  let day = "";
  for (let x = PAD; x < width - 110; x += 120) {
    const seq = seqAt(placeAtX(x, width));
    if (!seq) continue;
    const moment = timeOf(seq);
    write(context, dayOf(moment) === day ? clockOf(moment) : momentOf(moment), x, tall - 8);
    context.fillRect(x - 3, tall - 14, 1, 14);
    day = dayOf(moment);
  }
}

/** Calls `draw` with each x that is at least `least` after the last. */
function drawEach(seqs, width, least, draw) {
  let last = -Infinity;
  for (const seq of seqs) {
    const x = xOf(placeOf(seq), width);
    if (x - last < least) continue;
    draw(x);
    last = x;
  }
}

function findPrompts() {
  const [low, high] = extent.value.map(seqAt);
  const found = [];
  for (let seq = Math.max(1, low); seq <= high; seq++)
    if (log.value.kinds[seq - 1] === PROMPT) found.push(seq);
  return found;
}

function drawTicks(context, width, tall) {
  const { moves, errors } = log.value;
  const [prompt, move, bad] = palette("user", "move", "error");
  context.fillStyle = prompt;
  drawEach(findPrompts(), width, 1, (x) => context.fillRect(x, tall - 6, 1, 6));
  context.fillStyle = move;
  context.globalAlpha = moves.length * 12 > width ? 0.55 : 1; // many lines would hide the curve
  drawEach(moves, width, 0.5, (x) => context.fillRect(x, FLAGS, 1, tall - FLAGS));
  context.globalAlpha = 1;
  context.fillStyle = bad;
  drawEach(errors, width, 4, (x) => drawDot(context, x, tall - 10, 2));
}

/** Marks as flags; those that are close to each other are one, with their number. */
function drawMarks(context, width) {
  const flags = [];
  for (const [seq] of log.value.marks) {
    const x = xOf(placeOf(seq), width);
    const last = flags.at(-1);
    if (last && x - last.x < CLOSE) last.count += 1;
    else flags.push({ x, count: 1 });
  }
  for (const { x, count } of flags) {
    [context.fillStyle] = palette("mark");
    context.fillRect(x, 2, 1.5, 12);
    drawArea(context, [x, 2], [x + 7, 5], [x, 8]);
    if (count > 1) write(context, String(count), x + 8, 10);
  }
}

/** Hatches what is left behind: the curve stays visible in any colours. */
function drawDead(context, width, tall) {
  const path = new Path2D();
  let end = 0;
  for (const [low, high] of liveRanges.value) {
    const [from, to] = [end, low].map((seq) => xOf(placeOf(seq), width));
    if (low > end + 1) path.rect(from, FLAGS, to - from, tall - FLAGS);
    end = high;
  }
  context.save();
  context.clip(path);
  [context.strokeStyle] = palette("dead");
  for (let x = -tall; x < width; x += HATCH) drawLine(context, [x, tall], [x + tall, 0]);
  context.restore();
}

function drawCursor(canvas) {
  const context = pen(canvas);
  const { clientWidth: width, clientHeight: tall } = canvas;
  const [accent, pin, veil] = palette("accent", "assistant", "bg");
  drawDead(context, width, tall);
  const at = xOf(placeOf(cursor.value), width);
  context.globalAlpha = 0.45;
  context.fillStyle = veil;
  context.fillRect(at, 0, width - at, tall);
  context.globalAlpha = 1;
  const pinned = state.pinned.value;
  if (pinned?.agent === openId.value) {
    context.fillStyle = pin;
    context.fillRect(xOf(placeOf(pinned.at), width) - 1, 0, 2, tall);
  }
  context.fillStyle = accent;
  context.fillRect(at - 1, 0, 2, tall);
}

/** The events near the cursor, a bar for each in the colour of its kind. */
function drawNear(canvas) {
  const context = pen(canvas);
  const width = canvas.clientWidth;
  const names = Object.values(state.KINDS);
  const found = palette(...names.map(state.hue), "accent");
  const bar = (width - 2 * PAD) / (2 * NEAR + 1);
  for (let n = cursor.value - NEAR; n <= cursor.value + NEAR; n++) {
    if (n < 1 || n > log.value.head) continue;
    const tall = Math.min(18, 4 + 2.2 * Math.log2(1 + log.value.tokens[n - 1] / 8));
    context.globalAlpha = n > cursor.value || leftAt(n) ? 0.35 : 1;
    context.fillStyle = found[names.indexOf(kindAt(n))];
    context.fillRect(
      PAD + (n - cursor.value + NEAR) * bar,
      20 - tall,
      Math.max(1, bar - 0.6),
      tall,
    );
  }
  context.globalAlpha = 1;
  context.fillStyle = found[names.length];
  context.fillRect(PAD + NEAR * bar - 1, 0, bar + 1.4, 2);
}

/** Keeps what is under the pointer where it is. */
function zoom(place, by) {
  const [first, last] = whole.value;
  const [low, high] = extent.value.map((end) => place + (end - place) * by);
  const next = [Math.max(first, low), Math.min(last, high)];
  if (next[1] - next[0] >= last - first) state.domain.value = null;
  else if (next[1] - next[0] >= 10) state.domain.value = next;
}

function describePosition() {
  const at = cursor.value;
  const { head, count, size } = log.value;
  if (!at) return "Position 0";
  return `Position ${at} of ${head}, ${momentOf(timeOf(at))}, ${number(count[at])} live, about ${number(size[at])} tokens`;
}

export function Scrubber() {
  const still = useRef(null);
  const moving = useRef(null);
  const near = useRef(null);
  const isLong = log.value.head > MANY;
  // Read only to subscribe: a change redraws the canvas.
  void state.looks.value;
  void tree.value;
  useLayoutEffect(() => {
    const context = pen(still.current);
    const { clientWidth: width, clientHeight: tall } = still.current;
    if (!log.value.head) return;
    drawCurve(context, width, tall);
    drawTicks(context, width, tall);
    drawMarks(context, width);
    drawTimes(context, width, tall);
  }, [log.value, extent.value, axis.value, state.looks.value, still.current?.clientWidth]);
  useLayoutEffect(() => {
    drawCursor(moving.current);
    if (near.current) drawNear(near.current);
  });
  useSize(still, () => {
    state.looks.value += 1;
  });

  const positionAt = (event) => {
    const { left, width } = still.current.getBoundingClientRect();
    const place = placeAtX(event.clientX - left, width);
    return Math.max(1, seqAt(place + (axis.value === "time" ? 0 : 0.5)));
  };
  const grab = (event) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    go(positionAt(event), { jump: true });
  };
  const drag = (event) => {
    if (event.buttons) go(positionAt(event));
  };
  const turn = (event) => {
    event.preventDefault();
    zoom(placeOf(positionAt(event)), event.deltaY > 0 ? 1.25 : 0.8);
  };
  return html`<div class=${`scrubber ${isLong ? "long" : ""}`}>
    <div
      class="stack"
      role="slider"
      tabindex="0"
      aria-label="Position"
      aria-valuemin="0"
      aria-valuemax=${log.value.head}
      aria-valuenow=${cursor.value}
      aria-valuetext=${describePosition()}
      onPointerDown=${grab}
      onPointerMove=${drag}
      onWheel=${turn}
      onDblClick=${state.setTo(state.domain, null)}
    >
      <canvas ref=${still}></canvas><canvas ref=${moving}></canvas>
    </div>
    ${isLong && html`<canvas class="near" ref=${near} aria-hidden="true"></canvas>`}
  </div>`;
}
