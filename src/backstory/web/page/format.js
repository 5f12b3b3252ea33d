/** Numbers, dates, ages and texts as the page shows them. */

export const number = (n) => n.toLocaleString("en-US");
export const writeCount = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

/** What answers cost; what the log does not say is estimated at list prices. */
export const costOf = ({ cost, is_estimate: about }) =>
  `${about ? "≈ " : ""}$${cost.toFixed(cost < 0.1 ? 4 : 2)}`;

const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
/** Returns a day, as in 18 Nov 2026. */
export const dayOf = (date) => DATE.format(date);
/** Returns a time of day, as in 06:58. */
export const clockOf = (date) => TIME.format(date);
/** Returns a moment, as in 18 Nov 2026, 06:58. */
export const momentOf = (date) => `${dayOf(date)}, ${clockOf(date)}`;

/** @type {[number, string][]} */
const UNITS = [
  [31557600, "y"],
  [2629800, "mo"],
  [604800, "wk"],
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

/** Returns how long something takes or is ago, in its largest unit. */
export function durationOf(seconds) {
  for (const [size, unit] of UNITS)
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  return "";
}

/** Returns how long ago a moment was. */
export const ageOf = (stamp) => {
  const seconds = (Date.now() - Date.parse(stamp)) / 1000;
  return seconds < 60 ? "now" : durationOf(seconds);
};

/** Shows control and direction characters, which are not obeyed. */
export const visible = (text) =>
  text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g,
    (c) => `<U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`,
  );
