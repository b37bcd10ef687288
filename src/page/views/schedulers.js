// The schedulers of the namespace, newest first.

import { h } from "../dom.js";
import { ago, clock, labels, moment, number } from "../format.js";
import { card, command, empty, nameOf, progress, schedulerBadges, schedulerLink, table } from "../parts.js";
import { choice, field, labelsOf } from "./filters.js";

const STATES = [["", "any state"], ["open", "open"], ["releasing", "releasing"], ["released", "released"]];

export function schedulers(view) {
  const { query } = view;
  view.every(3000, async () => {
    const filter = {};
    if (query.get("state")) filter.states = [`SCHEDULER_STATE_${query.get("state").toUpperCase()}`];
    if (query.get("name")) filter.name = query.get("name");
    if (query.get("title")) filter.display_name = query.get("title");
    if (query.get("label")) filter.labels = labelsOf(query.get("label"));
    const page = await view.call("SchedulerService/ListSchedulers", { page_size: 50, filter, page_token: query.get("page") ?? "" });
    draw(view, page);
  });
}

function draw(view, { schedulers: rows, next_page_token: next }) {
  const { query } = view;
  const filtered = ["state", "name", "title", "label"].some((key) => query.get(key));
  const columns = [
    { name: "Scheduler", cell: (one) => [schedulerLink(one.handle, nameOf(one)), labels(one.settings.labels) ? h("span.sub", {}, labels(one.settings.labels)) : null] },
    { name: "State", tight: true, cell: (one) => h("span.title", {}, schedulerBadges(one)) },
    { name: "Tasks", wide: true, cell: (one) => [progress(one), h("span.sub", {}, `${number(one.done)} of ${number(one.submitted)} ended`)] },
    { name: "Running", num: true, cell: (one) => number(one.running) },
    { name: "Waiting", num: true, cell: (one) => number(one.queued + one.blocked + one.retrying) },
    { name: "Opened by", cell: (one) => one.caller },
    { name: "Opened", tight: true, cell: (one) => h("span", { title: clock(moment(one.opened_at)) }, ago(moment(one.opened_at))) },
  ];
  const nothing = filtered ? empty("No scheduler is like this.", h("p", {}, h("a", { href: "#/schedulers" }, "Show all")))
    : empty("Nobody has opened a scheduler yet. A first one, with ten tasks in five orders:", command("rallypoint demo"));
  view.show(h("div.head", {}, h("div", {}, h("h1", {}, "Schedulers"))),
    card("All schedulers", "newest first", null,
      h("div.filters", {}, choice(view, "state", "State", STATES), field(view, "name", "Name"), field(view, "title", "Display name"), field(view, "label", "Label", "key=value")),
      rows.length ? table("Schedulers", columns, rows, (one) => one.handle) : nothing,
      h("div.actions", {}, query.get("page") ? h("button", { type: "button", onclick: () => view.set({ page: "" }) }, "Newest") : null,
        next ? h("button", { type: "button", onclick: () => view.set({ page: next }) }, "Older") : null)));
}
