// What is going on, and what needs somebody.

import { pages } from "../api.js";
import { h } from "../dom.js";
import { ago, clock, moment, number, rate, short, span, word } from "../format.js";
import { names } from "../names.js";
import { outcomes } from "../outcomes.js";
import { badge, bar, card, command, empty, emptyFor, ended, figure, figures, kindName, nameOf, noScheduler, rallypoint, schedulerBadges, schedulerCell, schedulerLink, silent, spark, table, taskLink } from "../parts.js";
import { attention, heldUp } from "./attention.js";

const KEPT = 120;
/** Open and released schedulers that are read each time, and every third time, to look for errors in them. */
const NEAR = [30, 8], FAR = [100, 300];

export function overview(view) {
  const seen = { status: null, executions: [], schedulers: [], trouble: null, samples: [], ends: outcomes(view) };
  const named = names(view);
  const draw = () => {
    if (!seen.status) return;
    view.show(h("div.head", {}, h("div", {}, h("h1", {}, "Overview"))),
      numbers(seen), needs(seen, named), h("div.two", {}, slots(seen, named), waits(seen)), running(view, seen, named), latest(view, seen));
  };
  view.follow("StatusService/WatchExecutions", { interval: "1s" }, (message) => {
    seen.executions = message.executions;
    draw();
  });
  let turns = 0;
  view.every(1000, async () => {
    const slow = turns % 5 === 0;
    turns += 1;
    seen.status = await view.call("StatusService/GetStatus");
    sample(seen);
    draw();
    if (!slow) return;
    await read(view, seen, turns % 15 === 6);
    named.learn(seen.schedulers);
    draw();
    [seen.trouble, seen.held] = await Promise.all([attention(view, seen), heldUp(view, seen), named.read(longest(seen).map((run) => run.handle))]);
    draw();
  });
}

/** The newest open and released schedulers, and whether there are more. */
async function newest(view, [open, released]) {
  const list = (page_size, states) => view.call("SchedulerService/ListSchedulers", { page_size, filter: { states: states.map((state) => `SCHEDULER_STATE_${state}`) } });
  const [going, over] = await Promise.all([list(open, ["OPEN", "RELEASING"]), list(released, ["RELEASED"])]);
  return { rows: [...going.schedulers, ...over.schedulers], more: Boolean(going.next_page_token || over.next_page_token) };
}

/** Reads the lists of which the view is made; with `far` also those that are only looked at for errors. */
async function read(view, seen, far) {
  const all = (method, field) => pages(method, { page_size: 200 }, field, 200, view.signal);
  const [near, halted, resources, jobs, wide] = await Promise.all([newest(view, NEAR), view.call("SchedulerService/ListSchedulers", { page_size: 20, filter: { halted: true, states: ["SCHEDULER_STATE_OPEN", "SCHEDULER_STATE_RELEASING"] } }),
    all("ResourceService/ListResources", "resources"), all("JobService/ListJobs", "jobs"), far ? newest(view, FAR) : seen.wide]);
  const shown = new Set(near.rows.map((one) => one.handle));
  const looked = [...near.rows, ...(wide?.rows ?? []).filter((one) => !shown.has(one.handle))];
  Object.assign(seen, { schedulers: near.rows, halted: halted.schedulers, resources: resources.rows, jobs: jobs.rows, wide, looked, more: (wide ?? near).more });
}

/** A rate is what has ended between two answers. */
function sample(seen) {
  const { backlog } = seen.status;
  if (!backlog) {
    seen.last = null;
    return;
  }
  const { ended = 0 } = backlog;
  const at = performance.now(), last = seen.last;
  if (last && ended >= last.ended && at > last.at) seen.samples.push(((ended - last.ended) * 1000) / (at - last.at));
  seen.last = { at, ended };
  seen.samples.splice(0, seen.samples.length - KEPT);
}

