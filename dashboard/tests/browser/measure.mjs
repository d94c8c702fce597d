// What `cargo xtask bench surface` measures in the browser: how soon the list is painted and can be used, with nothing kept
// and a processor a quarter as fast, and how long a change in the API takes until it stands in an open page. It prints
// milliseconds as JSON. One clock has all of it: the machine's, read here and in the page.
import { request as https } from "node:https";
import { chromium } from "playwright-core";

const { ADDRESS, BROWSER, LIST, READER, API, CA, WRITER, NAMESPACE, NAMES } = process.env;
const LOADS = 10;
const CHANGES = 20;
const PATIENCE = 30000;
// A page is read again once a second at most: a change that comes later than that after the last one is what somebody sees.
const PAUSE = 1500;
const told = { paint: [], interactive: [], change: [] };
const names = NAMES.split(",");

const browser = await chromium.launch({
  executablePath: BROWSER,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
const visitor = async () => {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, baseURL: ADDRESS, viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(PATIENCE);
  // Without a page, so that the browser has kept nothing of the dashboard's by then.
  const answer = await context.request.post("/login", { form: { token: READER }, headers: { "sec-fetch-site": "same-origin" }, maxRedirects: 0 });
  if (answer.status() !== 303) throw new Error(`nobody was let in: ${answer.status()}`);
  return context;
};

for (let n = 0; n < LOADS; n += 1) {
  const context = await visitor();
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  await devtools.send("Emulation.setCPUThrottlingRate", { rate: 4 });
  await page.goto(LIST, { waitUntil: "load" });
  const at = await page.evaluate(() => new Promise((done) => {
    const tell = () => {
      const paint = performance.getEntriesByName("first-contentful-paint")[0];
      const [navigation] = performance.getEntriesByType("navigation");
      // Its script runs before that ends.
      if (paint && navigation.domContentLoadedEventEnd) done([paint.startTime, navigation.domContentLoadedEventEnd]);
      else requestAnimationFrame(tell);
    };
    tell();
  }));
  told.paint.push(at[0]);
  told.interactive.push(at[1]);
  await context.close();
}

const set = (name, reason) => new Promise((done, failed) => {
  const condition = { type: "Ready", status: "True", reason, message: "", lastTransitionTime: "2026-11-27T11:00:00Z", observedGeneration: 1 };
  const body = JSON.stringify({ status: { conditions: [condition] } });
  const asked = https(`${API}/apis/covey.dev/v1alpha1/namespaces/${NAMESPACE}/tenantclusters/${name}/status`, {
    method: "PATCH", ca: CA,
    headers: { "Authorization": `Bearer ${WRITER}`, "Content-Type": "application/merge-patch+json", "Content-Length": Buffer.byteLength(body) },
  }, (answer) => {
    answer.resume();
    answer.on("end", () => (answer.statusCode === 200 ? done() : failed(new Error(`the API says ${answer.statusCode}`))));
  });
  asked.on("error", failed);
  asked.end(body);
});
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

{
  const context = await visitor();
  const page = await context.newPage();
  const follows = page.waitForResponse((answer) => new URL(answer.url()).pathname === "/live");
  await page.goto(LIST);
  await follows;
  await page.waitForSelector(`#list a:text-is("${names[0]}")`);
  for (let n = 0; n <= CHANGES; n += 1) {
    await pause(PAUSE + Math.random() * 500);
    const word = `Round${n}`;
    const name = names[n % names.length];
    await page.evaluate(([name, word]) => {
      const is = () => [...document.querySelectorAll("#list tbody tr")].some((row) => row.querySelector("a")?.textContent === name && row.textContent.includes(word));
      window.seen = new Promise((done) => {
        const observer = new MutationObserver(() => { if (is()) { observer.disconnect(); done(Date.now()); } });
        observer.observe(document.body, { childList: true, subtree: true, characterData: true });
      });
    }, [name, word]);
    const begin = Date.now();
    await set(name, word);
    const late = pause(PATIENCE).then(() => { throw new Error(`${name} does not become ${word} in the page`); });
    late.catch(() => {});
    const seen = await Promise.race([page.evaluate(() => window.seen), late]);
    // The first one waits for the page to follow.
    if (n > 0) told.change.push(seen - begin);
  }
  await context.close();
}

await browser.close();
console.log(JSON.stringify(told));
process.exit(0);
