// The shell: which view is shown, its address, and its one stream of events.

import { ApiError, call, follow } from "./api.js";
import { h, show } from "./dom.js";
import { sentence, zone } from "./format.js";
import { may, recognise, signIn, whoami } from "./session.js";
import { overview } from "./views/overview.js";
import { schedulers } from "./views/schedulers.js";
import { byName } from "./views/by_name.js";
import { scheduler } from "./views/scheduler.js";
import { task } from "./views/task.js";
import { jobs } from "./views/jobs.js";
import { job } from "./views/job.js";
import { resources } from "./views/resources.js";
import { resource } from "./views/resource.js";
import { system } from "./views/system.js";

const NAVIGATION = [["#/", "Overview"], ["#/schedulers", "Schedulers"], ["#/jobs", "Jobs"], ["#/resources", "Resources"], ["#/system", "System"]];
const ROUTES = [
  [/^\/$/, overview, "Overview"],
  [/^\/schedulers$/, schedulers, "Schedulers"],
  [/^\/schedulers\/(?<handle>[^/]+)$/, byName(scheduler), "Scheduler"],
  [/^\/schedulers\/(?<handle>[^/]+)\/tasks\/(?<seq>\d+)$/, byName(task), "Task"],
  [/^\/jobs$/, jobs, "Jobs"],
  [/^\/jobs\/(?<name>.+)$/, job, "Job"],
  [/^\/resources$/, resources, "Resources"],
  [/^\/resources\/(?<name>.+)$/, resource, "Resource"],
  [/^\/system$/, system, "System"],
];

const content = document.getElementById("content");
const connection = document.getElementById("connection");
let leave = new AbortController();

/** Where the page is: path and parameters, behind the `#`. */
function address() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  return { path: path || "/", query: new URLSearchParams(query) };
}

/** A name that somebody has typed may have a `%` of its own. */
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function said(state, text) {
  connection.className = `connection ${state}`;
  if (connection.textContent !== text) connection.textContent = text;
}

/** What a view is given: where it is, what ends it, and how it shows itself. */
function viewOf(path, query, params) {
  const { signal } = leave;
  const view = {
    query, params, signal, may,
    call: (method, message) => call(method, message, signal),
    /** As `call`, for what is done: it goes on when the view is left. */
    act: (method, message) => call(method, message),
    show: (...children) => { if (!signal.aborted) show(content, ...children); },
    /** Names what is shown in the title of the tab. */
    title: (text) => { if (!signal.aborted) document.title = `${text} · Rallypoint`; },
    /** Changes parameters of the address, without another view. */
    set: (changes) => {
      for (const [key, value] of Object.entries(changes)) value ? query.set(key, value) : query.delete(key);
      const text = query.toString();
      history.replaceState(null, "", `#${path}${text ? `?${text}` : ""}`);
      view.again();
    },
    again: () => {},
    /** Does `work` now, then every so many milliseconds while the page is seen. */
    every: (ms, work) => {
      let running = false, wanted = false;
      const turn = async () => {
        if (signal.aborted) return;
        if (running) { wanted = true; return; }
        running = true;
        try {
          await work();
          if (!view.streams) said("live", "live");
        } catch (error) { trouble(error, signal); }
        running = false;
        if (wanted) { wanted = false; turn(); }
      };
      const timer = setInterval(() => { if (!document.hidden) turn(); }, ms);
      signal.addEventListener("abort", () => clearInterval(timer));
      view.again = turn;
      return turn();
    },
    /** Follows the view's one stream. */
    follow: (method, message, heard, ended) => {
      view.streams = true;
      follow(method, message, signal, { heard, ended: (error) => { view.streams = false; ended?.(error); },
        state: (open) => said(open ? "live" : "lost", open ? "live" : "connecting again …") });
    },
  };
  return view;
}

function trouble(error, signal) {
  if (signal.aborted || error.name === "AbortError") return;
  if (error instanceof ApiError && error.code === 16) { leave.abort(); return signIn(content, route); }
  if (!(error instanceof ApiError)) console.error(error);
  const missing = error.code === 5 || error.code === 3;
  if (missing) show(content, h("section.card", {}, h("h1", {}, "Nothing here"), h("p", {}, sentence(error.message)), h("p", {}, h("a", { href: "#/" }, "To the overview"), " · ", h("a", { href: "#/schedulers" }, "All schedulers"))));
  else if (error.code === 14 || error.code === 4) said("lost", error.message);
  else show(content, h("p.notice.bad", { role: "alert" }, sentence(error.message)));
}

function route() {
  leave.abort();
  leave = new AbortController();
  const { path, query } = address();
  const found = ROUTES.map(([pattern, view, title]) => ({ match: path.match(pattern), view, title })).find((one) => one.match);
  const first = `#/${path.split("/")[1]}`;
  show(document.getElementById("nav"), NAVIGATION.map(([href, name]) => h("a", { href, "aria-current": href === first ? "page" : null }, name)));
  show(document.getElementById("who"), whoami());
  document.title = `${found?.title ?? "Nothing here"} · Rallypoint`;
  if (!found) return trouble(new ApiError({ code: 5, message: "There is no such view." }, 404), leave.signal);
  const params = Object.fromEntries(Object.entries(found.match.groups ?? {}).map(([key, value]) => [key, decoded(value)]));
  show(content, h("p.quiet", {}, "Loading …"));
  found.view(viewOf(path, query, params));
}

/** Shows the view, or has somebody sign in. A server that starts says later who looks, and what may be done. */
async function begin(pause = 500) {
  let known = true;
  try { known = await recognise(); } catch (error) {
    if (error.code === 14) {
      said("lost", error.message);
      return void setTimeout(begin, pause, Math.min(pause * 2, 10000));
    }
  }
  known ? route() : signIn(content, route);
}

window.addEventListener("hashchange", () => { route(); content.focus({ preventScroll: true }); window.scrollTo(0, 0); });
// An address behind the `#` is a view here, and no place in the page.
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); content.focus(); });
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  const [href] = NAVIGATION[Number(event.key) - 1] ?? [];
  if (href) location.hash = href.slice(1);
  if (event.key === "/") { document.querySelector("main .filters :is(input, select)")?.focus(); event.preventDefault(); }
});
show(document.getElementById("zone"), `Times are in ${zone()}, unless it is said otherwise.`);
begin();
