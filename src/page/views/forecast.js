// When the tasks of a scheduler will have ended, and what if there were more slots.

import { h } from "../dom.js";
import { card, table } from "../parts.js";
import { clock, moment, number, span } from "../format.js";
import { forReaders } from "../words.js";
import { heldUp } from "./attention.js";
import { checkNumber, field } from "./filters.js";

/** Orders that are shown. */
const ORDERS = 12;

const checkSlots = (text) => checkNumber(text, 1, 100000, " from 1 to 100 000");

/** A forecast, with the slots that the address asks for. */
export async function forecast(view, handle) {
  const slots = view.query.get("slots");
  if (slots && checkSlots(slots)) return undefined;
  const [answer, held] = await Promise.all([view.call("SchedulerService/ForecastScheduler", { handle, ...(slots ? { slots: Number(slots) } : {}) }), locked(view, handle)]);
  return { ...answer, held };
}

/** Its tasks that wait for a lock, of which a forecast knows nothing. */
async function locked(view, handle) {
  const { tasks } = await view.call("SchedulerService/ListTasks", { handle, page_size: 50, filter: { states: ["TASK_STATE_RUNNING"] } });
  return heldUp(view, { executions: tasks.map((task) => ({ ...task.id, started_at: task.started_at })) });
}

forecast.draw = (view, answer) => {
  const slots = view.query.get("slots");
  const asked = h("div.filters", {}, field(view, "slots", "What if every target had so many slots", { placeholder: answer ? counted(answer) : "", check: checkSlots }));
  if (answer === undefined) return card("When it ends", "", null, asked, slots && checkSlots(slots) ? null : h("p.quiet", {}, "Working it out …"));
  if (!answer?.end) return null;
  const orders = answer.orders.length > 1 ? answer.orders.slice(0, ORDERS) : [];
  const more = answer.orders.length - orders.length;
  return card("When it ends", said(answer), null, asked, h("p", {}, ending(answer.end, moment(answer.as_of))),
    answer.held.map((one) => h("p.notice", {}, h("a", { href: one.href }, one.what), ". The forecast does not know of it: the end is later while it waits.")),
    orders.length ? table("Ends of orders", columns, orders, (one) => `${one.order ?? "none"}`) : null,
    orders.length && more > 0 ? h("p.quiet", {}, `and ${number(more)} more orders`) : null,
    answer.omissions.map((text) => h("p.quiet.small", {}, `Note: ${text}.`)));
};

function ending(end, now) {
  const reasons = forReaders((end.unknown ?? []).map((one) => one.text).join("; "));
  if (!end.p50) return `Nobody knows: ${reasons}.`;
  const about = `Ends about ${at(end.p50)}, in ${span(moment(end.p50) - now)}`;
  return end.p90 ? `${about}; in nine of ten cases before ${at(end.p90)}.` : `${about}, if at all: ${reasons}.`;
}

const at = (time) => (time ? clock(moment(time)) : "unknown");

const columns = [
  { name: "Order", tight: true, named: true, cell: (one) => (one.order === undefined ? "none" : `${one.order}`) },
  { name: "Unfinished", num: true, cell: (one) => number(Number(one.unfinished)) },
  { name: "Ends about", named: true, cell: (one) => at(one.end.p50) },
  { name: "Nine of ten before", named: true, cell: (one) => at(one.end.p90) },
];

/** What it rests on. */
function said(answer) {
  const seen = answer.basis.reduce((sum, one) => sum + Number(one.seen), 0);
  return answer.basis.length ? `from ${number(seen)} tasks that have ended` : "";
}

const counted = (answer) => answer.slots.map((one) => `${one.slots}`).join(", ");
