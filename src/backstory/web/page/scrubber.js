/** The scrubber: every position of the lineage, the size of the context at each, and what is left behind. */
import { useLayoutEffect, useRef } from "preact/hooks";
import html from "page/html.js";
import * as state from "page/state.js";
import { clockOf, dayOf, momentOf } from "page/format.js";
import { log, cursor, liveRanges, domain, number } from "page/state.js";
import { axis, extent, PAD, placeAtX, placeOf, seqAt, tree, whole, xOf } from "page/axis.js";
import { palette, pen } from "page/lanes.js";
import { useSize } from "page/parts.js";
import { largest } from "page/lineage.js";

const FLAGS = 14;
const CLOSE = 8; // marks closer than this are one flag
const MANY = 2000; // from here on a second strip shows the neighbourhood of the cursor
const HATCH = 5; // pixels between two lines of what is left behind
const NEAR = 160; // events on each side of the cursor in that strip
const PROMPT = "u".charCodeAt(0);

/** The size of the context in the log, and above it what its provider counted beside it. */
function drawCurve(context, width, tall) {
  const [fill, edge, outside] = palette("curve", "curve-edge", "line");
  const { size, outside: others, sized } = log.value;
  const [low, high] = extent.value;
  const most = largest(log.value, seqAt(low), seqAt(high)) || 1;
  const yOf = (tokens) => tall - (tokens / most) * (tall - FLAGS - 4);
  const columns = [];
  for (let x = PAD; x <= width - PAD; x++) {
    if (placeAtX(x, width) > placeOf(sized)) break;
    const at = seqAt(placeAtX(x + 1, width));
    const top = largest(log.value, seqAt(placeAtX(x, width)), at);
    columns.push([x, top, size[at] + others[at] ? size[at] / (size[at] + others[at]) : 1]);
  }
  if (!columns.length) return;
  const last = columns[columns.length - 1][0];
  context.beginPath();
  context.moveTo(PAD, tall);
  for (const [x, top, share] of columns) context.lineTo(x, yOf(top * share));
  context.lineTo(last, tall);
  context.fillStyle = fill;
  context.fill();
  context.beginPath();
  for (const [x, top, share] of columns) {
    if (share < 1 && x % HATCH === 0) {
      context.moveTo(x, yOf(top * share));
      context.lineTo(x, yOf(top));
    }
  }
  context.strokeStyle = outside;
  context.lineWidth = 1;
  context.stroke();
  context.beginPath();
  for (const [x, top] of columns) context.lineTo(x, yOf(top));
  context.strokeStyle = edge;
  context.lineWidth = 1.5;
  context.stroke();
  const [ink] = palette("dim");
  context.fillStyle = ink;
  context.font = "10px system-ui";
  context.textAlign = "right";
  context.fillText(`${number(Math.round(most))} tokens`, width - PAD, FLAGS + 8);
  context.textAlign = "left";
}

function drawTimes(context, width, tall) {
  if (axis.value !== "time") return;
  const [ink] = palette("dim");
  context.fillStyle = ink;
  context.font = "10px system-ui";
  let day = "";
  for (let x = PAD; x < width - 110; x += 120) {
    const seq = seqAt(placeAtX(x, width));
    if (!seq) continue;
    const moment = state.timeOf(seq);
    const text = dayOf(moment) === day ? clockOf(moment) : momentOf(moment);
    day = dayOf(moment);
    context.fillText(text, x, tall - 8);
    context.fillRect(x - 3, tall - 14, 1, 14);
  }
}

function ticks(context, width, tall) {
  const { kinds, moves, errors, marks } = log.value;
  const [prompt, move, bad, flag, ink] = palette("user", "move", "error", "mark", "ink");
  let before = -9;
  context.fillStyle = prompt;
  const [low, high] = extent.value;
  const end = seqAt(high);
  for (let n = Math.max(1, seqAt(low)); n <= end; n++) {
    if (kinds[n - 1] !== PROMPT) continue;
    const x = xOf(placeOf(n), width);
    context.fillRect(x, tall - 6, 1, 6);
    n = Math.max(n, seqAt(placeAtX(x + 1.5, width)) - 1); // what stands closer would not be seen
  }
  context.fillStyle = move;
  context.globalAlpha = moves.length * 12 > width ? 0.55 : 1; // many lines would hide the curve
  for (const n of moves) {
    const x = xOf(placeOf(n), width);
    if (x - before >= 0.5) context.fillRect((before = x), FLAGS, 1, tall - FLAGS);
  }
  context.globalAlpha = 1;
  context.fillStyle = bad;
  before = -9;
  for (const n of errors) {
    const x = xOf(placeOf(n), width);
    if (x - before < 4) continue;
    context.beginPath();
    context.arc((before = x), tall - 10, 2, 0, 7);
    context.fill();
  }
  let cluster = null;
  const draw = () => {
    if (!cluster) return;
    context.fillStyle = flag;
    context.fillRect(cluster.x, 2, 1.5, 12);
    context.beginPath();
    context.moveTo(cluster.x, 2);
    context.lineTo(cluster.x + 7, 5);
    context.lineTo(cluster.x, 8);
    context.fill();
    context.fillStyle = ink;
    if (cluster.count > 1) context.fillText(String(cluster.count), cluster.x + 8, 10);
  };
  context.font = "10px system-ui";
  for (const [n] of marks) {
    const x = xOf(placeOf(n), width);
    if (cluster && x - cluster.x < CLOSE) cluster.count += 1;
    else {
      draw();
      cluster = { x, count: 1 };
    }
  }
  draw();
}

