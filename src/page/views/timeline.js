// A bar for each task, from its start to its end, in bands by order, with a barrier where an order has
// ended and the next one may begin.

import { pages } from "../api.js";
import { h, svgLink } from "../dom.js";
import { clock, moment, number, span, word } from "../format.js";
import { empty, kindName, taskName } from "../parts.js";

/** Tasks that are drawn at most: the newest. */
const MOST = 600;
/** Rows of a band at most; further bars share them. */
const LANES = 12;
const LANE = 11;

export async function recent(view, handle) {
  const { rows } = await pages("SchedulerService/ListTasks", { handle, page_size: MOST }, "tasks", MOST, view.signal);
  return rows;
}

const NONE = "none";
const tone = { OUTCOME_SUCCEEDED: "good", OUTCOME_FAILED: "bad", OUTCOME_TIMED_OUT: "bad", OUTCOME_EXHAUSTED: "bad", OUTCOME_CANCELLED: "" };

/** What of a task is drawn; without a start it waits. */
function barOf(task, now) {
  const { done } = task;
  const order = task.effective_order ?? NONE;
  const name = taskName(task).slice(0, 80) || task.statement_preview?.split("\n")[0].slice(0, 80) || kindName(task.task?.sql ? { sql_target: task.task.sql.target || "app" } : { noop: {} });
  if (done) {
    if (!done.started_us) return { task, order, name, waits: true };
    return { task, order, name, from: done.started_us / 1000, to: Math.max(done.ended_us, done.started_us) / 1000, tone: tone[done.outcome], said: word(done.outcome, "OUTCOME") };
  }
  const started = task.state === "TASK_STATE_RUNNING" ? moment(task.started_at) : null;
  return started ? { task, order, name, from: started, to: Math.max(now, started), tone: "run", said: "running", live: true } : { task, order, name, waits: true, unfinished: true };
}

/** Puts each bar into the first row that is free when it starts. */
function lanes(bars) {
  const free = [];
  for (const bar of bars.sort((a, b) => a.from - b.from || a.task.id.seq - b.task.id.seq)) {
    let lane = free.findIndex((until) => until <= bar.from);
    if (lane < 0) lane = free.length < LANES ? free.length : free.indexOf(Math.min(...free));
    free[lane] = Math.max(free[lane] ?? 0, bar.to);
    bar.lane = lane;
  }
  return Math.max(free.length, 1);
}

function bands(bars) {
  const found = new Map();
  for (const bar of bars) {
    if (!found.has(bar.order)) found.set(bar.order, { order: bar.order, bars: [], waiting: 0 });
    const band = found.get(bar.order);
    if (bar.from) band.bars.push(bar);
    else if (bar.unfinished) band.waiting += 1;
  }
  const rank = (band) => (band.order === NONE ? Infinity : Number(band.order));
  return [...found.values()].sort((a, b) => rank(a) - rank(b)).map((band) => ({ ...band, rows: lanes(band.bars),
    ends: band.order !== NONE && band.bars.length && !band.waiting && !band.bars.some((bar) => bar.live) ? Math.max(...band.bars.map((bar) => bar.to)) : null }));
}

/** Times for about five lines, at round distances. */
function ticks(from, to) {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000, 7200000, 21600000, 86400000];
  const step = steps.find((one) => (to - from) / one <= 6) ?? 604800000;
  const all = [];
  for (let at = step; at < to - from; at += step) all.push(at);
  return all;
}

function draw(one, tasks) {
  const now = Date.now();
  const bars = tasks.map((task) => barOf(task, now));
  const drawn = bars.filter((bar) => bar.from);
  if (!drawn.length) return empty(tasks.length ? "No task has started yet." : "Nothing to draw: no task was submitted.");
  const from = Math.min(...drawn.map((bar) => bar.from));
  const to = Math.max(...drawn.map((bar) => bar.to), from + 1);
  const x = (at) => ((at - from) / (to - from)) * 1000;
  const all = bands(bars), lines = ticks(from, to);
  const barriers = all.map((band) => band.ends).filter(Boolean);
  return h("div", { style: null }, h("div.timeline", {},
    all.map((band) => [h("div.order", { "data-key": `o${band.order}` }, h("strong", {}, band.order === NONE ? "no order" : number(band.order)), h("span", {}, counts(band))),
      h("div.band", { "data-key": `b${band.order}` }, picture(band, { x, lines, from, barriers }))]),
    h("div.axis-name", {}, "time"), h("div.axis", {}, axis(lines, from, to))), legend());
}

function counts(band) {
  const parts = [band.bars.length ? `${number(band.bars.length)} task${band.bars.length === 1 ? "" : "s"}` : "", band.waiting ? `${number(band.waiting)} wait` : ""];
  return parts.filter(Boolean).join(", ") || "none ran";
}

function picture(band, { x, lines, from, barriers }) {
  const height = Math.max(band.rows * LANE + 8, 52);
  const top = (height - band.rows * LANE) / 2;
  const failed = band.bars.filter((bar) => bar.tone === "bad").length;
  const label = `Order ${band.order}: ${counts(band)}${failed ? `, ${failed} failed` : ""}`;
  return h("svg", { viewBox: `0 0 1000 ${height}`, height, preserveAspectRatio: "none", role: "group", "aria-label": label },
    lines.map((at) => h("line", { class: "tick", x1: x(from + at), x2: x(from + at), y1: 0, y2: height, "vector-effect": "non-scaling-stroke" })),
    band.bars.map((bar) => svgLink({ href: `#/schedulers/${bar.task.id.handle}/tasks/${bar.task.id.seq}`, tabindex: "-1" },
      h("title", {}, `task ${bar.task.id.seq}, ${bar.said}, ${span(bar.to - bar.from)}: ${bar.name}`),
      h("rect", { class: bar.tone, x: x(bar.from), y: top + bar.lane * LANE + 1, width: Math.max(x(bar.to) - x(bar.from), 2), height: LANE - 2 }))),
    barriers.map((at) => h("line", { class: at === band.ends ? "barrier" : "barrier other", x1: Math.min(x(at), 999), x2: Math.min(x(at), 999), y1: 0, y2: height, "vector-effect": "non-scaling-stroke" })));
}

/** Names of times as elements, since the picture is stretched and its text would be, too. */
function axis(lines, from, to) {
  return h("div.ticks", {}, h("span", {}, clock(from)), lines.map((at) => {
    const name = h("span", {}, `+${span(at)}`);
    const share = at / (to - from);
    name.style.left = `${share * 100}%`;
    // Near the end there is no room behind the line.
    if (share > 0.85) name.style.transform = "translateX(-100%)";
    return name;
  }));
}

const legend = () => h("p.legend", {}, h("span", {}, h("i.good"), "succeeded"), h("span", {}, h("i.bad"), "failed"), h("span", {}, h("i.run"), "running"),
  h("span", {}, h("i"), "cancelled"), h("span", {}, h("i.barrier"), "barrier: the order has ended"));

function note(tasks, one) {
  return one.submitted > tasks.length ? `the newest ${number(tasks.length)} of ${number(one.submitted)} tasks` : "";
}

export const timeline = { draw, note };
