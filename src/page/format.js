// Numbers, times and words as people read them.

import { forReaders } from "./words.js";

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const number = (value) => grouped.format(value ?? 0).replaceAll(",", "\u202f");

export function rate(value) {
  if (value >= 100) return number(Math.round(value));
  return value >= 10 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, "");
}

/** Milliseconds. */
export function span(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (ms < 0) ms = 0;
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${ms < 9.95 ? ms.toFixed(1).replace(/\.0$/, "") : Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 9.95 ? s.toFixed(1).replace(/\.0$/, "") : Math.round(s)} s`;
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const at = parts.findIndex(([, length]) => s >= length);
  const [[big, bigLength], [small, smallLength]] = [parts[at], parts[at + 1]];
  const whole = Math.floor(s / bigLength);
  const rest = Math.floor((s - whole * bigLength) / smallLength);
  return rest ? `${whole} ${big} ${rest} ${small}` : `${whole} ${big}`;
}

/** A duration of the API, such as "1.5s", in milliseconds. */
export const millis = (text) => (text ? parseFloat(text) * 1000 : null);

/** A time of the API: text, or microseconds. */
export function moment(value) {
  if (!value) return null;
  return typeof value === "number" ? value / 1000 : Date.parse(value);
}

const two = (value) => String(value).padStart(2, "0");

/** In the time of the reader; with the date, unless it is today. */
export function clock(ms) {
  if (!ms) return "";
  const full = stamp(ms);
  return new Date(ms).toDateString() === new Date().toDateString() ? full.slice(11) : full;
}

/** With its date, also if that is today's: where times of several days stand together. */
export function stamp(ms) {
  if (!ms) return "";
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The zone of these times. */
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

export function ago(ms) {
  if (!ms) return "";
  const passed = Date.now() - ms;
  return passed >= 0 ? `${span(Math.max(passed, 1000))} ago` : `in ${span(-passed)}`;
}

/** A text of the service as a sentence. */
export function sentence(text) {
  const said = forReaders(text);
  return said && `${said[0].toUpperCase()}${said.slice(1)}${/[.!?]$/.test(said) ? "" : "."}`;
}

export const short = (handle) => (handle ? `…${handle.slice(-8)}` : "");

/** Who has done something, and why, behind what it is: callers of one namespace are not told. */
export const byWhom = (who, why) => `${who ? ` by ${who}` : ""}${why ? `: ${why}` : ""}`;

/** The last words of the name of an enumeration's value: TASK_STATE_QUEUED is "queued". */
export function word(value, prefix) {
  const text = (value ?? "").replace(new RegExp(`^${prefix}_`), "");
  return text === "UNSPECIFIED" ? "" : text.toLowerCase().replaceAll("_", " ");
}

export function schedule(settings) {
  if (!settings) return "";
  const zone = settings.time_zone && settings.time_zone !== "UTC" ? ` ${settings.time_zone}` : "";
  if (settings.cron) return `${settings.cron}${zone}`;
  if (settings.interval) return `every ${span(millis(settings.interval.every))}`;
  if (settings.after) return `after ${settings.after}`;
  if (settings.once_per) {
    const { period, after, before } = settings.once_per;
    const window = [after && `from ${after}`, before && `until ${before}`].filter(Boolean).join(" ");
    return `once a ${word(period, "PERIOD")} ${window}${zone}`.trim();
  }
  return "";
}

export const labels = (map) => Object.entries(map ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => `${key}=${value}`).join("  ");
