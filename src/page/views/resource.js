// One resource, live: who holds it, who is next.

import { h } from "../dom.js";
import { action } from "../dialog.js";
import { ago, clock, millis, moment, number, span, word } from "../format.js";
import { badge, card, empty, facts, figure, figures, schedulerLink, table, taskLink } from "../parts.js";
import { use } from "./resources.js";

export function resource(view) {
  const { name } = view.params;
  let seen = null;
  const draw = () => { if (seen) view.show(...page(view, seen)); };
  view.title(name);
  view.every(1000, async () => {
    seen ??= { ...(await view.call("ResourceService/GetResource", { name })) };
    draw();
  }).then(() => view.follow("ResourceService/WatchResource", { name }, (message) => { seen = message; draw(); }));
}

const who = (claim) => (claim.handle ? taskLink(claim.handle, claim.seq) : [claim.owner || claim.caller, claim.owner && claim.caller !== claim.owner ? h("span.sub", {}, claim.caller) : null]);

function uses(claim, name) {
  const mine = claim.resources.find((one) => one.name === name) ?? claim.resources[0];
  const more = claim.resources.length > 1 ? `, with ${claim.resources.length - 1} more` : "";
  return `${word(mine?.mode, "RESOURCE_MODE") || "exclusive"}${mine?.permits > 1 ? ` × ${mine.permits}` : ""}${more}`;
}

function page(view, { resource: one, holds, queue, waiting_tasks: tasks = [], deleted }) {
  const { settings } = one;
  const reason = { name: "reason", label: "Why", required: true };
  const end = (claim) => ({ danger: true, needs: "operator", fields: [reason], run: (said) => view.act("ResourceService/ForceRelease", { claim: claim.claim, reason: said.reason }) });
  const force = { name: "", cell: (claim) => action(view, { ...end(claim), name: "Force release", title: "End this claim?", text: "Its owner does not know, and may go on as if it held the resource. Others get it after the lock delay. This is kept with your name and the reason." }) };
  const remove = { name: "", cell: (claim) => action(view, { ...end(claim), name: "Remove from the queue", title: "Remove this claim from the queue?", text: "It waits no more and does not get the resource. Its owner may ask again. This is kept with your name and the reason." }) };
  const actions = (one) => (view.may("operator") ? [one] : []);
  const held = [
    { name: "Holder", cell: who }, { name: "Use", cell: (claim) => uses(claim, one.name) }, { name: "Token", num: true, cell: (claim) => h("span.mono", {}, `${claim.token}`) },
    { name: "Since", tight: true, named: true, cell: (claim) => h("span", { title: clock(moment(claim.granted_at)) }, ago(moment(claim.granted_at))) },
    { name: "Lease", num: true, cell: (claim) => (claim.lease_until ? `${span(moment(claim.lease_until) - Date.now())} left` : "as long as its attempt") }, { name: "Why", named: true, cell: (claim) => claim.reason || "–" }, ...actions(force),
  ];
  const waits = [
    { name: "Place", tight: true, cell: (claim) => `${claim.position}` }, { name: "Who", cell: who }, { name: "Use", cell: (claim) => uses(claim, one.name) },
    { name: "Waits for", num: true, cell: (claim) => span(Date.now() - moment(claim.requested_at)) }, { name: "Expected", num: true, cell: (claim) => (claim.expected_wait ? span(millis(claim.expected_wait)) : h("span.quiet", {}, "not known")) },
    { name: "Why", named: true, cell: (claim) => claim.reason || "–" }, ...actions(remove),
  ];
  const lined = [
    { name: "Task", tight: true, cell: (line) => taskLink(line.handle, line.seq) }, { name: "Scheduler", cell: (line) => schedulerLink(line.handle) },
    { name: "Use", cell: (line) => `${word(line.resource?.mode, "RESOURCE_MODE") || "exclusive"}${line.resource?.permits > 1 ? ` × ${line.resource.permits}` : ""}` }, { name: "Kept for it", cell: (line) => (line.is_kept ? "yes" : "no") },
  ];
  return [
    h("div.head", {}, h("div", {}, h("p.crumbs", {}, h("a", { href: "#/resources" }, "Resources")), h("div.title", {}, h("h1", {}, one.name), one.holds ? badge("held") : badge("free", "good"), deleted ? badge("deleted", "bad") : null))),
    figures(figure("Permits in use", number(one.permits_in_use), `of ${number(settings.capacity)}`, use(one)), figure("Holders", number(one.holds)), figure("Waiting", number(one.waiting), "claims"),
      figure("Waiting tasks", number(one.waiting_tasks)), figure("Usual hold", span(millis(one.usual_hold)) || "–")),
    card("Holders", "oldest first", null, holds.length ? table("Holders", held, holds, (claim) => claim.claim) : empty("Nobody holds it.")),
    card("Queue", "first in line first", null, queue.length ? table("Queue", waits, queue, (claim) => claim.claim) : empty("Nobody waits in line.")),
    tasks.length ? card("Waiting tasks", "the first of each order stands for all", null, table("Waiting tasks", lined, tasks, (line) => `${line.handle} ${line.seq}`)) : null,
    card("Settings", "", null, facts([["Defined by", one.defined_by === one.name ? "" : one.defined_by], ["Lock delay", millis(settings.lock_delay) ? span(millis(settings.lock_delay)) : "none"], ["A hold may last", span(millis(settings.max_hold))],
      ["Permits come back", settings.refill ? `${number(settings.refill.permits)} each ${span(millis(settings.refill.period))}` : "when they are released"], ["Readers first", settings.reader_preferred ? "yes" : "no"],
      ["Changed", `${clock(moment(one.changed_at))} by ${one.changed_by}`]])),
  ];
}
