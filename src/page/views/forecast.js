// When the tasks of a scheduler will have ended, and what if there were more slots.

import { h } from "../dom.js";
import { card, table } from "../parts.js";
import { clock, moment, number, span } from "../format.js";
import { field } from "./filters.js";

/** Orders that are shown. */
const ORDERS = 12;

/** A forecast, with the slots that the address asks for. */
export async function forecast(view, handle) {
  const slots = Number.parseInt(view.query.get("slots"), 10);
  const more = slots >= 1 && slots <= 100000 ? { slots } : {};
  return view.call("SchedulerService/ForecastScheduler", { handle, ...more });
}

forecast.draw = (view, answer) => {
  if (answer === undefined) return card("When it ends", "", null, h("p.quiet", {}, "Working it out …"));
  if (!answer?.end) return null;
  const asked = h("div.filters", {}, field(view, "slots", "What if every target had so many slots", counted(answer)));
  const orders = answer.orders.length > 1 ? answer.orders.slice(0, ORDERS) : [];
  const more = answer.orders.length - orders.length;
  return card("When it ends", said(answer), null, asked, h("p", {}, ending(answer.end, moment(answer.as_of))),
    orders.length ? table("Ends of orders", columns, orders, (one) => `${one.order ?? "none"}`) : null,
    orders.length && more > 0 ? h("p.quiet", {}, `and ${number(more)} more orders`) : null,
    answer.omissions.map((text) => h("p.quiet.small", {}, `Note: ${text}.`)));
};

function ending(end, now) {
  const reasons = (end.unknown ?? []).map((one) => one.text).join("; ");
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
