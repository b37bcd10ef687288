// The tasks of a scheduler, with filters that stand in the address.

import { h } from "../dom.js";
import { clock, moment, number, span } from "../format.js";
import { card, empty, emptyFor, rallypoint, table, taskBadge, taskLink, taskName, shellWord } from "../parts.js";
import { UNREADABLE, checkLabels, checkNumber, choice, field, labelsOf } from "./filters.js";

const STATES = [["", "any state"], ["failed", "failed"], ["running", "running"], ["queued", "queued"], ["blocked", "blocked"], ["retrying", "retrying"],
  ["succeeded", "succeeded"], ["cancelled", "cancelled"], ["timed_out", "timed out"], ["exhausted", "exhausted"]];
const ENDS = { failed: ["FAILED", "TIMED_OUT", "EXHAUSTED"], succeeded: ["SUCCEEDED"], cancelled: ["CANCELLED"], timed_out: ["TIMED_OUT"], exhausted: ["EXHAUSTED"] };
const KEYS = ["state", "order", "code", "label"];

function filterOf(query) {
  const filter = {}, state = query.get("state");
  if (ENDS[state]) filter.outcomes = ENDS[state].map((end) => `OUTCOME_${end}`);
  else if (state) filter.states = [`TASK_STATE_${state.toUpperCase()}`];
  if (query.get("order")) filter.effective_order = query.get("order");
  if (query.get("code")) filter.error_codes = [query.get("code")];
  if (query.get("label")) filter.labels = labelsOf(query.get("label"));
  return filter;
}

const ORDER = 2 ** 53;
const checkOrder = (text) => checkNumber(text, -ORDER, ORDER, "");
const isWrong = (query) => Boolean((query.get("order") && checkOrder(query.get("order"))) || checkLabels(query.get("label") ?? ""));

async function read(view, handle) {
  if (isWrong(view.query)) return { tasks: [] };
  return view.call("SchedulerService/ListTasks", { handle, page_size: 25, filter: filterOf(view.query), page_token: view.query.get("page") ?? "" });
}

/** How long it ran, or runs. */
function lasted({ state, done, started_at: started }) {
  if (done?.started_us) return span((done.ended_us - done.started_us) / 1000);
  return state === "TASK_STATE_RUNNING" && started ? span(Date.now() - moment(started)) : "–";
}

function draw(view, one, list) {
  if (!list) return null;
  const { query } = view;
  const columns = [
    { name: "Task", tight: true, cell: (task) => taskLink(task.id.handle, task.id.seq, `${task.id.seq}`) },
    { name: "Order", num: true, cell: (task) => (task.effective_order === undefined ? "–" : number(task.effective_order)) },
    { name: "State", tight: true, cell: (task) => taskBadge(task) },
    { name: "Statement", wide: true, cell: (task) => [taskName(task) ? h("strong.clip", { title: taskName(task) }, taskName(task)) : null,
      task.statement_preview ? h("code.clip", {}, task.statement_preview) : h("span.quiet", {}, "no-op"),
      task.done?.error?.code ? h("span.sub", {}, `${task.done.error.code} ${task.done.error.message.split("\n")[0]}`) : null] },
    { name: "Attempt", num: true, cell: (task) => (task.attempt ? `${task.attempt}` : "–") },
    { name: "Lasted", num: true, cell: (task) => lasted(task) },
    { name: "Ended", num: true, cell: (task) => (task.done ? clock(task.done.ended_us / 1000) : "–") },
  ];
  const filtered = KEYS.some((key) => query.get(key));
  const nothing = filtered ? empty(isWrong(query) ? UNREADABLE : "No task is like this.", h("p", {}, h("button.link", { type: "button", onclick: () => view.set(Object.fromEntries(KEYS.map((key) => [key, ""]))) }, "Show all")))
    : one.state === "SCHEDULER_STATE_OPEN" ? one.name ? emptyFor(view, "submitter", "No tasks yet.", "Submit some, here with the command line:", rallypoint(`exec --name ${shellWord(one.name)} 'select 1'`)) : empty("No tasks yet.") : empty("It has had no tasks.");
  return card("Tasks", filtered ? "filtered" : "newest first", null,
    h("div.filters", {}, choice(view, "state", "State", STATES), field(view, "order", "Order", { check: checkOrder }), field(view, "code", "Error code", { placeholder: "such as 57014" }), field(view, "label", "Label", { placeholder: "key=value", check: checkLabels })),
    list.tasks.length ? table("Tasks", columns, list.tasks, (task) => task.id.seq) : nothing,
    h("div.actions", {}, query.get("page") ? h("button", { type: "button", onclick: () => view.set({ page: "" }) }, "Newest") : null,
      list.next_page_token ? h("button", { type: "button", onclick: () => view.set({ page: list.next_page_token }) }, "Older") : null));
}

export const taskList = { read, draw };
