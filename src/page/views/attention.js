// What needs somebody: errors, what is held up, and parts that are away.

import { byWhom, moment, number, span } from "../format.js";
import { nameOf } from "../parts.js";

/** Running tasks of which it is asked what holds them up, if they run for so long. */
const ASKED = 6;
const LONG_MS = 2000;
/** Between two attempts nothing runs: for so long the row of a task that was held up stays. */
const KEPT_MS = 12_000;
/** Schedulers with tasks under way of which it is asked what has failed before. */
const ASKED_AGAIN = 8;
/** For how long an error is news, and how many kinds of it are shown. */
const NEWS_MS = 3600_000;
const SHOWN = 8;

/** How a target says no when the service asks whether a claimed run is done there: no failure of a task of anybody. */
const NOT_FINISHED = "RP006";

const taskHref = (handle, seq) => `#/schedulers/${handle}/tasks/${seq}`;

/** Long-running tasks that a lock of another session holds up. */
export async function heldUp(view, { executions, held = [] }) {
  const found = await heldUpNow(view, executions);
  const kept = held.filter((row) => Date.now() - row.seenAt < KEPT_MS && !found.some((one) => one.href === row.href));
  return [...found, ...kept];
}

async function heldUpNow(view, executions) {
  const now = Date.now();
  const long = executions.filter((run) => run.handle && run.backend_pid !== 0 && now - (moment(run.started_at) ?? now) > LONG_MS)
    .sort((a, b) => moment(a.started_at) - moment(b.started_at)).slice(0, ASKED);
  const explained = await Promise.all(long.map((run) => view.call("SchedulerService/ExplainTask", { id: { handle: run.handle, seq: run.seq } }).catch(() => null)));
  return explained.flatMap((answer, index) => {
    const session = answer?.blockers?.find((one) => one.session)?.session;
    if (!session) return [];
    const run = long[index];
    return [{ kind: "held up", tone: "bad", handle: run.handle, href: taskHref(run.handle, run.seq), seenAt: now, what: `Task ${run.seq} waits for a lock that process ${session.backend_pid} holds`,
      more: `${session.user}${session.application ? `, ${session.application}` : ""}, ${session.state || "state not known"} · the task has run for ${span(now - moment(run.started_at))}` }];
  });
}

/** All the rest, worst first. */
export async function attention(view, { status, halted, looked, ends, jobs = [] }) {
  await ends.read(looked);
  return [...parts(status), ...halts(halted), ...failing(jobs), ...await errors(view, looked, ends)];
}

function parts(status) {
  const rows = [];
  const add = (what, more, at, kind = "away", tone = "bad") => rows.push({ kind, tone, what, more, at, href: "#/system" });
  if (status.journal && !status.journal.available) add("The coordination database does not answer", status.journal.error);
  for (const target of status.targets.filter((one) => !one.available)) add(`Target ${target.name} is away`, `seen from ${target.replica}: ${target.error}`, moment(target.unavailable_since));
  for (const fence of status.pending_fences.slice(0, 3)) add(`The end of a session on ${fence.target} cannot be shown`, `process ${fence.backend_pid} of ${fence.replica}: ${fence.why}`, moment(fence.since));
  for (const { pause } of status.paused_targets) add(pause.target ? `Target ${pause.target} is paused` : "All targets are paused", byWhom(pause.paused_by, pause.reason).trim(), moment(pause.since), "paused", "wait");
  if (status.unreadable) add(`${number(status.unreadable)} schedulers cannot be read by this version`, "their rows are kept as they are");
  if (status.jobs?.agent?.stopped) rows.push({ kind: "paused", what: "The agent is stopped: no job is fired", more: status.jobs.agent.reason, href: "#/jobs", at: moment(status.jobs.agent.changed_at) });
  return rows;
}

const halts = (schedulers) => schedulers.filter((one) => one.halt).map((one) => ({ kind: "halted", handle: one.handle, name: nameOf(one),
  what: `Order ${one.halt.order} has failed tasks, later orders wait`, more: one.blocked === 1 ? "1 task is blocked" : `${number(one.blocked)} tasks are blocked`,
  href: one.halt.failed_seqs.length ? taskHref(one.handle, one.halt.failed_seqs[0]) : `#/schedulers/${one.handle}` }));

const failing = (jobs) => jobs.filter((job) => job.failures > 0).map((job) => ({ kind: "failed", what: `Job ${job.name} has failed ${job.failures === 1 ? "once" : `${job.failures} times in a row`}`,
  more: job.paused ? "it is paused" : "", href: `#/jobs/${encodeURIComponent(job.name)}` }));

/** The last errors that have no retry, and what fails again and again now. */
async function errors(view, looked, ends) {
  const failed = (one) => (ends.of(one)?.newest ?? []).filter((task) => task.done.error?.code !== NOT_FINISHED);
  const ended = looked.flatMap((one) => failed(one).map((task) => error(one, task, task.done.error, task.done.ended_us / 1000, "")));
  const active = looked.filter((one) => one.retrying || one.running).sort((a, b) => b.retrying - a.retrying).slice(0, ASKED_AGAIN);
  const again = await Promise.all(active.map((one) => retried(view, one).catch(() => [])));
  const news = [...again.flat(), ...ended].filter((row) => Date.now() - row.at < NEWS_MS);
  const kinds = alike(news.sort((a, b) => b.at - a.at));
  const rest = kinds.length - SHOWN;
  return rest > 0 ? [...kinds.slice(0, SHOWN), { kind: "error", what: `${number(rest)} more in other schedulers`, href: "#/schedulers" }] : kinds;
}

/** The same error of schedulers of the same name is one row, with the newest task. */
function alike(rows) {
  const found = new Map();
  for (const row of rows) {
    const key = row.name ? `${row.name} ${row.what.replace(/\d+/g, "")}` : row.href;
    const first = found.get(key);
    if (first) first.times += 1;
    else found.set(key, { ...row, times: 1 });
  }
  return [...found.values()].map((row) => (row.times > 1 ? { ...row, more: `${row.more} · ${row.times} times` } : row));
}

async function retried(view, one) {
  const { tasks } = await view.call("SchedulerService/ListTasks", { handle: one.handle, page_size: 3, filter: { states: ["TASK_STATE_RETRYING", "TASK_STATE_RUNNING"] } });
  const again = tasks.filter((task) => task.attempt > 1 || task.state === "TASK_STATE_RETRYING");
  return Promise.all(again.map(async (task) => {
    const { attempts } = await view.call("SchedulerService/ListAttempts", { id: task.id });
    const failed = attempts.filter((attempt) => attempt.error).at(-1);
    return error(one, task, failed?.error, moment(failed?.ended_at) ?? 0, `attempt ${failed?.attempt ?? task.attempt} · `);
  }));
}

const error = (one, task, said, at, before) => ({ kind: "error", tone: "bad", handle: one.handle, name: nameOf(one), at, href: taskHref(task.id.handle, task.id.seq),
  what: `Task ${task.id.seq}: ${(said?.message ?? "").split("\n")[0] || said?.code || "failed"}`, more: `${before}${said?.code ?? ""}` });
