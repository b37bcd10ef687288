// One job: when it is due, and what became of every due time.

import { h } from "../dom.js";
import { action } from "../dialog.js";
import { ago, clock, millis, moment, number, schedule, span, stamp, word, zone } from "../format.js";
import { badge, card, empty, facts, schedulerLink, table } from "../parts.js";
import { uuid } from "./scheduler.js";

export function job(view) {
  const { name } = view.params;
  view.title(name);
  view.every(2000, async () => {
    const [{ job: one }, runs, due] = await Promise.all([
      view.call("JobService/GetJob", { name }), view.call("JobService/ListRuns", { name, page_size: 50, page_token: view.query.get("page") ?? "" }),
      view.call("JobService/PreviewSchedule", { name, count: 6 }).catch(() => ({ due_times: [] })),
    ]);
    view.show(...page(view, one, runs, due.due_times));
  });
}

function page(view, one, { runs, next_page_token: next }, due) {
  const { name, settings, paused } = one;
  return [
    h("div.head", {}, h("div", {}, h("p.crumbs", {}, h("a", { href: "#/jobs" }, "Jobs")), h("div.title", {}, h("h1", {}, name), paused ? badge("paused") : null, one.failures ? badge(`failed ${one.failures} ×`, "bad") : null),
      h("p.quiet.small", {}, h("code", {}, schedule(settings.schedule)), one.next_due ? ` · next ${ago(moment(one.next_due))}` : "")),
    h("div.actions", {},
      settings.claims ? null : action(view, { name: "Run now", main: true, text: "A run begins now, also if the job is paused. It waits for its turn if the job's overlap rule says so.", run: () => view.act("JobService/RunJob", { name, request_id: uuid() }) }),
      paused ? action(view, { name: "Resume", needs: "operator", text: "It goes on with the next due time.", run: () => view.act("JobService/ResumeJob", { name }) })
        : action(view, { name: "Pause", needs: "operator", text: "Nothing more of it starts: due times are skipped. What runs goes on.", fields: [{ name: "reason", label: "Why", required: true }], run: ({ reason }) => view.act("JobService/PauseJob", { name, reason }) }))),
    paused ? h("p.notice", {}, `Paused ${ago(moment(paused.since))}${paused.by ? ` by ${paused.by}` : " by the service, after repeated failures"}${paused.reason ? `: ${paused.reason}` : ""}.`) : null,
    h("div.two", {}, card("Next due", `times in ${settings.schedule?.time_zone || "UTC"}`, null, due.length ? h("ul.list", {}, due.map(dueTime)) : empty(settings.schedule?.after ? `It follows ${settings.schedule.after}.` : "Nothing is due any more.")),
    card("Rules", "", null, rules(one))),
    card("Due times", `and what became of each, newest first; times of ${zone()}`, null, fates(view, name, runs), h("div.actions", {},
      view.query.get("page") ? h("button", { type: "button", onclick: () => view.set({ page: "" }) }, "Newest") : null, next ? h("button", { type: "button", onclick: () => view.set({ page: next }) }, "Older") : null)),
    settings.claims ? null : card("Steps", `${settings.steps.length}`, null, steps("Steps", settings.steps)),
    settings.on_failure.length ? card("After a failure", "in a scheduler of their own, when a run fails, is missed or lost", null, steps("After a failure", settings.on_failure)) : null,
  ];
}

const FAILS = { continue: "the next order goes on", halt: "later orders wait for a retry", "cancel rest": "later orders are cancelled" };

/** By the clock of the schedule, and by that of the reader where it says something else. */
function dueTime({ due, local, closes }) {
  const here = stamp(moment(due)), there = local?.replace("T", " ") || here;
  const more = [here === there ? "" : `${here} in ${zone()}`, closes ? `window until ${stamp(moment(closes))}${here === there ? "" : ` in ${zone()}`}` : ""].filter(Boolean);
  return h("li", {}, h("span.quiet", {}, ago(moment(due))), h("span", {}, there, more.map((text) => h("span.sub", {}, ` ${text}`))));
}

function rules({ settings: set, changed_at: at, changed_by: by }) {
  return facts([["Due while a run goes on", word(set.overlap, "OVERLAP") || "skip"], ["Due while no server ran", word(set.misfire, "MISFIRE") || "run once"],
    ["A run may take", set.max_runtime ? `up to ${span(millis(set.max_runtime))}` : "any time"],
    ["If a step fails", set.claims ? "" : FAILS[word(set.scheduler?.on_failure, "ON_FAILURE")] ?? FAILS.continue],
    ["Paused after", set.pause_after_failures ? `${set.pause_after_failures} failures in a row` : ""], ["Repeated", set.rerun ? (set.rerun.max ? `up to ${set.rerun.max} times` : "while its window is open") : ""],
    ["Done by", set.claims ? "programs that claim its runs" : ""], ["Changed", `${clock(moment(at))} by ${by}`]]);
}

function why(run) {
  const failed = run.failed_tasks ? `${number(run.failed_tasks)} task${run.failed_tasks === 1 ? "" : "s"} failed` : "";
  const said = [word(run.reason, "RUN_REASON"), run.detail].filter(Boolean).join(": ") || failed;
  return run.by ? [said, h("span.sub", {}, `by ${run.by}`)] : said || "–";
}

function fates(view, name, runs) {
  if (!runs.length) return empty("It has not been due yet. Run it now to try it.");
  const over = (run) => ["WAITING", "RUNNING", "RETRYING"].every((state) => run.state !== `RUN_STATE_${state}`);
  const columns = [
    { name: "Due", tight: true, cell: (run) => [stamp(moment(run.due)), run.count > 1 ? h("span.sub", {}, `and ${number(run.count - 1)} more until ${stamp(moment(run.last_due))}`) : null] },
    { name: "State", tight: true, cell: (run) => badge(word(run.state, "RUN_STATE")) },
    { name: "Why", wide: true, cell: why },
    { name: "Attempt", num: true, cell: (run) => (run.attempt ? `${run.attempt}` : "–") },
    { name: "Lasted", num: true, cell: (run) => (run.started_at ? span((moment(run.ended_at) ?? Date.now()) - moment(run.started_at)) : "–") },
    { name: "Scheduler", cell: (run) => (run.handle ? schedulerLink(run.handle) : "–") },
  ];
  if (view.may("submitter")) columns.push({ name: "", cell: (run) => (over(run) ? null : action(view, { name: "Cancel run", danger: true, text: "What is left of it is cancelled.", run: () => view.act("JobService/CancelRun", { name, due: run.due }) })) });
  return table("Due times", columns, runs, (run) => run.due);
}

function steps(name, all) {
  const columns = [
    { name: "Order", tight: true, cell: (step) => (step.order === undefined ? "–" : number(step.order)) },
    { name: "Statement", wide: true, cell: (step) => (step.sql ? h("code.clip", {}, step.sql.statement) : h("span.quiet", {}, "no-op")) },
    { name: "Target", cell: (step) => (step.sql ? step.sql.target || "app" : "–") },
  ];
  return table(name, columns, all);
}
