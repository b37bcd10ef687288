// A scheduler may be asked for by its name instead of its handle, as on the command line.

import { pages } from "../api.js";
import { h } from "../dom.js";
import { namespace } from "../session.js";

const HANDLE = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** A view of a handle, which leads there from a name. */
export const byName = (shown) => (view) => (HANDLE.test(view.params.handle) ? shown(view) : view.every(5000, () => lead(view)));

/** To the newest one of this name: if one is open, it is that. */
async function lead(view) {
  const { handle: name } = view.params;
  const { rows: [found] } = await pages("SchedulerService/ListSchedulers", { page_size: 1, filter: { name } }, "schedulers", 1, view.signal);
  if (found) location.replace(location.hash.replace(/^#\/schedulers\/[^/?]+/, `#/schedulers/${found.handle}`));
  else view.show(h("section.card", {}, h("h1", {}, "Nothing here"), h("p", {}, `No scheduler in namespace ${namespace()} has the name ${name}. One that was released is found until its log is past its retention.`),
    h("p", {}, h("a", { href: `#/schedulers?title=${encodeURIComponent(name)}` }, "Those of this display name"), " · ", h("a", { href: "#/schedulers" }, "All schedulers"))));
}
