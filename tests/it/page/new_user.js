// What somebody meets who is new to the page: an empty server, a failure among much that is newer, names in
// addresses, fields that say what is wrong.
//
// new_user.js URL CHROMIUM

const assert = require("node:assert/strict");
const { chromium } = require("playwright-core");

const [, , base, executablePath] = process.argv;

async function call(method, message) {
  const response = await fetch(`${base}/rallypoint.v1.${method}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(message) });
  assert.ok(response.ok, method);
  return response.json();
}

/** A scheduler with tasks that are `statements`, released unless `open`. */
async function ran(name, display_name, statements, open = false) {
  const { scheduler: { handle } } = await call("SchedulerService/GetScheduler", { name, settings: { display_name, labels: { zone: "b", area: "a" } } });
  await call("SchedulerService/ExecAsync", { handle, tasks: statements.map((statement) => ({ sql: { statement } })) });
  if (!open) await call("SchedulerService/ReleaseScheduler", { handle, wait: true });
  return handle;
}

const shown = (page, text) => page.locator("main").getByText(text).filter({ visible: true }).first().waitFor();

async function anEmptyServerSaysWhatWorks(page) {
  await page.goto(`${base}/#/schedulers`);
  await shown(page, "There is no scheduler in namespace default");
  await shown(page, `rallypoint exec 'select 1' --server ${base}`);
}

async function aFailureIsSeenAmongMuchThatIsNewer(page) {
  const handle = await ran("night", "the work of the night", ["select 1", "select 1/0"]);
  for (let one = 0; one < 14; one += 1) await ran("", `open ${one}`, ["select 1"], true);
  for (let one = 0; one < 14; one += 1) await ran("", `later ${one}`, ["select 1"]);
  await page.goto(`${base}/#/`);
  await page.getByRole("link", { name: "Task 2: division by zero" }).waitFor();
  return handle;
}

async function aSchedulerIsFoundAndCalledByItsName(page, handle) {
  await page.goto(`${base}/#/schedulers/night`);
  await page.getByRole("heading", { name: "night", exact: true }).waitFor();
  assert.ok(page.url().endsWith(handle), "its name leads to its handle");
  assert.equal(await page.title(), "night · Rallypoint");
  await shown(page, "the work of the night");
  await page.getByRole("img", { name: /2 of 2 tasks ended, 1 failed/ }).waitFor();
  await shown(page, /area=a\s+zone=b/);
  await page.goto(`${base}/#/schedulers/night/tasks/2`);
  await shown(page, "It cannot be retried here");
  assert.equal(await page.title(), "Task 2 of night · Rallypoint");
  await page.goto(`${base}/#/schedulers/nobody`);
  await shown(page, "No scheduler in namespace default has the name nobody");
}

async function fieldsSayWhatIsWrong(page) {
  const handle = await ran("long", "", ["select pg_sleep(600)"], true);
  await page.goto(`${base}/#/schedulers/${handle}`);
  const slots = page.getByLabel("What if every target had so many slots");
  for (const wrong of ["-1", "abc", "0", "1e9"]) {
    await slots.fill(wrong);
    await slots.press("Enter");
    await page.getByRole("alert").getByText("a whole number from 1 to 100 000").waitFor();
    assert.equal(await page.getByText(/Ends about|Nobody knows/).count(), 0, "no forecast for it");
  }
  await slots.fill("4");
  await slots.press("Enter");
  await shown(page, /Ends about|Nobody knows/);
  const label = page.getByLabel("Label", { exact: true });
  await label.fill("nokey");
  await label.press("Enter");
  await page.getByRole("alert").getByText("Write key=value").waitFor();
}

async function messagesNameNoCalls(page) {
  await page.goto(`${base}/#/jobs/nothing`);
  await shown(page, "Jobs shows those there are");
  assert.doesNotMatch(await page.locator("main").innerText(), /[a-z][A-Z]/);
  await page.goto(`${base}/#/schedulers/01890a5d-ac96-7000-8a2e-6f1d3b5c7e90`);
  await shown(page, "Schedulers shows which there are");
}

async function main() {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    const page = await (await browser.newContext({ viewport: { width: 1280, height: 860 } })).newPage();
    await anEmptyServerSaysWhatWorks(page);
    const handle = await aFailureIsSeenAmongMuchThatIsNewer(page);
    await aSchedulerIsFoundAndCalledByItsName(page, handle);
    await fieldsSayWhatIsWrong(page);
    await messagesNameNoCalls(page);
  } finally {
    await browser.close();
  }
}

main().catch((error) => { console.error(error); process.exit(1); });
