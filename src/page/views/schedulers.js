// The schedulers of the namespace, newest first.

import { h } from "../dom.js";
import { ago, clock, labels, moment, number } from "../format.js";
import { outcomes } from "../outcomes.js";
import { card, empty, ended, noScheduler, schedulerBadges, schedulerCell, table } from "../parts.js";
import { namespace } from "../session.js";
import { UNREADABLE, checkLabels, choice, field, labelsOf } from "./filters.js";

const STATES = [["", "any state"], ["open", "open"], ["releasing", "releasing"], ["released", "released"], ["halted", "halted by a failure"]];
const KEYS = ["state", "name", "title", "label"];

export function schedulers(view) {
  const { query } = view;
  const ends = outcomes(view);
  view.every(3000, async () => {
    if (checkLabels(query.get("label") ?? "")) return draw(view, { schedulers: [] }, ends);
    const page = await view.call("SchedulerService/ListSchedulers", { page_size: 50, filter: filterOf(query), page_token: query.get("page") ?? "" });
    draw(view, page, ends);
    await ends.read(page.schedulers);
    draw(view, page, ends);
  });
}

function filterOf(query) {
  const filter = {}, state = query.get("state");
  if (state === "halted") filter.halted = true;
  else if (state) filter.states = [`SCHEDULER_STATE_${state.toUpperCase()}`];
  if (query.get("name")) filter.name = query.get("name");
  if (query.get("title")) filter.display_name = query.get("title");
  if (query.get("label")) filter.labels = labelsOf(query.get("label"));
  return filter;
}

function draw(view, { schedulers: rows, next_page_token: next }, ends) {
  const { query } = view;
  const filtered = KEYS.some((key) => query.get(key));
  const columns = [
    { name: "Scheduler", cell: (one) => schedulerCell(one, labels(one.settings.labels)) },
    { name: "State", tight: true, cell: (one) => h("span.title", {}, schedulerBadges(one)) },
    { name: "Tasks", wide: true, cell: (one) => ended(one, ends.of(one)) },
    { name: "Running", num: true, cell: (one) => number(one.running) },
    { name: "Waiting", num: true, cell: (one) => number(one.queued + one.blocked + one.retrying) },
    { name: "Opened by", cell: (one) => one.caller },
    { name: "Opened", tight: true, cell: (one) => h("span", { title: clock(moment(one.opened_at)) }, ago(moment(one.opened_at))) },
  ];
  const nothing = filtered ? empty(checkLabels(query.get("label") ?? "") ? UNREADABLE : `No scheduler in namespace ${namespace()} is like this.`, h("p", {}, h("a", { href: "#/schedulers" }, "Show all"))) : noScheduler(view);
  view.show(h("div.head", {}, h("div", {}, h("h1", {}, "Schedulers"))),
    card("All schedulers", "newest first", null,
      h("div.filters", {}, choice(view, "state", "State", STATES), field(view, "name", "Name"), field(view, "title", "Display name"), field(view, "label", "Label", { placeholder: "key=value", check: checkLabels })),
      rows.length ? table("Schedulers", columns, rows, (one) => one.handle) : nothing,
      h("div.actions", {}, query.get("page") ? h("button", { type: "button", onclick: () => view.set({ page: "" }) }, "Newest") : null,
        next ? h("button", { type: "button", onclick: () => view.set({ page: next }) }, "Older") : null)));
}
