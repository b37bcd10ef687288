// One scheduler: its figures, its time line, its tasks.

import { h } from "../dom.js";
import { action } from "../dialog.js";
import { ago, clock, labels, millis, moment, number, short, span, word } from "../format.js";
import { outcomes } from "../outcomes.js";
import { alsoOf, card, facts, figure, figures, inVain, nameOf, progress, schedulerBadges, taskLink } from "../parts.js";
import { forecast } from "./forecast.js";
import { taskList } from "./task_list.js";
import { recent, timeline } from "./timeline.js";

export function scheduler(view) {
  const { handle } = view.params;
  const seen = { one: null, tasks: null, list: null, ends: outcomes(view) };
  const draw = () => { if (seen.one) view.show(...page(view, seen)); };
  let dirty = true, reads = 0;
  // It takes the server a while, and changes slowly.
  const foresee = async () => {
    const asked = view.query.get("slots");
    const answer = await forecast(view, handle).catch(() => null);
    if (asked === view.query.get("slots")) seen.forecast = answer;
    draw();
  };
  view.every(20000, foresee);
  let slots = view.query.get("slots");
  view.every(1000, async () => {
    seen.one = (await view.call("SchedulerService/DescribeScheduler", { handle })).scheduler;
    if (slots !== view.query.get("slots")) { slots = view.query.get("slots"); seen.forecast = undefined; foresee(); }
    const active = seen.one.running + seen.one.queued + seen.one.retrying > 0;
    // The address may change while this is read.
    const asked = view.query.toString();
    if (!seen.tasks) draw();
    if (dirty || active || asked !== seen.read) {
      dirty = false;
      reads += 1;
      [seen.tasks, seen.list] = await Promise.all([recent(view, handle), taskList.read(view, handle), seen.ends.read([seen.one])]);
      seen.read = asked;
    }
    draw();
    if (reads === 1) {
      // New events say that there is something new to be read.
      reads += 1;
      view.follow("SchedulerService/Synchronization", { handle, after: seen.one.done, until: { forever: {} } }, () => { dirty = true; view.again(); });
    }
  });
}

function page(view, { one, tasks, list, ends, forecast: foreseen }) {
  const { handle } = one;
  const run = (method, more = {}) => () => view.act(`SchedulerService/${method}`, { handle, ...more });
  view.title(nameOf(one) || `Scheduler ${short(handle)}`);
  const open = one.state === "SCHEDULER_STATE_OPEN";
  const ended = one.state === "SCHEDULER_STATE_RELEASED";
  // What a halt has blocked ends with the release.
  const halt = ended ? null : one.halt;
  return [
    h("div.head", {}, h("div", {}, h("p.crumbs", {}, h("a", { href: "#/schedulers" }, "Schedulers")),
      h("div.title", {}, h("h1", {}, nameOf(one) || "Scheduler"), alsoOf(one) ? h("span.quiet", {}, alsoOf(one)) : null, schedulerBadges(one)), h("p.quiet.small.mono", {}, handle)),
    h("div.actions", {},
      one.paused ? action(view, { name: "Resume", text: "Its tasks may start again.", run: run("ResumeScheduler") })
        : !ended ? action(view, { name: "Pause", text: "No more tasks start until it is resumed. What runs goes on.", run: run("PauseScheduler") }) : null,
      halt ? action(view, { name: "Go on despite failures", text: "Later orders continue as if nothing had failed.", danger: true, run: run("ResumeScheduler", { ignore_failures: true }) }) : null,
      open ? action(view, { name: "Retry failed", text: "Each task that failed and has no retry yet is submitted again, as a copy.", run: retryFailed(view, handle) }) : null,
      !ended ? action(view, { name: "Cancel waiting", danger: true, text: `${number(one.queued + one.blocked + one.retrying)} waiting tasks end as cancelled and never start. What runs goes on.`, run: cancelWaiting(view, handle) }) : null,
      !ended ? action(view, { name: "Release", danger: true, text: "It takes no more tasks.", run: (values) => run("ReleaseScheduler", { mode: values.mode })(),
        fields: [{ name: "mode", label: "Tasks that have not ended", options: [["RELEASE_MODE_FINISH", "let them finish"], ["RELEASE_MODE_CANCEL", "cancel them"]] }] }) : null)),
    halt ? h("p.notice.bad", {}, `Tasks failed in order ${halt.order}, so later orders wait: `,
      halt.failed_seqs.slice(0, 8).map((seq, index) => [index ? ", " : "", taskLink(handle, seq)]), ". Retry them, or go on despite the failures.") : null,
    figures(figure("Ended", number(one.done), [`of ${number(one.submitted)} submitted`, ...inVain(ends.of(one))].join(", "), progress(one, ends.of(one))), figure("Running", number(one.running), limit(one)),
      figure("Queued", number(one.queued), "may start"), figure("Blocked", number(one.blocked), one.current_order === undefined ? "" : `current order ${one.current_order}`),
      figure("Retrying", number(one.retrying), one.retrying ? "wait for another attempt" : "")),
    card("Time line", tasks ? timeline.note(tasks, one) : "", null, tasks ? timeline.draw(one, tasks) : h("p.quiet", {}, "Loading …")),
    one.state === "SCHEDULER_STATE_RELEASED" ? null : forecast.draw(view, foreseen),
    taskList.draw(view, one, list),
    card("Settings", "", null, settings(one)),
  ];
}

function limit(one) {
  const most = one.settings.max_parallelism;
  return most ? `limit: ${number(most)} at a time` : "limit: none";
}

function settings(one) {
  const { settings: set } = one;
  return facts([
    ["Name", one.name], ["Display name", set.display_name], ["Namespace", one.namespace], ["Opened", `${clock(moment(one.opened_at))} (${ago(moment(one.opened_at))}) by ${one.caller}`],
    ["Released", one.released_at ? clock(moment(one.released_at)) : ""], ["If a task fails", word(set.on_failure, "ON_FAILURE")],
    ["Late tasks", word(set.late_order, "LATE_ORDER") === "join" ? "join the current order" : "are refused"], ["Weight", `${set.weight ?? 1}`],
    ["Idle for", `${span(millis(set.idle_timeout))}, then released`], ["Labels", labels(set.labels)],
  ]);
}

const retryFailed = (view, handle) => async () => {
  const message = { handle, request_id: uuid() };
  let token = "";
  do {
    const page = await view.act("SchedulerService/RetryFailed", { ...message, page_token: token });
    token = page.next_page_token;
    message.request_id = uuid();
  } while (token);
};

const cancelWaiting = (view, handle) => async () => {
  const states = ["TASK_STATE_QUEUED", "TASK_STATE_BLOCKED", "TASK_STATE_RETRYING"];
  let token = "";
  do {
    const page = await view.act("SchedulerService/CancelTasks", { handle, filter: { states }, page_token: token });
    token = page.next_page_token;
  } while (token);
};

/** Also where `crypto.randomUUID` is not there: off localhost without TLS. */
export function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
