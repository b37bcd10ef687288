// Recurring jobs: when each is due next, and how the last run went.

import { pages } from "../api.js";
import { h } from "../dom.js";
import { action } from "../dialog.js";
import { ago, byWhom, clock, moment, number, schedule, word } from "../format.js";
import { badge, card, emptyFor, figure, figures, rallypoint, table } from "../parts.js";
import { namespace } from "../session.js";

const RECENT = 12;

export function jobs(view) {
  const last = new Map();
  view.every(4000, async () => {
    const [{ rows, more }, status] = await Promise.all([pages("JobService/ListJobs", { page_size: 200 }, "jobs", 200, view.signal), view.call("StatusService/GetStatus")]);
    draw(view, rows, more, status.jobs, last);
    await Promise.all(rows.slice(0, 50).map(async (job) => last.set(job.name, (await view.call("JobService/ListRuns", { name: job.name, page_size: RECENT })).runs)));
    draw(view, rows, more, status.jobs, last);
  });
}

export const jobHref = (name) => `#/jobs/${encodeURIComponent(name)}`;

/** What became of the last due times, oldest first, each as a mark. */
export function marks(runs) {
  const tone = (run) => ({ SUCCEEDED: "good", RUNNING: "run", FAILED: "bad", TIMED_OUT: "bad", LOST: "bad", MISSED: "bad", WAITING: "wait", RETRYING: "wait" })[run.state.replace("RUN_STATE_", "")] ?? "";
  const said = (run) => `${clock(moment(run.due))}: ${word(run.state, "RUN_STATE")}`;
  return h("span.marks", { role: "img", "aria-label": `Last due times: ${[...runs].reverse().map((run) => word(run.state, "RUN_STATE")).join(", ")}` },
    [...runs].reverse().map((run) => h("i", { class: tone(run), title: said(run) })));
}

function draw(view, rows, more, counts, last) {
  const agent = counts?.agent ?? {};
  const columns = [
    { name: "Job", cell: (job) => h("a", { href: jobHref(job.name) }, job.name) },
    { name: "Due", cell: (job) => h("code", {}, schedule(job.settings?.schedule)) },
    { name: "Next", tight: true, named: true, cell: (job) => (job.paused ? badge("paused") : job.next_due ? h("span", { title: clock(moment(job.next_due)) }, ago(moment(job.next_due))) : "–") },
    { name: "Last runs", tight: true, named: true, cell: (job) => (last.get(job.name)?.length ? marks(last.get(job.name)) : h("span.quiet", {}, "none yet")) },
    { name: "Last run", tight: true, cell: (job) => { const run = last.get(job.name)?.[0]; return run ? [badge(word(run.state, "RUN_STATE"), job.failures ? "bad" : undefined)] : "–"; } },
    { name: "Changed by", named: true, cell: (job) => job.changed_by },
  ];
  view.show(h("div.head", {}, h("div", {}, h("h1", {}, "Jobs")), h("div.actions", {}, !counts ? null : agent.stopped
    ? action(view, { name: "Start the agent", main: true, needs: "operator", everywhere: true, text: "Jobs of all namespaces are fired again. Due times since the stop go by each job's misfire rule.", run: () => view.act("JobService/StartAgent") })
    : action(view, { name: "Stop the agent", danger: true, needs: "operator", everywhere: true, text: "No job of any namespace is fired until it is started again.",
      fields: [{ name: "reason", label: "Why", required: true }, { name: "mode", label: "Runs that go on", options: [["STOP_MODE_DRAIN", "let them go on"], ["STOP_MODE_CANCEL_RUNNING", "cancel them"]] }],
      run: ({ reason, mode }) => view.act("JobService/StopAgent", { reason, mode }) }))),
  agent.stopped ? h("p.notice", {}, `The agent is stopped${byWhom(agent.changed_by, agent.reason)}. No job is fired.`) : null,
  counts?.unreadable > 0 ? h("p.notice.bad", {}, `Jobs that are not fired, as this version cannot read them, or a run of theirs: ${number(counts.unreadable)}. The log of the owner names them.`) : null,
  !counts ? h("p.notice", {}, "How they go is not known: no owner of the shard answers.") : null,
  rows.length && counts ? figures(figure("Jobs", number(counts.jobs)), figure("Running", number(agent.running)), figure("Waiting", number(counts.waiting), "for their turn or another attempt"),
    figure("Failing", number(counts.failing), "last run failed"), figure("Late", number(counts.late), "due, and not run yet"), figure("Next due", counts.next_due ? ago(moment(counts.next_due)) : "–")) : null,
  card("All jobs", more ? "the first 200" : "", null, rows.length ? table("Jobs", columns, rows, (job) => job.name)
    : emptyFor(view, "operator", `No job is defined in namespace ${namespace()}.`, "Describe one in a file and apply it:",
      '# jobs.toml\n[jobs.nightly]\nschedule = { cron = "30 2 * * *", time_zone = "Europe/Vienna" }\nsteps = [{ statement = "select refresh()" }]\n\n$ ' + rallypoint("jobs apply -f jobs.toml"))));
}
