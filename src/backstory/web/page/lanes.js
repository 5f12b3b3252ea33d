/** The branches: a tree of names, and a drawn lane for each. The newest fork is the first child: then no
 *  connector crosses a lane. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { computed, effect, signal } from "@preact/signals";
import * as state from "page/state.js";
import { cursor, go, log, openId } from "page/open_log.js";
import { html, Shape, useSize } from "page/parts.js";
import { axis, endOf, extent, placeAtX, placeOf, seqAt, startOf, tree, xOf } from "page/axis.js";

const LANE = 24;
const FEW = 8; // branches that need no filter
const MANY = 200; // beyond, branches of branches are folded at first

const folds = signal(new Map()); // agent -> true or false, where a person said so
const filterValues = signal({}); // filters of branches by name
const scrollOffset = signal(0);
const height = signal(160);

/** The agents from the root to the open one. */
const path = computed(() => {
  const found = [];
  let node = tree.value.nodes.get(state.route.value.agent);
  while (node) {
    found.unshift(node);
    node = tree.value.nodes.get(node.one.parent);
  }
  return found;
});

const isFolded = (node) =>
  folds.value.get(node.one.id) ??
  (state.agents.value.size > MANY && node.depth > 0 && !path.value.includes(node));

/** Whoever opens an agent sees it: what it stands below is unfolded. */
let opened = "";
effect(() => {
  if (!path.value.length || state.route.value.agent === opened) return;
  opened = state.route.value.agent;
  const above = new Set(path.value.slice(0, -1).map((node) => node.one.id));
  folds.value = new Map([...folds.peek()].filter(([id]) => !above.has(id)));
});

const FILTERS = {
  text: (one, text) => one.name.toLowerCase().includes(text.toLowerCase()),
  marks: (one) => one.marks > 0,
  active: (one) => Date.now() - Date.parse(one.updated_at) < 3600e3,
  spawned: (one) => one.spawned,
};

export const rows = computed(() => {
  const filters = Object.entries(filterValues.value).filter(([, value]) => value);
  const fits = ({ one }) => filters.every(([name, value]) => FILTERS[name](one, value));
  const found = [];
  const waiting = tree.value.roots.toReversed();
  while (waiting.length) {
    const node = waiting.pop();
    if (fits(node) || path.value.includes(node)) found.push(node);
    if (filters.length || !isFolded(node)) waiting.push(...node.children.toReversed());
  }
  return found;
});

const rowOf = computed(() => new Map(rows.value.map((node, index) => [node.one.id, index])));
const openRow = computed(() => rowOf.value.get(state.route.value.agent) ?? -1);

const colours = new Map();
export const look = document.documentElement.dataset;
export const darkness = matchMedia("(prefers-color-scheme: dark)");
const forced = matchMedia("(forced-colors: active)");

/** Colours of the style sheet, read once for each theme. */
export function palette(...names) {
  const theme = `${look.theme} ${darkness.matches} ${forced.matches} `;
  return names.map((name) => {
    if (!colours.has(theme + name)) {
      const probe = document.createElement("span");
      document.body.append(probe);
      probe.style.forcedColorAdjust = "none";
      probe.style.color = `var(--${name})`;
      colours.set(theme + name, getComputedStyle(probe).color);
      probe.remove();
    }
    return colours.get(theme + name);
  });
}

/** A canvas as sharp as the screen; returns its pen, already cleared. */
export function pen(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: tall } = canvas;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(tall * ratio)) canvas.height = Math.round(tall * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, tall);
  return context;
}

function trace(context, points) {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
}
export function drawLine(context, ...points) {
  trace(context, points);
  context.stroke();
}
export function drawArea(context, ...points) {
  trace(context, points);
  context.fill();
}
export function drawDot(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.fill();
}

const yOf = (index) => index * LANE - scrollOffset.value + LANE / 2;

function drawLane(context, node, index, width) {
  const { one } = node;
  const [line, ink, soft] = palette("line-strong", "ink", "accent-soft");
  const y = yOf(index);
  const start = xOf(startOf(node), width);
  const end = xOf(endOf(node), width);
  const above = yOf(rowOf.value.get(one.parent) ?? index); // without a parent: its own lane
  context.fillStyle = soft;
  if (one.id === state.route.value.agent) context.fillRect(0, y - LANE / 2, width, LANE);
  context.strokeStyle = line;
  context.lineWidth = 1;
  context.setLineDash(one.spawned ? [3, 3] : []);
  drawLine(context, [start, Math.max(-LANE, above)], [start, y]);
  context.setLineDash([]);
  context.lineWidth = 1.5;
  drawLine(context, [start, y], [end, y]);
  context.fillStyle = ink;
  context.fillRect(Math.max(start, end - 1), y - 5, 3, 10);
}

function drawLanes(canvas) {
  const context = pen(canvas);
  const { clientWidth: width, clientHeight: tall } = canvas;
  const first = Math.max(0, Math.floor(scrollOffset.value / LANE) - 1);
  const last = Math.min(rows.value.length, Math.ceil((scrollOffset.value + tall) / LANE) + 1);
  for (let index = first; index < last; index++) {
    const node = rows.value[index];
    drawLane(context, node, index, width);
    // Children that are not in view are ticks on the lane.
    for (const child of node.children) {
      const at = rowOf.value.get(child.one.id);
      if (at >= first && at < last) continue;
      context.fillRect(xOf(startOf(child), width), yOf(index) + 2, 1, 5);
    }
  }
}

