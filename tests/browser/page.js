// The page in Chromium, as people use it: every view opened, filtered, drilled and acted on, at two
// widths and in both schemes. Any word in the console, and any serious finding of axe, is a failure.
//
// page.js URL CHROMIUM [FOLDER for screenshots]

const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const { chromium } = require("playwright-core");
const { seed, until } = require("./seed.js");

const AXE = readFileSync(require.resolve("axe-core"), "utf8");
const [, , base, executablePath, pictures] = process.argv;
const WIDE = { width: 1280, height: 860 }, PHONE = { width: 390, height: 844 };

const views = ({ ended, held, waiting }) => [
  ["overview", "/", "canceling statement"], ["schedulers", "/schedulers", "nightly load"], ["scheduler", `/schedulers/${ended}`, "barrier: the order has ended"],
  ["waiting", `/schedulers/${waiting}`, /Ends about|Nobody knows/], ["held task", `/schedulers/${held}/tasks/1`, "holds the lock"], ["failed task", `/schedulers/${ended}/tasks/10`, "42P01"],
  ["result", `/schedulers/${ended}/tasks/11`, "9007199254740993"], ["jobs", "/jobs", "Europe/Vienna"], ["job", "/jobs/refresh%20totals", "Due times"], ["resources", "/resources", "tenant/*"],
  ["resource", "/resources/orders", "the evening import"], ["system", "/system", "Oldest day"], ["nothing", "/schedulers/0197e5a0-0000-7000-8000-000000000000", "no such scheduler"],
];

async function opened(browser, said, viewport, colorScheme) {
  const page = await (await browser.newContext({ viewport, colorScheme })).newPage();
  page.on("console", (message) => {
    // A call about what does not exist is answered so, and Chromium writes that down.
    if (!/status of 404/.test(message.text())) said.push(`${page.url()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => said.push(`${page.url()}: ${error.stack}`));
  page.on("request", (request) => { if (!request.url().startsWith(base)) said.push(`asked for ${request.url()}`); });
  return page;
}

/** Goes to a view and waits for a text of it. */
async function go(page, path, text) {
  await page.goto(`${base}/#${path}`);
  await page.locator("main").getByText(text).filter({ visible: true }).first().waitFor();
}

/** Every view: no serious finding, nothing wider than the window. */
async function looks(page, made, mode, checked) {
  for (const [name, path, text] of views(made)) {
    await go(page, path, text);
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wider <= 0, `${name} (${mode}) is ${wider} px wider than the window`);
    if (pictures) await page.screenshot({ path: `${pictures}/${name.replace(" ", "-")}-${mode}.png`, fullPage: true });
    if (!checked) continue;
    // By the protocol of the browser, which the policy of the page does not bind.
    await page.evaluate(AXE);
    const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    const serious = found.violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
    assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), [], `${name} (${mode})`);
  }
}

async function anErrorLeadsToTheLock(page, { pid }) {
  await go(page, "/", "Needs a look");
  const error = page.locator("li", { hasText: "orders import" }).filter({ has: page.getByText("error", { exact: true }) });
  await error.getByRole("link", { name: /canceling statement/ }).click();
  await page.locator(".blocker.lock .pid", { hasText: `${pid}` }).first().waitFor();
  await go(page, "/", `a lock that process ${pid} holds`);
}

async function anEndIsInSightOrUnknown(page, { waiting }) {
  await go(page, `/schedulers/${waiting}`, "When it ends");
  await page.getByText(/Ends about|Nobody knows/).first().waitFor();
  const slots = page.getByLabel("What if every target had so many slots");
  await slots.fill("16");
  await slots.press("Enter");
  await until("the address says what is asked", async () => page.url().endsWith("?slots=16"));
}

async function filtersStandInTheAddress(page, { ended }) {
  await go(page, `/schedulers/${ended}`, "Tasks");
  await page.getByLabel("State").selectOption("failed");
  const rows = page.getByRole("table", { name: "Tasks" }).locator("tbody tr");
  await until("one failed task is left", async () => (await rows.count()) === 1);
  assert.match(page.url(), /\?state=failed$/);
  await page.reload();
  await page.getByText("42P01").first().waitFor();
  assert.equal(await rows.count(), 1);
  await rows.getByText("totals", { exact: true }).waitFor();
  await rows.getByRole("link", { name: "10", exact: true }).click();
  await page.getByRole("heading", { name: "Task 10: totals" }).waitFor();
  await go(page, `/schedulers/${ended}?order=200`, "part of 200");
  assert.equal(await rows.count(), 3);
  await go(page, `/schedulers/${ended}?code=99999`, "No task is like this");
}

