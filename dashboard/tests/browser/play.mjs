// What happens in the browser. It ends with 1 and says what was wrong, all of it.
import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const { ADDRESS, BROWSER, NAMESPACE: NS, JANE, JOE, PICTURES } = process.env;
mkdirSync(PICTURES, { recursive: true });
const wrong = [];
const check = (is, what) => { if (!is) { wrong.push(what); console.error("WRONG: " + what); } };
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const PATIENCE = 30000;

const browser = await chromium.launch({
  executablePath: BROWSER,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});

// A context whose pages say what they should not: errors, requests to others.
const context = async (options = {}) => {
  const made = await browser.newContext({ ignoreHTTPSErrors: true, baseURL: ADDRESS, ...options });
  made.setDefaultTimeout(PATIENCE);
  made.on("console", (message) => {
    const text = message.text();
    // The browser's own words about an answer that is an error; those are looked for below.
    if (["error", "warning"].includes(message.type()) && !text.includes("Failed to load resource")) check(false, "console: " + text);
  });
  made.on("weberror", (error) => check(false, "script: " + error.error()));
  made.on("request", (request) => check(request.url().startsWith(ADDRESS), "request to " + request.url()));
  return made;
};
const logIn = async (page, token) => {
  await page.goto("/login");
  await page.fill("#token", token);
  await page.click("button[type=submit]");
  await page.waitForURL((url) => url.pathname !== "/login");
};
const judge = async (page, what) => {
  await page.evaluate(axe);
  const found = await page.evaluate((rules) => axe.run(document, { runOnly: rules }), RULES);
  for (const one of found.violations) check(false, `${what}: ${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((n) => n.html).join(" | ")}`);
  check(found.passes.length > 5, `${what}: axe looked at nothing`);
};

const PAGES = {
  list: `/clusters?ns=${NS}`,
  which: "/clusters",
  empty: `/clusters?ns=${NS}&q=nothing`,
  cluster: `/clusters/${NS}/demo`,
  ready: `/clusters/${NS}/web`,
  pools: `/pools?ns=${NS}`,
  pool: `/pools/${NS}/demo-workers`,
  machines: `/machines?ns=${NS}`,
  machine: `/machines/${NS}/demo-workers-bbbbb`,
  hosts: `/hosts?ns=${NS}`,
  host: `/hosts/${NS}/edge-1`,
  snapshots: `/snapshots?ns=${NS}`,
  restores: `/restores?ns=${NS}`,
  new: `/new?ns=${NS}`,
  "new-pool": `/clusters/${NS}/demo/new-pool`,
  delete: `/clusters/${NS}/demo/delete`,
  reasons: "/reasons",
  nowhere: "/pools/a/b/c/d",
  missing: `/clusters/${NS}/none`,
};

// 1. Every page, in both schemes and two widths, judged and pictured. axe needs what our policy forbids, so it looks at
// pages without it; all else is done with it.
for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 320]) {
    const made = await context({ colorScheme, viewport: { width, height: 900 }, bypassCSP: true });
    const page = await made.newPage();
    const look = async (name) => {
      const what = `${name} ${colorScheme} ${width}`;
      await judge(page, what);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(wide <= 0, `${what}: ${wide} pixels too wide`);
      const small = await page.evaluate(() => [...document.querySelectorAll("button, .button, input:not([type=hidden]), select, summary, nav a")]
        .filter((one) => one.checkVisibility()).map((one) => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()])
        .filter(([, at]) => at.width > 0 && (at.height < 24 || at.width < 24)).map(([html]) => html));
      check(small.length === 0, `${what}: too small to be hit: ${small}`);
      await page.screenshot({ path: `${PICTURES}/${name}-${colorScheme}-${width}.png`, fullPage: true });
    };
    await page.goto("/login");
    await look("login");
    await page.fill("#token", "not a token");
    await page.click("button[type=submit]");
    await page.waitForSelector(".mistake");
    check(!(await page.content()).includes("not a token"), "what was pasted stands in the page");
    await look("login-refused");
    await logIn(page, JANE);
    for (const [name, address] of Object.entries(PAGES)) {
      await page.goto(address);
      await look(name);
    }
    await page.goto(PAGES.new);
    await page.fill("#name", "Bad_Name");
    await page.fill("#version", "newest");
    await page.click("button[value=create]");
    await page.waitForSelector("#verdict .card");
    await look("new-refused");
    await made.close();
    // Who may only look.
    const other = await context({ colorScheme, viewport: { width, height: 900 }, bypassCSP: true });
    const theirs = await other.newPage();
    await logIn(theirs, JOE);
    await theirs.goto(PAGES.cluster);
    await judge(theirs, `viewer ${colorScheme} ${width}`);
    await theirs.screenshot({ path: `${PICTURES}/viewer-${colorScheme}-${width}.png`, fullPage: true });
    await other.close();
  }
}

