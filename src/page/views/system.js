// Replicas, targets, executors, the journal: what the service itself is made of.

import { h } from "../dom.js";
import { action } from "../dialog.js";
import { ago, byWhom, clock, millis, moment, number, short, span } from "../format.js";
import { names } from "../names.js";
import { badge, bar, card, empty, facts, kindName, schedulerLink, silent, table, taskLink } from "../parts.js";

/** Tasks of an executor that are named. */
const RUNS = 6;

export function system(view) {
  const seen = { status: null, executions: [], named: names(view) };
  const draw = () => { if (seen.status) view.show(...page(view, seen)); };
  view.follow("StatusService/WatchExecutions", { interval: "1s" }, (message) => { seen.executions = message.executions; draw(); });
  view.every(2000, async () => {
    seen.status = await view.call("StatusService/GetStatus");
    draw();
    const { pin } = seen.status.journal ?? {};
    await seen.named.read([...byExecutor(seen.executions).flatMap(({ own }) => own.slice(0, RUNS)).map((run) => run.handle), pin?.handle]);
    draw();
  });
}

function page(view, { status, executions, named }) {
  return [
    h("div.head", {}, h("div", {}, h("h1", {}, "System"), h("p.quiet.small", {}, `Rallypoint ${status.version}`))),
    status.unreachable.length ? h("p.notice.bad", { role: "alert" }, silent(status.unreachable)) : null,
    targets(view, status), fences(view, status), h("div.two", {}, replicas(status), journal(status, named)), executors(executions, named), unreadable(status),
  ];
}

function targets(view, { targets: all, paused_targets: paused, backlog }) {
  const pauseOf = (name) => paused.find(({ pause }) => pause.target === name);
  const everywhere = pauseOf("");
  const reason = { name: "reason", label: "Why", required: true };
  const mode = { name: "mode", label: "What runs", options: [["PAUSE_MODE_DRAIN", "goes on to its end"], ["PAUSE_MODE_CANCEL_RUNNING", "is stopped, and runs again afterwards"]] };
  const pause = (name) => (pauseOf(name)
    ? action(view, { name: "Resume", needs: "operator", everywhere: true, title: `Resume ${name}?`, text: "Tasks on it start again.", fields: [reason], run: (values) => view.act("OperatorService/ResumeTarget", { target: name, ...values }) })
    : action(view, { name: "Pause", needs: "operator", everywhere: true, title: `Pause ${name}?`, text: "Nothing starts on it, of any namespace, until it is resumed.", fields: [reason, mode], run: (values) => view.act("OperatorService/PauseTarget", { target: name, ...values }) }));
  const columns = [
    { name: "Target", cell: (one) => one.name }, { name: "Replica", cell: (one) => one.replica },
    { name: "State", tight: true, cell: (one) => [one.available ? badge("available", "good") : badge("away"), pauseOf(one.name) ? [" ", badge("paused")] : backlog ? null : h("span.sub", {}, "whether it is paused is not known")] },
    { name: "Sessions", num: true, cell: (one) => number(one.sessions) },
    { name: "What is wrong", wide: true, cell: (one) => fault(one, pauseOf(one.name)?.pause) },
  ];
  if (backlog && view.may("operator", true)) columns.push({ name: "", cell: (one) => pause(one.name) });
  return card("Targets", "the databases that tasks run on", everywhere ? action(view, { name: "Resume all", needs: "operator", everywhere: true, text: "Tasks start again.", fields: [reason], run: (values) => view.act("OperatorService/ResumeTarget", { all: {}, ...values }) }) : null,
    everywhere ? h("p.notice", {}, `All targets are paused${byWhom(everywhere.pause.paused_by, everywhere.pause.reason)}`) : null,
    all.length ? table("Targets", columns, all, (one) => `${one.name} ${one.replica}`) : empty("No target is configured: tasks with SQL have nowhere to run. Start the server with --target NAME=URL."));
}

/** What is wrong with a target, and whose pause holds it up. */
function fault({ available, error, unavailable_since: since }, pause) {
  if (!available) return [error, h("span.sub", {}, `since ${ago(moment(since))}`)];
  return pause ? `paused${byWhom(pause.paused_by, pause.reason)}` : error || "–";
}

function fences(view, { pending_fences: all }) {
  if (!all.length) return null;
  const columns = [{ name: "Target", cell: (one) => one.target }, { name: "Replica", cell: (one) => one.replica }, { name: "pid", num: true, cell: (one) => h("span.pid", {}, `${one.backend_pid}`) },
    { name: "Since", tight: true, cell: (one) => ago(moment(one.since)) }, { name: "Why", wide: true, cell: (one) => one.why }];
  if (view.may("admin", true)) columns.push({ name: "", cell: (one) => action(view, { name: "Declare dead", danger: true, needs: "admin", everywhere: true, title: "Declare these sessions dead?",
    text: `Make sure first that no session of ${one.replica} on ${one.target} still runs: its tasks start again at once, beside what may still run.`,
    fields: [{ name: "reason", label: "Why this is known", required: true }], run: ({ reason }) => view.act("OperatorService/DeclareDead", { target: one.target, replica: one.replica, reason }) }) });
  return card("Sessions whose end cannot be shown", "their tasks wait", null, table("Sessions", columns, all, (one) => `${one.target} ${one.backend_pid}`));
}

