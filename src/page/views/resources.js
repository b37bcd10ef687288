// Named resources: how much of each is in use, and who waits.

import { h } from "../dom.js";
import { millis, number, span } from "../format.js";
import { bar, card, emptyFor, rallypoint, table } from "../parts.js";
import { namespace } from "../session.js";

export const resourceHref = (name) => `#/resources/${encodeURIComponent(name)}`;

export function resources(view) {
  view.every(2000, async () => draw(view, await view.call("ResourceService/ListResources", { page_size: 100, page_token: view.query.get("page") ?? "" })));
}

export function use(one) {
  const { capacity } = one.settings;
  return bar([{ part: one.permits_in_use, tone: one.waiting + one.waiting_tasks ? "wait" : "" }], Math.max(capacity, one.permits_in_use), `${one.permits_in_use} of ${capacity} permits in use`);
}

function draw(view, { resources: rows, next_page_token: next }) {
  const columns = [
    { name: "Resource", cell: (one) => (one.name.endsWith("/*") ? [h("strong", {}, one.name), h("span.sub", {}, `pattern, ${number(one.names_in_use)} names in use`)] : h("a", { href: resourceHref(one.name) }, one.name)) },
    { name: "In use", wide: true, cell: (one) => [use(one), h("span.sub", {}, `${number(one.permits_in_use)} of ${number(one.settings.capacity)} permits`)] },
    { name: "Holders", num: true, cell: (one) => number(one.holds) },
    { name: "Waiting", num: true, cell: (one) => number(one.waiting + one.waiting_tasks) },
    { name: "Usual hold", num: true, cell: (one) => span(millis(one.usual_hold)) || "–" },
    { name: "Rate", tight: true, cell: (one) => (one.settings.refill ? `${number(one.settings.refill.permits)} each ${span(millis(one.settings.refill.period))}` : "–") },
    { name: "Changed by", named: true, cell: (one) => one.changed_by },
  ];
  view.show(h("div.head", {}, h("div", {}, h("h1", {}, "Resources"))), card("All resources", "by name", null, rows.length ? table("Resources", columns, rows, (one) => one.name)
    : emptyFor(view, "operator", `No resource is defined in namespace ${namespace()}.`, "A lock, and a command that runs while it is held:", `${rallypoint("resource create orders --capacity 1")}\n${rallypoint("lock run orders")} -- ./import`),
  h("div.actions", {}, view.query.get("page") ? h("button", { type: "button", onclick: () => view.set({ page: "" }) }, "First") : null, next ? h("button", { type: "button", onclick: () => view.set({ page: next }) }, "Next") : null)));
}
