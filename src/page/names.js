// Names of schedulers of which only the handle is told.

import { nameOf } from "./parts.js";

/** Schedulers that are asked for at a time. */
const AT_ONCE = 12;

/** What a view knows of them; each is asked for once. */
export function names(view) {
  const known = new Map();
  const ask = async (handle) => {
    known.set(handle, "");
    const answer = await view.call("SchedulerService/DescribeScheduler", { handle }).catch(() => null);
    if (answer) known.set(handle, nameOf(answer.scheduler));
  };
  return {
    of: (handle) => known.get(handle) ?? "",
    learn: (rows) => rows.forEach((one) => known.set(one.handle, nameOf(one))),
    read: (handles) => Promise.all([...new Set(handles)].filter((one) => one && !known.has(one)).slice(0, AT_ONCE).map(ask)),
  };
}