function numbers({ status, samples }) {
  const { backlog } = status;
  if (!backlog) return empty(`How much there is to do is not known. ${silent(status.unreachable)}`);
  const now = samples.slice(-3);
  const speed = now.length ? now.reduce((sum, one) => sum + one, 0) / now.length : 0;
  const oldest = moment(backlog.oldest_queued_at);
  return figures(
    figure("Tasks ended a second", rate(speed), null, spark(samples, `Tasks ended a second, over the last ${samples.length} s`), true),
    figure("Running", number(backlog.running), `in ${number(backlog.schedulers)} open scheduler${backlog.schedulers === 1 ? "" : "s"}`),
    figure("Queued", number(backlog.queued), oldest ? `oldest for ${span(Date.now() - oldest)}` : "may start at once"),
    figure("Blocked", number(backlog.blocked), "wait for their turn"),
    figure("Retrying", number(backlog.retrying), "after a failed attempt"),
    figure("Failed", number(backlog.failed), "since the last restart or takeover"));
}

function needs({ status, trouble, held = [], looked, more, ends }, named) {
  if (!trouble) return card("Needs a look", "", null, h("p.quiet", {}, "Looking …"));
  const rows = [...held, ...trouble];
  const line = ({ tone, kind, what, more: detail, at, href, handle, name }) => h("li", {}, h("span", {}, badge(kind, tone)),
    h("div", {}, h("div", {}, href ? h("a", { href }, what) : what, handle ? [" in ", schedulerLink(handle, named.of(handle) || name)] : null),
      detail || at ? h("div.sub", {}, [detail, at ? ago(at) : ""].filter(Boolean).join(" · ")) : null));
  return card("Needs a look", rows.length ? `${rows.length}` : "", null,
    rows.length ? h("ul.list", {}, rows.map(line)) : empty(status.unreachable.length
      ? silent(status.unreachable) : "Nothing: no errors in the last hour, nothing held up, every target is there."), searched(looked, more, ends));
}

/** What was looked through for errors, where that is not all there is. */
function searched(looked, more, ends) {
  const known = looked.filter((one) => one.done === 0 || ends.of(one)).length;
  if (!more && known === looked.length) return null;
  const which = `the ${more ? "newest " : ""}${number(looked.length)} schedulers`;
  return h("p.quiet.small", {}, known < looked.length ? `Looking for errors in ${which}: ${number(known)} done.` : `Errors were looked for in ${which}.`,
    more ? [" For older ones see ", h("a", { href: "#/schedulers" }, "all schedulers"), "."] : null);
}

function slots({ status, executions }, named) {
  const kinds = status.slots.filter((one) => one.kind?.sql_target || one.busy > 0);
  const rows = kinds.map((one) => {
    const name = kindName(one.kind);
    const used = new Map();
    executions.filter((run) => run.handle && kindName(run.kind) === name).forEach((run) => used.set(run.handle, (used.get(run.handle) ?? 0) + 1));
    const sorted = [...used].sort((a, b) => b[1] - a[1]);
    const shown = sorted.slice(0, 4), rest = sorted.slice(4).reduce((sum, [, count]) => sum + count, 0);
    const others = Math.max(0, one.busy - sorted.reduce((sum, [, count]) => sum + count, 0));
    const parts = shown.map(([handle, part], index) => ({ part, tone: `s${index}`, title: `${named.of(handle) || short(handle)}: ${part}` }));
    return h("div", { "data-key": name }, h("div.title", {}, h("h3", {}, name), h("span.quiet.small", {}, `${number(one.busy)} of ${number(one.total)} slots busy`)),
      bar([...parts, { part: rest + others, tone: "s4", title: `others: ${rest + others}` }], one.total, `${name}: ${one.busy} of ${one.total} slots busy`, true),
      shown.length ? h("p.small.quiet", {}, shown.map(([handle, count], index) => [index ? ", " : "", schedulerLink(handle, named.of(handle)), ` ${count}`]), rest + others ? `, others ${rest + others}` : "") : null);
  });
  return card("Slots", "by scheduler", null, rows.length ? rows : !status.backlog ? empty(`Slots are not known. ${silent(status.unreachable)}`) : empty("No server has slots yet. Give it a target:", command("rallypoint serve --target app=postgres://…")));
}