// 2. By keys alone: made, followed, scaled, paused, deleted, left.
{
  const made = await context({ viewport: { width: 1280, height: 900 } });
  const page = await made.newPage();
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent.trim() || document.activeElement.name);
  const tabTo = async (wanted) => {
    for (let n = 0; n < 120; n += 1) {
      if ((await focused()) === wanted) return;
      await page.keyboard.press("Tab");
    }
    check(false, `Tab does not lead to ${wanted}, it ended at ${await focused()}`);
  };
  await page.goto("/login");
  check((await focused()) === "token", "log-in begins in its field");
  await page.keyboard.insertText(JANE);
  await tabTo("Log in");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${ADDRESS}/`);
  await page.goto(PAGES.list);
  await page.keyboard.press("Tab");
  check((await focused()) === "Skip to content", "the first thing is to skip");
  const seen = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  check(seen !== "none", "focus is not seen");
  await page.keyboard.press("Enter");
  check((await focused()) === "main", "to skip leads to the content");
  await page.keyboard.press("/");
  check((await focused()) === "filter", "/ leads to the filter");
  await page.keyboard.type("web");
  check((await page.locator("#list tbody tr:visible").count()) === 1, "the filter leaves one row");
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.press("Delete");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  check((await focused()) === "web", "j leads down to web");
  await page.keyboard.press("k");
  check((await focused()) === "demo", "k leads up to demo");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${ADDRESS}${PAGES.cluster}`);
  await page.keyboard.press("?");
  check(await page.locator("#keys").evaluate((one) => one.open), "? shows the keys");
  await page.keyboard.press("g");
  await page.keyboard.press("c");
  await page.waitForURL(`${ADDRESS}/`);

  await page.goto(PAGES.list);
  await tabTo("New tenant cluster");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${ADDRESS}${PAGES.new}`);
  await tabTo("name");
  await page.keyboard.type("keyed");
  await tabTo("version");
  await page.keyboard.type("newest");
  await page.keyboard.press("Tab");
  // The API says it beside the field while the form is filled in.
  await page.waitForFunction(() => document.querySelector("#version-mistake").textContent !== "");
  await page.focus("#version");
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("1.35.4");
  await page.keyboard.press("Tab");
  await page.waitForFunction(() => document.querySelector("#version-mistake").textContent === "");
  await page.waitForSelector("#verdict .notice");
  await tabTo("workers");
  await page.keyboard.type("1");
  await tabTo("Create");
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.pathname === `/clusters/${NS}/keyed`);
  // It becomes ready without being asked for again.
  await page.waitForSelector("h1 .badge.ok");
  check(await page.evaluate(() => performance.getEntriesByType("navigation").length === 1 && performance.navigation.type !== 1), "the page was loaded again");

  await page.waitForSelector("#scale-keyed-workers");
  await tabTo("scale-keyed-workers");
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("3");
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.pathname === `/pools/${NS}/keyed-workers` && url.search === "?done=scaled");
  check((await page.textContent("#title")).includes("of 3 ready"), "it has three machines");
  await page.goto(`/clusters/${NS}/keyed`);
  await tabTo("Pause");
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.search === "?done=paused");
  await tabTo("Resume");
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.search === "?done=resumed");
  await tabTo("Delete…");
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.pathname.endsWith("/delete"));
  await tabTo("confirm");
  await page.keyboard.type("kyed");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#confirm-mistake").textContent.includes("nothing was deleted"));
  await tabTo("confirm");
  await page.keyboard.type("keyed");
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.search.includes("done=deleted"));
  check((await page.textContent("#list")).includes("keyed") === false, "it is gone");

  // A page that is open hears of another one's change, keeps focus and what is typed, and leads to log-in at the end.
  const second = await made.newPage();
  await page.goto(PAGES.cluster);
  await page.waitForSelector("#acts button");
  await page.fill("#scale-demo-workers", "9");
  await second.goto(PAGES.cluster);
  await second.click("text=Pause");
  await second.waitForURL((url) => url.search === "?done=paused");
  await page.waitForSelector("#acts button:has-text('Resume')");
  check((await page.inputValue("#scale-demo-workers")) === "9", "what was typed stays");
  await second.click("text=Resume");
  await page.waitForSelector("#acts button:has-text('Pause')");
  await second.click("text=Log out");
  await page.waitForURL((url) => url.pathname === "/login");
  await made.close();
}

// 3. Without JavaScript.
{
  const made = await context({ javaScriptEnabled: false, viewport: { width: 1280, height: 900 } });
  const page = await made.newPage();
  await logIn(page, JANE);
  await page.goto(PAGES.list);
  check((await page.textContent("#list")).includes("demo"), "lists show");
  await page.fill("#filter", "web");
  await page.click("text=Show");
  check((await page.locator("#list tbody tr").count()) === 1, "the server filters");
  await page.goto(PAGES.cluster);
  check((await page.textContent("#findings")).includes("coreDNS"), "what is wrong shows");
  await page.goto(PAGES.new);
  await page.fill("#name", "plain");
  await page.fill("#version", "1.35.4");
  await page.fill("#workers", "1");
  await page.click("button[value=create]");
  await page.waitForURL((url) => url.pathname === `/clusters/${NS}/plain`);
  await page.fill("#scale-plain-workers", "2");
  await page.click("text=Scale");
  await page.waitForURL((url) => url.search === "?done=scaled");
  await page.goto(`/clusters/${NS}/plain`);
  await page.click("text=Pause");
  await page.waitForURL((url) => url.search === "?done=paused");
  await page.click("text=Delete…");
  await page.fill("#confirm", "plain");
  await page.click("button.danger");
  await page.waitForURL((url) => url.search.includes("done=deleted"));
  await page.click("text=Log out");
  await page.waitForURL((url) => url.pathname === "/login");
  await page.screenshot({ path: `${PICTURES}/left.png` });
  await page.goto(PAGES.cluster);
  check(page.url().includes("/login?next="), "who has left sees nothing");
  await made.close();
}

await browser.close();
console.error(wrong.length === 0 ? "all was as it should be" : `${wrong.length} things were wrong`);
process.exit(wrong.length === 0 ? 0 : 1);
