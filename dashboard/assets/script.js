// Pages follow changes, forms are looked at while they are filled in, and keys lead through lists.
// Every page is whole without it. It never makes markup of text: what changed is the page itself, read anew as a
// document by the browser.
"use strict";
(() => {
  const find = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const root = document.documentElement;
  root.classList.add("scripted");

  // What was chosen, kept in this browser.
  const kept = (name, box) => {
    if (!box) return () => true;
    box.checked = localStorage.getItem(name) !== "off";
    box.addEventListener("change", () => localStorage.setItem(name, box.checked ? "on" : "off"));
    return () => box.checked;
  };
  const singleKeys = kept("single-keys", find("#single-keys"));
  const goLive = kept("go-live", find("#go-live"));

  // One sentence in five seconds at most, for those who listen.
  let saidAt = 0;
  const say = (text) => {
    if (Date.now() - saidAt < 5000) return;
    saidAt = Date.now();
    find("#said").textContent = text;
  };

  // A page as a document; done(null) where it did not come.
  const read = (method, address, body, done) => {
    const request = new XMLHttpRequest();
    request.open(method, address);
    request.responseType = "document";
    request.timeout = 35000;
    request.setRequestHeader("X-Covey-Live", "1");
    if (body) request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
    request.onload = () => done(request.response, request);
    request.onerror = request.ontimeout = () => done(null, request);
    request.send(body);
  };

  // Takes over from a new page what is otherwise than here. What somebody is typing in stays.
  const isBusy = (element) => {
    const at = document.activeElement;
    const typed = all("input, select, textarea", element).some((one) => one.type !== "hidden" && one.value !== one.defaultValue && one.defaultValue !== undefined);
    return typed || (element.contains(at) && at.matches("input, select, textarea"));
  };
  // How to find the same thing again in a new page.
  const place = (element) => {
    if (!element || element === document.body) return null;
    if (element.id) return "#" + CSS.escape(element.id);
    if (element.href) return "a[href=" + JSON.stringify(element.getAttribute("href")) + "]";
    const form = element.form;
    return form ? "form[action=" + JSON.stringify(form.getAttribute("action")) + "] button" : null;
  };
  const take = (fresh) => {
    let changed = 0;
    for (const old of all("[data-live][id]")) {
      const now = fresh.getElementById(old.id);
      if (!now || now.isEqualNode(old) || isBusy(old)) continue;
      const opened = all("details[open] > summary", old).map((one) => one.textContent);
      const had = old.contains(document.activeElement) ? place(document.activeElement) : null;
      const element = document.importNode(now, true);
      for (const one of all("details > summary", element)) one.parentNode.open = opened.includes(one.textContent);
      old.replaceWith(element);
      if (had) find(had, element)?.focus({ preventScroll: true });
      changed += 1;
    }
    return changed;
  };

  // Follows changes: a stream says that something is otherwise, and the page is read again, once a second at most.
  const stream = document.body.dataset.live;
  const lost = find("#lost");
  let source = null, readAt = 0, waits = null, isReading = false, again = false, asOf = new Date();
  const gone = () => {
    lost.textContent = "Not live: this is as of " + asOf.toLocaleTimeString() + ". Trying again.";
    lost.hidden = false;
  };
  const refresh = () => {
    if (isReading) { again = true; return; }
    if (waits) return;
    waits = setTimeout(() => {
      waits = null; isReading = true; readAt = Date.now();
      read("GET", location.href, null, (fresh, request) => {
        isReading = false;
        if (!fresh || request.status >= 500) { gone(); setTimeout(refresh, 5000); return; }
        if (new URL(request.responseURL).pathname === "/login") { location.assign(request.responseURL); return; }
        if (request.status === 404) { location.reload(); return; }
        asOf = new Date();
        lost.hidden = true;
        if (take(fresh)) { say("The page has changed."); filter(); }
        if (again) { again = false; refresh(); }
      });
    }, Math.max(0, 1000 - (Date.now() - readAt)));
  };
  const follow = () => {
    if (!stream || !goLive() || source) return;
    source = new EventSource(stream);
    source.addEventListener("synced", refresh);
    source.addEventListener("change", refresh);
    source.addEventListener("end", () => { leave(); location.reload(); });
    source.onerror = () => {
      gone();
      // A browser tries again by itself, but not after an answer that is no stream.
      if (source && source.readyState === EventSource.CLOSED) { leave(); setTimeout(follow, 10000); refresh(); }
    };
  };
  const leave = () => { source?.close(); source = null; };
  find("#go-live")?.addEventListener("change", () => { leave(); lost.hidden = true; follow(); });
  addEventListener("pagehide", leave);
  addEventListener("pageshow", follow);

  // The filter of a list hides rows at once; the form asks the server for all of them.
  const word = find("#filter");
  const filter = () => {
    if (!word) return;
    const wanted = word.value.trim().toLowerCase();
    for (const row of all("#list tbody tr")) row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
  };
  word?.addEventListener("input", filter);

  // Forms are looked at by the API while they are filled in; nothing is made.
  const form = find("form[data-check]");
  let checks = null;
  const check = () => {
    clearTimeout(checks);
    checks = setTimeout(() => {
      if (all("[required]", form).some((one) => !one.value.trim())) return;
      const body = new URLSearchParams(new FormData(form));
      body.set("act", "check");
      read("POST", form.getAttribute("action"), body.toString(), (fresh) => {
        if (!fresh || !find("form[data-check]", fresh)) return;
        for (const old of all("[data-answer]", form)) {
          const now = fresh.getElementById(old.id);
          if (now && !now.isEqualNode(old)) old.replaceWith(document.importNode(now, true));
        }
        for (const old of all("[aria-describedby]", form)) {
          const now = fresh.getElementById(old.id);
          if (now?.hasAttribute("aria-invalid")) old.setAttribute("aria-invalid", "true");
          else old.removeAttribute("aria-invalid");
        }
      });
    }, 400);
  };
  form?.addEventListener("change", check);
  // The first field that is wrong is where to go on.
  if (form) find("[aria-invalid]", form)?.focus();

  // Keys
  let before = "";
  const step = (by) => {
    const links = all("#list tbody th a").filter((one) => !one.closest("tr").hidden);
    const at = links.indexOf(document.activeElement);
    links[Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !singleKeys()) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const pair = before + event.key;
    before = event.key === "g" ? "g" : "";
    const acts = {
      "/": () => word?.focus(),
      "j": () => step(1),
      "k": () => step(-1),
      "gc": () => location.assign("/"),
      "?": () => { const keys = find("#keys"); keys.open = !keys.open; find("summary", keys).focus(); },
    };
    const act = acts[pair] ?? acts[event.key];
    if (act) { event.preventDefault(); act(); }
  });
})();