/** Draws what is left behind as lines, through which the curve can be seen in any colours. */
function hatch(context, from, to, tall, colour) {
  context.save();
  context.beginPath();
  context.rect(from, FLAGS, to - from, tall - FLAGS);
  context.clip();
  context.beginPath();
  for (let x = from - tall; x < to; x += HATCH) {
    context.moveTo(x, tall);
    context.lineTo(x + tall, 0);
  }
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.stroke();
  context.restore();
}

function drawCursor(canvas) {
  const context = pen(canvas);
  const width = canvas.clientWidth;
  const tall = canvas.clientHeight;
  const [accent, dead, pin] = palette("accent", "dead", "assistant");
  let end = 0;
  for (const [low, high] of liveRanges.value) {
    if (low > end + 1)
      hatch(context, xOf(placeOf(end), width), xOf(placeOf(low), width), tall, dead);
    end = high;
  }
  const at = xOf(placeOf(cursor.value), width);
  context.globalAlpha = 0.45;
  const [veil] = palette("bg");
  context.fillStyle = veil;
  context.fillRect(at, 0, width - at, tall);
  context.globalAlpha = 1;
  const pinned = state.other.value;
  if (pinned?.agent === state.here()) {
    context.fillStyle = pin;
    context.fillRect(xOf(placeOf(pinned.at), width) - 1, 0, 2, tall);
  }
  context.fillStyle = accent;
  context.fillRect(at - 1, 0, 2, tall);
}

/** The neighbourhood of the cursor, a bar for each event, in the colour of its kind. */
function drawNear(canvas) {
  const context = pen(canvas);
  const width = canvas.clientWidth;
  const names = Object.values(state.KINDS);
  const found = palette(...names.map(state.hue), "accent");
  const bar = (width - 2 * PAD) / (2 * NEAR + 1);
  for (let n = cursor.value - NEAR; n <= cursor.value + NEAR; n++) {
    if (n < 1 || n > log.value.head) continue;
    const tall = Math.min(18, 4 + 2.2 * Math.log2(1 + log.value.tokens[n - 1] / 8));
    context.globalAlpha = n > cursor.value || state.leftAt(n) ? 0.35 : 1;
    context.fillStyle = found[names.indexOf(state.kindAt(n))];
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

export function Scrubber() {
  const still = useRef(null);
  const moving = useRef(null);
  const near = useRef(null);
  const dragging = useRef(false);
  const isLong = log.value.head > MANY;
  void state.looks.value;
  void tree.value;
  useLayoutEffect(() => {
    const context = pen(still.current);
    const { clientWidth: width, clientHeight: tall } = still.current;
    if (!log.value.head) return;
    drawCurve(context, width, tall);
    ticks(context, width, tall);
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
    const box = still.current.getBoundingClientRect();
    return Math.max(
      1,
      seqAt(placeAtX(event.clientX - box.left, box.width) + (axis.value === "time" ? 0 : 0.5)),
    );
  };
  const grab = (event) => {
    dragging.current = true;
    event.currentTarget.setPointerCapture(event.pointerId);
    state.go(positionAt(event), { jump: true });
  };
  const drag = (event) => {
    if (dragging.current) state.go(positionAt(event));
  };
  const drop = () => {
    dragging.current = false;
  };
  const zoom = (event) => {
    event.preventDefault();
    const [low, high] = extent.value;
    const place = placeOf(positionAt(event));
    const by = event.deltaY > 0 ? 1.25 : 0.8;
    const [first, last] = whole.value;
    const next = [
      Math.max(first, place - (place - low) * by),
      Math.min(last, place + (high - place) * by),
    ];
    if (next[1] - next[0] >= last - first) domain.value = null;
    else if (next[1] - next[0] >= 10) domain.value = next;
  };
  const at = cursor.value;
  const text = at
    ? `Position ${at} of ${log.value.head}, ${momentOf(state.timeOf(at))}, ${number(log.value.count[at])} live, about ${number(log.value.size[at])} tokens`
    : "Position 0";
  return html`<div class=${`scrubber ${isLong ? "long" : ""}`}>
    <div
      class="stack"
      role="slider"
      tabindex="0"
      aria-label="Position"
      aria-valuemin="0"
      aria-valuemax=${log.value.head}
      aria-valuenow=${at}
      aria-valuetext=${text}
      onPointerDown=${grab}
      onPointerMove=${drag}
      onPointerUp=${drop}
      onPointerCancel=${drop}
      onWheel=${zoom}
      onDblClick=${state.setTo(domain, null)}
    >
      <canvas ref=${still}></canvas><canvas ref=${moving}></canvas>
    </div>
    ${isLong && html`<canvas class="near" ref=${near} aria-hidden="true"></canvas>`}
  </div>`;
}
