// Why a task does not run, or what holds it up: every reason with what one can do about it.

import { h } from "../dom.js";
import { millis, number, sentence, span } from "../format.js";
import { card, command, facts, rallypoint, taskLink } from "../parts.js";

export function why(explained) {
  const { state, blockers, text, place, running, done } = explained;
  // The summary, the error and the attempts say the rest of what has ended.
  if (done?.attempt) return null;
  const title = state === "TASK_STATE_DONE" ? "What became of it" : state === "TASK_STATE_RUNNING" ? "What it does" : "Why it is not running";
  const locks = blockers.filter((one) => one.session), others = blockers.filter((one) => !one.session);
  const detail = blockers.length ? null : h("p", {}, sentence(text));
  return card(title, "", null, detail,
    running ? where(running) : null,
    blockers.length ? h("ol.blockers", {}, others.map((one) => blocker(one, explained.id.handle)), locks.length ? lockChain(locks) : null) : null,
    place && (place.ahead || place.in_lower_orders) ? h("p.quiet.small", {}, `${place.at_least ? "At least " : ""}${number(place.ahead)} tasks are ahead of it${place.in_lower_orders ? `, ${number(place.in_lower_orders)} of them in lower orders` : ""}.`) : null);
}

function where(running) {
  const { wait } = running;
  const waits = wait?.wait_event_type ? `${wait.wait_event_type} / ${wait.wait_event}` : wait ? "nothing, it works" : running.wait_unknown;
  const lock = wait?.lock_type ? `${wait.lock_mode} on ${wait.lock_relation ? `relation ${wait.lock_relation}` : wait.lock_type}` : "";
  return facts([["Where", running.replica ? `${running.replica}, slot ${running.slot}` : "not known yet"], ["Process", running.backend_pid ? h("span.pid", {}, `${running.backend_pid}`) : ""],
    ["Waits for", waits], ["Lock", lock], ["Being stopped", running.stopping ? "yes" : ""]]);
}

/** Who stands in the way, and in theirs. */
function lockChain(locks) {
  const first = locks.find((one) => one.session.depth === 1) ?? locks[0];
  const row = ({ session: one }) => h("li.blocker.lock", {},
    h("p", {}, one.backend_pid ? ["Process ", h("span.pid", {}, `${one.backend_pid}`)] : "A prepared transaction", one.depth > 1 ? " is in the way of the session above" : " holds the lock that this task waits for"),
    facts([["Runs", one.task ? taskLink(one.task.handle, one.task.seq) : ""], ["User", one.user], ["Application", one.application], ["Kind", one.backend_type], ["State", one.state || "this login may not see it"],
      ["Waits for", one.wait_event_type ? `${one.wait_event_type} / ${one.wait_event}` : ""], ["Transaction open for", one.transaction_age ? span(millis(one.transaction_age)) : ""]]));
  return [locks.map(row), h("li", {}, remedy(first.session))];
}

/** What frees the lock. A task would run again if its session were ended. */
function remedy({ backend_pid: pid, task }) {
  const say = (what, line) => [h("p.small.quiet", {}, what), command(line)];
  if (task) return say("To cancel that task:", rallypoint(`cancel ${task.handle} ${task.seq}`));
  if (pid) return say("To end that session, on the target:", `select pg_terminate_backend(${pid});`);
  return say("To see it, on the target:", "select * from pg_prepared_xacts;");
}

function blocker(one, handle) {
  const seqs = one.lower_order?.seqs ?? one.halted?.failed_seqs ?? [];
  const resources = one.resources?.wanted ?? [];
  return h("li.blocker", {}, h("p", {}, sentence(one.text)),
    seqs.length ? h("p.small", {}, one.halted ? "Failed: " : "It waits for ", seqs.map((seq, index) => [index ? ", " : "", taskLink(handle, seq)])) : null,
    resources.map((wanted) => h("p.small", {}, h("a", { href: `#/resources/${encodeURIComponent(wanted.resource.name)}` }, wanted.resource.name), `: place ${wanted.position} among the claims and tasks in line`,
      wanted.holders.length ? [", held by ", wanted.holders.map((holder, index) => [index ? ", " : "", holder.handle ? taskLink(holder.handle, holder.seq) : holder.owner || `claim ${holder.claim}`])] : "")),
    one.no_executor || one.target_away || one.target_paused || one.fence_pending ? h("p.small", {}, h("a", { href: "#/system" }, "See the system")) : null);
}
