/** The branches: names as a tree of real elements, and beside them one lane for each, drawn.
 *  Children stand newest fork first: then no connector crosses a lane. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { computed, effect, signal } from "@preact/signals";
import html from "page/html.js";
import * as state from "page/state.js";
import { agents, route, cursor, log } from "page/state.js";
import { Shape, useSize } from "page/parts.js";
import { axis, endOf, extent, placeAtX, placeOf, seqAt, startOf, tree, xOf } from "page/axis.js";

export const LANE = 24;
const MANY = 200; // beyond, branches of branches are folded at first

const folded = signal(new Map()); // agent -> true or false, where a person said so
const wanted = signal({ text: "", marks: false, active: false, spawned: false });
const scrolled = signal(0);
const height = signal(160);

/** The agents from the root to the open one. */
const path = computed(() => {
  const found = [];
  let node = tree.value.nodes.get(route.value.agent);
  while (node) {
    found.unshift(node);
    node = tree.value.nodes.get(node.one.parent);
  }
  return found;
});

const isFolded = (node) =>
  folded.value.get(node.one.id) ??
  (agents.value.size > MANY && node.depth > 0 && !path.value.includes(node));

/** Whoever opens an agent sees it: what it stands below is unfolded. */
let opened = "";
effect(() => {
  if (!path.value.length || route.value.agent === opened) return;
  opened = route.value.agent;
  const above = path.value.slice(0, -1).map((node) => node.one.id);
  const now = folded.peek();
  if (above.some((id) => now.get(id)))
    folded.value = new Map([...now].filter(([id]) => !above.includes(id)));
});

export const rows = computed(() => {
  const { text, marks, active, spawned } = wanted.value;
  const filtering = text || marks || active || spawned;
  const fits = ({ one }) =>
    (!text || one.name.toLowerCase().includes(text.toLowerCase())) &&
    (!marks || one.marks > 0) &&
    (!spawned || one.spawned) &&
    (!active || Date.now() - Date.parse(one.updated_at) < 3600e3);
  const found = [];
  const waiting = [...tree.value.roots].reverse();
  while (waiting.length) {
    const node = waiting.pop();
    if (!filtering || fits(node) || path.value.includes(node)) found.push(node);
    if (filtering || !isFolded(node)) waiting.push(...[...node.children].reverse());
  }
  return found;
});

const places = computed(() => new Map(rows.value.map((node, index) => [node.one.id, index])));
const place = computed(() => places.value.get(route.value.agent) ?? -1);

const colours = new Map();
export const look = document.documentElement.dataset;
export const darkness = matchMedia("(prefers-color-scheme: dark)");
const forced = matchMedia("(forced-colors: active)");

/** Colours of the style sheet, as the browser resolved them: asked once for each theme. */
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

const yOf = (index) => index * LANE - scrolled.value + LANE / 2;