function drawPath(canvas) {
  const context = pen(canvas);
  const width = canvas.clientWidth;
  const [accent] = palette("accent");
  const at = cursor.value;
  const x = xOf(placeOf(at), width);
  context.strokeStyle = accent;
  context.fillStyle = accent;
  context.globalAlpha = 0.5;
  context.fillRect(x - 0.5, 0, 1, canvas.clientHeight);
  context.globalAlpha = 1;
  context.lineWidth = 3;
  for (const [id, low, high] of log.value.pieces) {
    const index = rowOf.value.get(id);
    if (index === undefined || at < low) continue;
    const end = xOf(placeOf(Math.min(at, high)), width);
    const start = Math.max(0, xOf(placeOf(low - 1), width));
    drawLine(context, [start, yOf(index)], [end, yOf(index)]);
    if (at <= high) drawDot(context, end, yOf(index), 5);
  }
}

function Name({ node, index, inTabs }) {
  const { one, depth, children } = node;
  const isOpen = !isFolded(node);
  const fold = (event) => {
    event.stopPropagation();
    folds.value = new Map(folds.value).set(one.id, isOpen);
  };
  const selected = one.id === state.route.value.agent;
  return html`<div
    role="treeitem"
    class="name"
    id=${`lane-${one.id}`}
    aria-level=${depth + 1}
    aria-selected=${selected}
    tabindex=${inTabs ? 0 : -1}
    aria-expanded=${children.length ? String(isOpen) : undefined}
    aria-posinset=${index + 1}
    aria-setsize=${rows.value.length}
    style=${{ top: `${index * LANE}px`, paddingLeft: `${8 + Math.min(depth, 8) * 12}px` }}
    title=${one.name}
    onClick=${() => state.open(one.id)}
  >
    <${Shape} of=${one} depth=${depth} />
    <span class="clip">${one.name}</span>
    ${children.length > 0 && html`<button tabindex="-1" class="fold quiet" aria-label=${`${isOpen ? "Fold" : "Unfold"} ${one.name}`} onClick=${fold}>${isOpen ? "−" : `+${children.length}`}</button>`}
  </div>`;
}

export function stepLane(by) {
  const next = rows.value[openRow.value + by];
  if (next) state.open(next.one.id);
}
export function foldHere(close) {
  folds.value = new Map(folds.value).set(state.route.value.agent, close);
}

function Filters() {
  const set = (name) => (event) => {
    const { type, checked, value } = event.target;
    filterValues.value = { ...filterValues.value, [name]: type === "checkbox" ? checked : value };
  };
  const boxes = { marks: "with marks", active: "active", spawned: "spawned" };
  return html`<div class="lane-filters strip hint">
    <input
      type="search"
      placeholder="Filter branches"
      aria-label="Filter branches"
      onInput=${set("text")}
    />
    ${Object.entries(boxes).map(([name, title]) => html`<label key=${name}><input type="checkbox" onChange=${set(name)} /> ${title}</label>`)}
  </div>`;
}

export function Lanes() {
  const box = useRef(null);
  const still = useRef(null);
  const moving = useRef(null);
  const first = Math.max(0, Math.floor(scrollOffset.value / LANE) - 2);
  const here = openRow.value;
  const seen = rows.value.slice(first, Math.ceil((scrollOffset.value + height.value) / LANE) + 2);
  const drawn = [rows, scrollOffset, height, extent, axis, state.looks, state.route].map(
    (one) => one.value,
  );
  useSize(box, (element) => {
    height.value = element.clientHeight;
    state.looks.value += 1;
  });
  useLayoutEffect(() => {
    const { scrollTop, clientHeight } = box.current;
    const top = here * LANE;
    const isSeen = top >= scrollTop && top + LANE <= scrollTop + clientHeight;
    if (here < 0 || isSeen) return;
    box.current.scrollTop = top - clientHeight / 2;
    scrollOffset.value = box.current.scrollTop;
  }, [state.route.value.agent, rows.value]);
  useLayoutEffect(() => drawLanes(still.current), drawn);
  useLayoutEffect(() => drawPath(moving.current), [...drawn, cursor.value, log.value]);
  const onClick = (event) => {
    const node = rows.value[Math.floor((event.offsetY + scrollOffset.value) / LANE)];
    if (!node) return;
    const place = placeAtX(event.offsetX, still.current.clientWidth);
    if (node.one.id === openId.value) {
      go(Math.max(1, seqAt(place + 0.5)), { jump: true });
      return;
    }
    const at = Math.max(1, Math.round(place - node.offset)); // of other agents no times are known
    state.open(node.one.id, axis.value === "time" || at >= node.one.head ? null : at);
  };
  const onScroll = (event) => {
    scrollOffset.value = event.currentTarget.scrollTop;
  };
  const onWheel = (event) => {
    box.current.scrollTop += event.deltaY;
  };
  const Row = (node, index) => {
    const inTabs = here < 0 ? !index : first + index === here;
    return html`<${Name}
      key=${node.one.id}
      node=${node}
      index=${first + index}
      inTabs=${inTabs}
    />`;
  };
  return html`<section class="lanes" aria-label="Branches" style=${{ "--rows": rows.value.length }}>
    ${state.agents.value.size > FEW && html`<${Filters} />`}
    <div class="names" ref=${box} role="tree" aria-label="Branches" onScroll=${onScroll}>
      <div role="presentation" class="all" style=${{ height: `${rows.value.length * LANE}px` }}>
        ${seen.map(Row)}
      </div>
    </div>
    <div class="stack" aria-hidden="true" onClick=${onClick} onWheel=${onWheel}>
      <canvas ref=${still}></canvas><canvas ref=${moving}></canvas>
    </div>
  </section>`;
}
