// How the tasks of schedulers ended that did not succeed. A scheduler has no such counts, so its tasks are
// asked for: those of a few schedulers at a time, and again only when more of its tasks have ended.

/** Schedulers that are asked for at a time. */
const AT_ONCE = 25;
/** Tasks of each that are read: the newest. */
const READ = 50;
const FAILED = ["OUTCOME_FAILED", "OUTCOME_TIMED_OUT", "OUTCOME_EXHAUSTED"];

/** What is known of the schedulers that a view shows. */
export function outcomes(view) {
  const known = new Map();
  const isKnown = (one) => one.done === 0 || known.get(one.handle)?.done === one.done;
  return {
    /** { failed, cancelled, whole, newest } or nothing; `whole`: there are no more than these. */
    of: (one) => known.get(one.handle),
    /** Reads of `rows` what is not known yet, those first of which nothing is known. */
    async read(rows) {
      const kept = new Set(rows.map((one) => one.handle));
      for (const handle of known.keys()) if (!kept.has(handle)) known.delete(handle);
      const wanted = rows.filter((one) => !isKnown(one)).sort((a, b) => known.has(a.handle) - known.has(b.handle));
      await Promise.all(wanted.slice(0, AT_ONCE).map(async (one) => {
        // What cannot be told now is asked for again.
        const found = await counted(view, one).catch(() => null);
        if (found) known.set(one.handle, found);
      }));
    },
  };
}

async function counted(view, { handle, done }) {
  const { tasks, next_page_token: more } = await view.call("SchedulerService/ListTasks", { handle, page_size: READ, filter: { outcomes: [...FAILED, "OUTCOME_CANCELLED"] } });
  const failed = tasks.filter((task) => FAILED.includes(task.done.outcome));
  return { done, failed: failed.length, cancelled: tasks.length - failed.length, whole: !more, newest: failed.filter((task) => !task.retried_as).slice(0, 3) };
}
