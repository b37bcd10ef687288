// One task: why it does not run or what holds it up, its attempts, and what came of it.

import { h } from "../dom.js";
import { action } from "../dialog.js";
import { ago, clock, labels, millis, moment, number, short, span, word } from "../format.js";
import { badge, card, facts, nameOf, table, taskBadge, taskLink, taskName } from "../parts.js";
import { why } from "./why.js";

export function task(view) {
  const id = { handle: view.params.handle, seq: view.params.seq };
  const seen = {};
  view.every(1500, async () => {
    const ended = seen.task?.state === "TASK_STATE_DONE";
    const [{ task: one }, explained, { attempts }, { scheduler }] = await Promise.all([
      view.call("SchedulerService/GetTask", { id }), view.call("SchedulerService/ExplainTask", { id }),
      view.call("SchedulerService/ListAttempts", { id, page_size: 50 }), view.call("SchedulerService/DescribeScheduler", { handle: id.handle }),
    ]);
    Object.assign(seen, { task: one, explained, attempts, scheduler });
    view.show(...page(view, seen));
    if (!ended && !view.streams && one.state !== "TASK_STATE_DONE") {
      view.follow("SchedulerService/Synchronization", { handle: id.handle, after: scheduler.done, until: { forever: {} } }, () => view.again());
    }
  });
}

function page(view, { task: one, explained, attempts, scheduler }) {
  const { id } = one;
  const of = nameOf(scheduler) || short(id.handle);
  const name = taskName(one);
  view.title(`Task ${id.seq}${name && `: ${name}`} of ${of}`);
  const done = one.state === "TASK_STATE_DONE";
  const failed = done && one.done.outcome !== "OUTCOME_SUCCEEDED";
  return [
    h("div.head", {}, h("div", {}, h("p.crumbs", {}, h("a", { href: "#/schedulers" }, "Schedulers"), " / ", h("a", { href: `#/schedulers/${id.handle}` }, of)),
      h("div.title", {}, h("h1", {}, `Task ${number(id.seq)}${name && `: ${name}`}`), taskBadge(one)), h("p.quiet.small", {}, summary(one))),
    h("div.actions", {},
      done ? null : action(view, { name: "Cancel task", danger: true, text: one.state === "TASK_STATE_RUNNING" ? "Its statement is stopped on the target, as by pg_cancel_backend." : "It ends as cancelled and never starts.", run: () => view.act("SchedulerService/CancelTask", { id }) }),
      failed && !one.retried_as && scheduler.state === "SCHEDULER_STATE_OPEN" ? retry(view, one) : null)),
    failed && !one.retried_as && scheduler.state !== "SCHEDULER_STATE_OPEN" && view.may("submitter") ? h("p.quiet", {}, "It cannot be retried here: its scheduler is released and takes no more tasks. To run the statement once more, submit it in another scheduler.") : null,
    one.retried_as ? h("p.notice", {}, "It was retried as ", taskLink(id.handle, one.retried_as), ".") : null,
    one.retry_of ? h("p.quiet", {}, "It is a retry of ", taskLink(id.handle, one.retry_of), ".") : null,
    why(explained),
    failed ? error(one.done.error, one.task.sql?.statement) : null,
    one.done?.result ? result(one.done) : null,
    attempts.length ? tried(attempts, explained.running) : null,
    one.done?.notices ? card("Notices", "", null, h("pre", { tabindex: "0" }, one.done.notices)) : null,
    submitted(one),
  ];
}

function summary(one) {
  const parts = [one.effective_order === undefined ? "without an order" : `order ${number(one.effective_order)}`, `submitted ${ago(moment(one.submitted_at))}${one.submitted_by ? ` by ${one.submitted_by}` : ""}`];
  if (one.done?.started_us) parts.push(`ran for ${span((one.done.ended_us - one.done.started_us) / 1000)}`);
  return parts.join(" · ");
}

function retry(view, one) {
  const fields = one.task.sql ? [{ name: "statement", label: "Statement", area: true, value: one.task.sql.statement }] : [];
  return action(view, { name: "Retry", main: true, title: "Retry this task?", text: "A copy is submitted under a new number. Whatever the task did before it ended, the copy does again.", fields, run: async ({ statement }) => {
    const changed = one.task.sql && statement !== one.task.sql.statement;
    const { seq } = await view.act("SchedulerService/RetryTask", changed ? { id: one.id, sql: { statement } } : { id: one.id });
    location.hash = `#/schedulers/${one.id.handle}/tasks/${seq}`;
  } });
}

