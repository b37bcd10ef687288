// What views are made of.

import { session } from "./api.js";
import { h } from "./dom.js";
import { number, short, word } from "./format.js";
import { namespace } from "./session.js";

const TONES = {
  succeeded: "good", released: "", open: "run", running: "run", connecting: "run", held: "run",
  failed: "bad", "timed out": "bad", exhausted: "bad", lost: "bad", missed: "bad", halted: "bad", away: "bad",
  blocked: "wait", retrying: "wait", paused: "wait", waiting: "wait", queued: "wait", skipped: "", cancelled: "",
};

export const badge = (text, tone) => (text ? h("span.badge", { class: tone ?? TONES[text] ?? "" }, text) : null);

export function card(title, note, end, ...content) {
  return h("section.card", { "aria-label": title }, h("header", {}, h("h2", {}, title),
    note ? h("span.quiet", {}, note) : null, end ? h("span.end", {}, end) : null), ...content);
}

export function figure(name, value, note, more = null, wide = false) {
  return h("div.figure", { class: wide ? "wide" : "" }, h("dt", {}, name),
    h("dd", {}, value, note ? h("div.note", {}, note) : null, more));
}

export const figures = (...all) => h("dl.figures", {}, ...all);

const PARTS = { journal: "the coordination database", coordinator: "the coordinator of this server", owner: "a replica that owns the shard" };

/** Which parts of the service have not answered. */
export const silent = (parts) => `No answer from ${parts.map((part) => PARTS[part] ?? `replica ${part}`).join(", ")}.`;

/** What stands where a list would: that there is nothing, and what to do. */
export const empty = (...text) => h("div.empty", {}, ...text.map((one) => (typeof one === "string" ? h("p", {}, one) : one)));

/** `empty`, with a command only for those who may do what it does. */
export const emptyFor = (view, role, nothing, advice, line) => empty(view.may(role) ? `${nothing} ${advice}` : nothing, view.may(role) ? command(line) : null);

/** A text as one word of a command line: names are of callers, and lines are copied into shells. */
export const shellWord = (text) => (/^[\w.:@%+][\w.:@%+-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** A command line that reaches this server. */
export function rallypoint(text) {
  const usual = ["http://localhost:50051", "http://127.0.0.1:50051"].includes(location.origin);
  return `rallypoint ${text}${usual ? "" : ` --server ${location.origin}`}${session.namespace ? ` --namespace ${shellWord(session.namespace)}` : ""}`;
}

export const command = (text) => h("pre", { tabindex: "0", "aria-label": "Command" }, text);

/** columns: { name, cell(row), num, tight, wide }. */
export function table(name, columns, rows, key) {
  const kind = (column) => [column.num && "num", column.tight && "tight", column.wide && "wide", column.name === "" && "end", column.named && "named"].filter(Boolean).join(" ");
  return h("div.scroll", {}, h("table.stack", { "aria-label": name },
    h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: kind(column) },
      column.name || h("span.unseen", {}, "Actions"))))),
    h("tbody", {}, rows.map((row) => h("tr", { "data-key": key?.(row) },
      columns.map((column) => { const content = column.cell(row);
        return h("td", { class: `${kind(column)}${content === "–" || content === null ? " none" : ""}`, "data-label": column.name }, h("div.cell", {}, content)); }))))));
}

export const facts = (pairs) => h("dl.facts", {}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
  .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

/** parts: [{ part, tone, title }]; `whole` is the full width. */
export function bar(parts, whole, label, tall = false) {
  const width = (part) => (whole > 0 ? Math.min(100, (part / whole) * 100) : 0);
  return h("div.bar", { class: tall ? "tall" : "", role: "img", "aria-label": label, title: label },
    parts.filter((one) => one.part > 0).map((one) => h("i", { class: one.tone ?? "", "width%": width(one.part), title: one.title })));
}

/** A line through `values`, oldest first. */
export function spark(values, label) {
  const top = Math.max(...values, 1), step = 100 / Math.max(values.length - 1, 1);
  const points = values.map((value, index) => `${(index * step).toFixed(1)},${(31 - (value / top) * 28).toFixed(1)}`);
  return h("svg", { class: "spark", viewBox: "0 0 100 32", preserveAspectRatio: "none", role: "img", "aria-label": label },
    points.length > 1 ? [h("path", { class: "area", d: `M0,32L${points.join("L")}L100,32Z` }), h("path", { d: `M${points.join("L")}` })] : null);
}

export const schedulerLink = (handle, name) => h("a", { href: `#/schedulers/${handle}` },
  name ? name : h("span.mono", { title: handle }, short(handle)));

/** What a person calls a task: its label `name`. */
export const taskName = (task) => task.task?.options?.labels?.name ?? "";

export const taskLink = (handle, seq, text) => h("a", { href: `#/schedulers/${handle}/tasks/${seq}` }, text ?? `task ${seq}`);

export const kindName = (kind) => kind?.sql_target ?? (kind?.noop ? "no-op" : "?");

/** State of a task, or how it ended. */
export function taskBadge(task) {
  return task.state === "TASK_STATE_DONE" ? badge(word(task.done?.outcome, "OUTCOME")) : badge(word(task.state, "TASK_STATE"));
}

export function schedulerBadges(one) {
  const state = word(one.state, "SCHEDULER_STATE");
  return [badge(state), one.paused ? badge("paused") : null, one.halt ? badge("halted") : null];
}

/** What stands where a list of schedulers would. */
export const noScheduler = (view) => emptyFor(view, "submitter", `There is no scheduler in namespace ${namespace()}.`, "To open one, with a task in it:", rallypoint("exec 'select 1'"));

/** How many of its tasks failed and were cancelled, in words; `ends` is of outcomes.js. */
export function inVain(ends) {
  const least = ends?.whole === false ? "at least " : "";
  const said = (count, what) => (count ? `${least}${number(count)} ${what}` : "");
  return [said(ends?.failed, "failed"), said(ends?.cancelled, "cancelled")].filter(Boolean);
}

/** Tasks of a scheduler as a bar: what waits is the part that is still empty. */
export function progress(one, ends) {
  const { failed = 0, cancelled = 0 } = ends ?? {};
  const parts = [{ part: one.done - failed - cancelled, tone: ends?.whole ? "good" : "ended" }, { part: failed, tone: "bad" }, { part: cancelled, tone: "idle" },
    { part: one.running, tone: "run" }, { part: one.retrying, tone: "wait" }];
  const label = [`${one.done} of ${one.submitted} tasks ended`, ...inVain(ends), `${one.running} running`, `${one.queued} queued`, `${one.blocked} blocked`, `${one.retrying} retrying`].join(", ");
  return bar(parts, one.submitted, label);
}

/** `progress`, with what it says of ends beneath. */
export const ended = (one, ends) => [progress(one, ends), h("span.sub", {}, [`${number(one.done)} of ${number(one.submitted)} ended`, ...inVain(ends)].join(", "))];

/** What a scheduler is called: by the name that commands take, if it has one. */
export const nameOf = (one) => one.name || one.settings?.display_name || "";

/** What else it is called. */
export const alsoOf = (one) => (one.name && one.settings?.display_name !== one.name ? one.settings?.display_name : "") || "";

/** A scheduler in a list: a link, and its display name beside its name. */
export const schedulerCell = (one, ...more) => [schedulerLink(one.handle, nameOf(one)), [alsoOf(one), ...more].filter(Boolean).map((text) => h("span.sub", {}, text))];