async function keysLeadEverywhere(page) {
  await go(page, "/", "Running now");
  await page.reload();
  await page.getByText("Running now").waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "content");
  await page.getByText("Running now").waitFor();
  await page.keyboard.press("3");
  await page.getByRole("heading", { name: "Jobs", exact: true }).waitFor();
  await page.keyboard.press("2");
  await page.getByRole("heading", { name: "Schedulers", exact: true }).waitFor();
  await page.getByLabel("State").waitFor();
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.key), "state");
}

/** Presses a button and confirms, with a reason where one is asked for. */
async function act(page, name, { reason, confirm = name, within = page } = {}) {
  await within.getByRole("button", { name, exact: true }).first().click();
  const dialog = page.getByRole("dialog");
  if (reason) await dialog.getByLabel(/^Why/).fill(reason);
  await dialog.getByRole("button", { name: confirm, exact: true }).click();
  await dialog.waitFor({ state: "detached" });
}

async function actionsAreAskedForAndDone(page, made) {
  const { call, halted, held, waiting } = made;
  const described = async (handle) => (await call("SchedulerService/DescribeScheduler", { handle })).scheduler;
  await go(page, `/schedulers/${waiting}`, "backfill");
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal((await described(waiting)).paused, false, "who leaves a dialog does nothing");
  await act(page, "Pause");
  await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
  assert.equal((await described(waiting)).paused, true);
  await act(page, "Cancel waiting");
  await until("the tasks are cancelled", async () => (await described(waiting)).blocked === 0);

  await go(page, `/schedulers/${halted}/tasks/1`, "division by zero");
  await page.getByRole("button", { name: "Retry", exact: true }).click();
  await page.getByLabel("Statement", { exact: true }).last().fill("select 1");
  await page.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
  await page.getByRole("heading", { name: "Task 4" }).waitFor();
  await until("the retry lifts the halt", async () => !(await described(halted)).halt);

  await go(page, `/schedulers/${held}/tasks/1`, "Cancel task");
  await act(page, "Cancel task");
  await page.getByText("cancelled").first().waitFor();
  await go(page, "/resources/orders", "import/7");
  await act(page, "Force release", { reason: "the importer is gone" });
  await page.getByText("Nobody holds it").waitFor();
}

async function jobsAndTargets(page, { call }) {
  await go(page, "/jobs/refresh%20totals", "Run now");
  await act(page, "Run now");
  await page.getByRole("table", { name: "Due times" }).getByText("succeeded").waitFor();
  await act(page, "Pause", { reason: "month end" });
  await page.getByText("month end").waitFor();
  assert.equal((await call("JobService/GetJob", { name: "refresh totals" })).job.paused.reason, "month end");
  await act(page, "Resume");
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  await go(page, "/system", "Targets");
  await act(page, "Pause", { reason: "maintenance" });
  await page.getByText("maintenance").waitFor();
  assert.equal((await call("StatusService/GetStatus")).paused_targets.length, 1);
  await act(page, "Resume", { reason: "done" });
  await until("the target is open again", async () => (await call("StatusService/GetStatus")).paused_targets.length === 0);
}

/** What ends while one looks is shown without being asked for. */
async function eventsArriveByThemselves(page, { call, locker }) {
  await go(page, `/schedulers/${locker}`, "long migration");
  await page.getByRole("table", { name: "Tasks" }).getByText("running", { exact: true }).waitFor();
  await call("SchedulerService/CancelTask", { id: { handle: locker, seq: 1 } });
  await page.getByRole("table", { name: "Tasks" }).getByText("cancelled", { exact: true }).waitFor();
}

async function main() {
  const made = await seed(base);
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const said = [];
  try {
    for (const [width, viewport] of [["wide", WIDE], ["phone", PHONE]]) {
      for (const scheme of ["light", "dark"]) await looks(await opened(browser, said, viewport, scheme), made, `${width}-${scheme}`, true);
    }
    const page = await opened(browser, said, WIDE, "light");
    for (const check of [anErrorLeadsToTheLock, anEndIsInSightOrUnknown, filtersStandInTheAddress, keysLeadEverywhere, actionsAreAskedForAndDone, jobsAndTargets, eventsArriveByThemselves]) {
      await check(page, made);
      console.log(`${check.name}: ok`);
    }
  } finally {
    await browser.close();
  }
  assert.deepEqual(said, [], "nothing is written to the console, and nothing asked for elsewhere");
}

main().catch((error) => { console.error(error); process.exit(1); });