function drawLanes(canvas) {
  const context = pen(canvas);
  const width = canvas.clientWidth;
  const tall = canvas.clientHeight;
  const [line, ink, soft] = palette("line-strong", "ink", "accent-soft");
  const first = Math.max(0, Math.floor(scrolled.value / LANE) - 1);
  const last = Math.min(rows.value.length, Math.ceil((scrolled.value + tall) / LANE) + 1);
  context.lineWidth = 1;
  for (let index = first; index < last; index++) {
    const node = rows.value[index];
    const { one } = node;
    const y = yOf(index);
    if (one.id === route.value.agent) {
      context.fillStyle = soft;
      context.fillRect(0, y - LANE / 2, width, LANE);
    }
    const start = xOf(startOf(node), width);
    const end = xOf(endOf(node), width);
    context.strokeStyle = line;
    context.setLineDash(one.spawned ? [3, 3] : []);
    const parent = places.value.get(one.parent);
    if (parent !== undefined) {
      context.beginPath();
      context.moveTo(start, Math.max(-LANE, yOf(parent)));
      context.lineTo(start, y - 4);
      context.quadraticCurveTo(start, y, start + 4, y);
      context.stroke();
    }
    context.setLineDash([]);
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(Math.min(start + (parent === undefined ? 0 : 4), end), y);
    context.lineTo(end, y);
    context.stroke();
    context.lineWidth = 1;
    context.fillStyle = ink;
    context.fillRect(Math.max(start, end - 1), y - 5, 3, 10);
    for (const child of node.children) {
      const at = places.value.get(child.one.id);
      if (at >= first && at < last) continue;
      context.fillRect(xOf(startOf(child), width), y + 2, 1, 5);
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
    const index = places.value.get(id);
    if (index === undefined || at < low) continue;
    const end = xOf(placeOf(Math.min(at, high)), width);
    context.beginPath();
    context.moveTo(Math.max(0, xOf(placeOf(low - 1), width)), yOf(index));
    context.lineTo(end, yOf(index));
    context.stroke();
    if (at >= low && at <= high) {
      context.beginPath();
      context.arc(end, yOf(index), 5, 0, 7);
      context.fill();
    }
  }
}

function Name({ node, index, inTabs }) {
  const { one, depth, children } = node;
  const isOpen = !isFolded(node);
  const fold = (event) => {
    event.stopPropagation();
    folded.value = new Map(folded.value).set(one.id, isOpen);
  };
  const selected = one.id === route.value.agent;
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
    <span>${one.name}</span>
    ${children.length > 0 && html`<button tabindex="-1" class="fold" aria-label=${`${isOpen ? "Fold" : "Unfold"} ${one.name}`} onClick=${fold}>${isOpen ? "−" : `+${children.length}`}</button>`}
  </div>`;
}

export function laneStep(by) {
  const next = rows.value[place.value + by];
  if (next) state.open(next.one.id);
}
export function foldHere(close) {
  folded.value = new Map(folded.value).set(route.value.agent, close);
}

export function Lanes() {
  const box = useRef(null);
  const still = useRef(null);
  const moving = useRef(null);
  const first = Math.max(0, Math.floor(scrolled.value / LANE) - 2);
  const here = place.value;
  const seen = rows.value.slice(first, Math.ceil((scrolled.value + height.value) / LANE) + 2);
  void [state.looks.value, cursor.value, extent.value, axis.value];
  useSize(box, (element) => {
    height.value = element.clientHeight;
    state.looks.value += 1;
  });
  useLayoutEffect(() => {
    const element = box.current;
    const top = here * LANE;
    if (
      here < 0 ||
      (top >= element.scrollTop && top + LANE <= element.scrollTop + element.clientHeight)
    )
      return;
    element.scrollTop = Math.max(0, top - element.clientHeight / 2);
    scrolled.value = element.scrollTop;
  }, [route.value.agent, rows.value]);
  useLayoutEffect(
    () => drawLanes(still.current),
    [
      rows.value,
      scrolled.value,
      height.value,
      extent.value,
      axis.value,
      state.looks.value,
      route.value.agent,
    ],
  );
  useLayoutEffect(() => drawPath(moving.current));
  const onClick = (event) => {
    const index = Math.floor((event.offsetY + scrolled.value) / LANE);
    const node = rows.value[index];
    if (!node) return;
    const place = placeAtX(event.offsetX, still.current.clientWidth);
    if (node.one.id === route.value.agent) {
      state.go(Math.max(1, seqAt(place + 0.5)), { jump: true });
      return;
    }
    const at = Math.max(1, Math.round(place - node.offset)); // by time, only the times of the open agent are known
    state.open(node.one.id, axis.value === "time" || at >= node.one.head ? null : at);
  };
  const set = (name) => (event) => {
    wanted.value = {
      ...wanted.value,
      [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value,
    };
  };
  return html`<section class="lanes" aria-label="Branches" style=${{ "--rows": rows.value.length }}>
    ${
      agents.value.size > 8 &&
      html`<div class="lane-filters">
        <input
          type="search"
          placeholder="Filter branches"
          aria-label="Filter branches"
          onInput=${set("text")}
        />
        ${["marks", "active", "spawned"].map((name) => html`<label key=${name}><input type="checkbox" onChange=${set(name)} /> ${name === "marks" ? "with marks" : name}</label>`)}
      </div>`
    }
    <div
      class="names"
      ref=${box}
      role="tree"
      aria-label="Branches"
      onScroll=${(event) => {
        scrolled.value = event.currentTarget.scrollTop;
      }}
    >
      <div role="presentation" class="all" style=${{ height: `${rows.value.length * LANE}px` }}>
        ${seen.map((node, index) => html`<${Name} key=${node.one.id} node=${node} index=${first + index} inTabs=${here < 0 ? !index : first + index === here} />`)}
      </div>
    </div>
    <div
      class="stack"
      aria-hidden="true"
      onClick=${onClick}
      onWheel=${(event) => {
        box.current.scrollTop += event.deltaY;
      }}
    >
      <canvas ref=${still}></canvas><canvas ref=${moving}></canvas>
    </div>
  </section>`;
}