function waits({ schedulers, resources = [] }) {
  const waiting = schedulers.filter((one) => one.blocked + one.queued > 0 && one.state !== "SCHEDULER_STATE_RELEASED")
    .sort((a, b) => b.blocked + b.queued - a.blocked - a.queued).slice(0, 6);
  const reason = (one) => {
    if (one.halt) return `halted: ${one.halt.failures ?? one.halt.failed_seqs.length} failed in order ${one.halt.order}`;
    if (one.paused) return "paused";
    if (one.blocked && one.current_order !== undefined) return `${number(one.blocked)} behind order ${one.current_order}`;
    const limit = one.settings.max_parallelism;
    return limit && one.running >= limit ? `at its limit of ${limit}` : `${number(one.queued)} for a slot`;
  };
  const rows = waiting.map((one) => h("li", {}, h("span.quiet", {}, `${number(one.blocked + one.queued)} wait`), h("div", {}, schedulerLink(one.handle, nameOf(one)), h("div.sub", {}, reason(one)))));
  const held = resources.filter((one) => one.waiting + one.waiting_tasks > 0).slice(0, 6)
    .map((one) => h("li", {}, h("span.quiet", {}, `${number(one.waiting + one.waiting_tasks)} wait`),
      h("div", {}, h("a", { href: `#/resources/${encodeURIComponent(one.name)}` }, one.name), h("div.sub", {}, `resource, held by ${one.holds}`))));
  return card("What waits for what", "", null, rows.length + held.length ? h("ul.list", {}, rows, held) : empty("Nothing waits."));
}

/** What has run for longest. */
function longest({ executions }) {
  const begun = (run) => moment(run.started_at) ?? Infinity;
  return executions.filter((run) => run.handle).sort((a, b) => begun(a) - begun(b)).slice(0, 12);
}

function running(view, seen, named) {
  const now = Date.now();
  const rows = longest(seen);
  const columns = [
    { name: "Task", tight: true, cell: (run) => taskLink(run.handle, run.seq) },
    { name: "Scheduler", cell: (run) => schedulerLink(run.handle, named.of(run.handle)) },
    { name: "Statement", wide: true, cell: (run) => (run.statement_preview ? h("code.clip", {}, run.statement_preview) : h("span.quiet", {}, "no-op")) },
    { name: "Slot", tight: true, cell: (run) => `${kindName(run.kind)} ${run.slot}` },
    { name: "pid", num: true, cell: (run) => (run.backend_pid ? h("span.mono", {}, `${run.backend_pid}`) : "–") },
    { name: "For", num: true, cell: (run) => (run.started_at ? span(now - moment(run.started_at)) : word(run.state, "EXECUTION_STATE")) },
  ];
  return card("Running now", rows.length ? "longest first" : "", null, rows.length ? table("Running now", columns, rows, (run) => `${run.replica} ${kindName(run.kind)} ${run.slot}`)
    : emptyFor(view, "submitter", "No task runs.", "Try one:", rallypoint("exec 'select pg_sleep(10)'")));
}

function latest(view, { schedulers, ends }) {
  const columns = [
    { name: "Scheduler", cell: (one) => schedulerCell(one) },
    { name: "State", tight: true, cell: (one) => h("span.title", {}, schedulerBadges(one)) },
    { name: "Tasks", wide: true, cell: (one) => ended(one, ends.of(one)) },
    { name: "Opened by", cell: (one) => one.caller },
    { name: "Opened", tight: true, cell: (one) => h("span", { title: clock(moment(one.opened_at)) }, ago(moment(one.opened_at))) },
  ];
  const rows = [...schedulers].sort((a, b) => moment(b.opened_at) - moment(a.opened_at)).slice(0, 8);
  return card("Latest schedulers", "", h("a", { href: "#/schedulers" }, "All schedulers"), rows.length ? table("Latest schedulers", columns, rows, (one) => one.handle)
    : noScheduler(view));
}