function error(said, statement) {
  if (!said) return null;
  const at = said.position && statement ? said.position - 1 : -1;
  const end = at < 0 ? -1 : at + (statement.slice(at).match(/^\w+|^./)?.[0].length ?? 1);
  return card("Error", said.code, null, h("pre", { tabindex: "0" }, said.message),
    facts([["Constraint", said.constraint]]),
    at >= 0 ? h("pre", { tabindex: "0", "aria-label": "Where in the statement" }, statement.slice(0, at), h("span.mark", {}, statement.slice(at, end)), statement.slice(end)) : null);
}

/** A number that JavaScript would show as another one, such as a large bigint, stays as it is written. */
function verbatim(name, value, { source } = {}) {
  return typeof value === "number" && JSON.rawJSON && source && String(value) !== source ? JSON.rawJSON(source) : value;
}

function result(done) {
  const { rows_affected: affected, rows_json: text, truncated } = done.result;
  let rows = [];
  // An older browser does not say how a number is written.
  const isExact = JSON.rawJSON || !/\d{16}/.test(text);
  try { rows = text && isExact ? JSON.parse(text, verbatim) : []; } catch { /* cut off: shown as text below */ }
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const columns = names.map((name) => ({ name, named: true, cell: (row) => (row[name] === null ? h("span.quiet", {}, "null") : typeof row[name] === "object" ? JSON.stringify(row[name]) : String(row[name])) }));
  return card("Result", `${number(affected)} row${affected === 1 ? "" : "s"}${truncated ? ", not all are stored" : ""}`, null,
    rows.length ? table("Rows", columns, rows.slice(0, 200)) : text ? h("pre", { tabindex: "0" }, text) : h("p.quiet", {}, done.rows_omitted ? "The rows are too large to be shown here." : "No rows are stored. To have some, submit with result_rows."));
}

function tried(attempts, running) {
  const where = (one) => (one.replica || one.ended_at ? one : running ?? one);
  const lasted = (one) => (one.started_at ? span((moment(one.ended_at) ?? Date.now()) - moment(one.started_at)) : "–");
  const columns = [
    { name: "Attempt", tight: true, cell: (one) => `${one.attempt}` },
    { name: "State", tight: true, cell: (one) => badge(word(one.state, "ATTEMPT_STATE")) },
    { name: "Started", tight: true, cell: (one) => clock(moment(one.started_at)) || "–" },
    { name: "Lasted", num: true, cell: lasted },
    { name: "Where", cell: (one) => (where(one).replica ? `${where(one).replica}, slot ${where(one).slot}` : "–") },
    { name: "pid", num: true, cell: (one) => (where(one).backend_pid ? h("span.mono", {}, `${where(one).backend_pid}`) : "–") },
    { name: "Error", wide: true, cell: (one) => (one.error?.code ? [h("code", {}, one.error.code), ` ${one.error.message.split("\n")[0]}`] : "–") },
  ];
  return card("Attempts", attempts.length > 1 ? "newest first" : "", null, table("Attempts", columns, [...attempts].reverse(), (one) => one.attempt));
}

function submitted(one) {
  const { sql, options = {} } = one.task;
  const { retry: again, session = {} } = options;
  return card("As it was submitted", "", null, sql ? h("pre", { tabindex: "0", "aria-label": "Statement" }, sql.statement) : h("p.quiet", {}, "A no-op: it does nothing and succeeds."),
    sql?.params?.length ? h("ol.small.mono", {}, sql.params.map((value) => h("li", {}, value.text ?? "null"))) : null,
    facts([["Target", sql ? sql.target || "app" : ""], ["Not before", clock(moment(options.not_before))], ["Timeout", span(millis(options.timeout))], ["Total timeout", span(millis(options.total_timeout))],
      ["Attempts", again?.max_attempts ? `up to ${again.max_attempts}` : ""], ["Delivery", word(options.delivery, "DELIVERY")], ["Role", session.role], ["Search path", (session.search_path ?? []).join(", ")],
      ["Resources", (options.resources ?? []).map((use, index) => [index ? ", " : "", h("a", { href: `#/resources/${encodeURIComponent(use.name)}` }, use.name), ` ${word(use.mode, "RESOURCE_MODE")}`])],
      ["Labels", labels(options.labels)]].filter(([, value]) => !Array.isArray(value) || value.length)));
}