/** A replica that was not seen for so long has ended. */
const GONE_MS = 60_000;

function replicas({ replicas: seen }) {
  // By their own clock, that of the database.
  const last = Math.max(...seen.map((one) => moment(one.seen_at)));
  const isGone = (one) => last - moment(one.seen_at) >= GONE_MS;
  // One that was started again under its name has not gone.
  const goesOn = (one) => seen.some((other) => other.name === one.name && (moment(other.started_at) > moment(one.seen_at) || (isGone(one) && !isGone(other))));
  const all = seen.filter((one) => one.owner || !goesOn(one));
  const columns = [{ name: "Replica", cell: (one) => [one.name, one.owner ? [" ", badge("owner", "run")] : isGone(one) ? [" ", badge("gone")] : null] }, { name: "Takeover", num: true, cell: (one) => (one.owner ? `no. ${number(one.epoch)}` : "–") },
    { name: "Started", tight: true, named: true, cell: (one) => h("span", { title: clock(moment(one.started_at)) }, ago(moment(one.started_at))) }, { name: "Seen", tight: true, named: true, cell: (one) => ago(moment(one.seen_at)) }];
  return card("Replicas", "the owner decides what starts; another takes over when it is gone", null, table("Replicas", columns, all, (one) => `${one.name} ${one.started_at}`));
}

function journal({ journal: one }, named) {
  const because = { REASON_DUE: "nothing: the next round drops it", REASON_CHECKPOINT: "a checkpoint needs its rows", REASON_UNFINISHED: "an unfinished task of that day", REASON_READER: "a session reads it in a long transaction" };
  const pin = one.pin && [because[one.pin.reason], one.pin.handle ? [", ", schedulerLink(one.pin.handle, named.of(one.pin.handle))] : null, one.pin.backend_pid ? [", process ", h("span.pid", {}, `${one.pin.backend_pid}`), ` (${one.pin.application})`] : null];
  return card("Journal", "", null, facts([["State", one.available ? badge("available", "good") : badge("away")], ["Error", one.error], ["Last batch", `number ${number(one.batch_no)}, ${span(millis(one.last_durable_age))} ago`],
    ["Kept for", `${one.retention_days} days`], ["Oldest day", one.oldest_day], ["Kept longer by", pin]]));
}

/** Whether a task has the slot. One of another namespace has no handle for this caller, and a replica of an earlier version says no state. */
const isBusy = (run) => (run.state === "EXECUTION_STATE_UNSPECIFIED" ? Boolean(run.handle) : run.state !== "EXECUTION_STATE_IDLE");

/** What the slots of each kind of each replica do. */
function byExecutor(executions) {
  const groups = new Map();
  for (const run of executions) {
    const key = `${run.replica} · ${kindName(run.kind)}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(run);
  }
  return [...groups].map(([name, slots]) => ({ name, slots, busy: slots.filter(isBusy).length, own: slots.filter((run) => run.handle) }));
}

function executors(executions, named) {
  const rows = byExecutor(executions);
  const run = ({ handle, seq }) => taskLink(handle, seq, `task ${seq} of ${named.of(handle) || short(handle)}`);
  const runs = ({ busy, own }) => [own.slice(0, RUNS).map((one, index) => [index ? ", " : "", run(one)]), busy > own.length ? `${own.length ? ", " : ""}others ${busy - own.length}` : ""];
  const columns = [{ name: "Executor", cell: (one) => one.name }, { name: "Slots", wide: true, cell: (one) => [bar([{ part: one.busy }], one.slots.length, `${one.busy} of ${one.slots.length} slots busy`), h("span.sub", {}, `${one.busy} of ${one.slots.length} busy`)] },
    { name: "Runs", wide: true, cell: (one) => (one.busy ? runs(one) : h("span.quiet", {}, "nothing")) }];
  return card("Executors", "", null, rows.length ? table("Executors", columns, rows, (one) => one.name) : empty("No executor has reported its slots yet."));
}

function unreadable({ unreadable_schedulers: all, unreadable: count }) {
  if (!all.length) return null;
  const columns = [{ name: "Scheduler", cell: (one) => h("span.mono", {}, one.handle) }, { name: "Namespace", cell: (one) => one.namespace }, { name: "Why", wide: true, cell: (one) => one.why }];
  return card("Schedulers that cannot be read", `${number(count)}: their rows are kept`, null, table("Unreadable", columns, all));
}
