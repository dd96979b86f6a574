// The frame of the page: who is signed in, where one is, and what waits.
import { clean, fill, h, say } from "./dom.js";
import { call, follow, get, list, may, onLeft, remove, session } from "./api.js";

const part = (id) => document.getElementById(id);
const PLACES = [
  ["jobs", "Jobs", "jobs", () => import("./jobs.js")],
  ["approvals", "Approvals", "approve", () => import("./approvals.js")],
  ["fleet", "Fleet", "jobs", () => import("./fleet.js")],
  ["desks", "Desks", "desks", () => import("./desks.js")],
  ["drive", "Drive", "drive", () => import("./drive.js")],
  ["keys", "Keys", "admin", () => import("./keys.js")],
  ["new", "", "jobs", () => import("./new.js")],
];
const QUIET = 400;
const POLL = 3000;

let stop = () => {};
let unfollow = () => {};
let listeners = new Set();
let timer = 0;
let turn = 0;

function navigation(now) {
  fill(part("nav"), PLACES.filter(([, title, power]) => title && may(power)).map(([name, title]) =>
    h("a", { href: `#/${name}`, "aria-current": name === now ? "page" : null }, title,
      name === "approvals" && h("span", { class: "badge", id: "waiting", hidden: true }))));
  count();
}

async function count() {
  if (!may("approve")) {
    return;
  }
  const found = await list("/approvals").catch(() => []);
  const badge = part("waiting");
  if (badge) {
    badge.hidden = !found.length;
    badge.textContent = found.length;
    badge.setAttribute("aria-label", `${found.length} waiting`);
  }
  document.title = `${found.length ? `(${found.length}) ` : ""}${document.title.replace(/^\(\d+\) /, "")}`;
}

// Views load once for all events within QUIET ms; a steady stream of events must not keep them from loading.
function heard(event) {
  timer ||= setTimeout(() => {
    timer = 0;
    count();
    listeners.forEach((each) => each(event));
  }, QUIET);
}

async function show() {
  const mine = ++turn;
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const home = PLACES.find(([, title, power]) => title && may(power)) || PLACES[0];
  const [name = home[0], ...rest] = path.split("/").filter(Boolean).map(decodeURIComponent);
  const found = PLACES.find((each) => each[0] === name) || home;
  stop();
  document.querySelector("dialog")?.close();
  listeners = new Set();
  const ends = [];
  stop = () => ends.forEach((end) => end());
  const { default: view } = await found[3]();
  if (mine !== turn) {
    return;
  }
  const main = h("div", { class: "view" });
  fill(part("main"), main);
  document.title = `${found[1] || "New job"} · hotdesk`;
  navigation(found[0]);
  const here = {
    main,
    rest,
    query: new URLSearchParams(query),
    live: (act) => listeners.add(act),
    // No event tells that a job's process ended: while one is shown as live, load again.
    poll: (alive, load) => {
      const every = setInterval(() => !document.hidden && alive() && load().catch(() => {}), POLL);
      ends.push(() => clearInterval(every));
    },
    onEnd: (act) => ends.push(act),
    title: (text) => (document.title = `${clean(text)} · hotdesk`),
    gone: () => mine !== turn,
  };
  try {
    await view(here);
  } catch (error) {
    if (mine === turn) {
      const gone = error.status === 404;
      fill(main, h("div", { class: "empty", role: "alert" }, h("h1", null, gone ? error.message : "This page could not be loaded"),
        h("p", null, !gone ? error.message : found[1] && h("a", { href: `#/${found[0]}` }, `All ${found[1].toLowerCase()}`))));
    }
  }
  if (mine === turn && document.activeElement === document.body) {
    part("main").focus({ preventScroll: true });
  }
}

function begin(told) {
  Object.assign(session, told);
  part("bar").hidden = false;
  part("who").textContent = clean(told.name);
  unfollow();
  unfollow = follow("/events?after=now", heard);
  show();
}

function ended() {
  unfollow();
  stop();
  turn += 1;
  Object.assign(session, { csrf: "", name: "", powers: [] });
  part("bar").hidden = true;
  document.title = "Sign in · hotdesk";
  const key = h("input", {
    id: "key", type: "password", autocomplete: "current-password", required: true, spellcheck: "false",
    placeholder: "e2b_…", "aria-describedby": "key-hint",
  });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const form = h("form", { class: "signin" }, [
    h("span", { class: "mark large", "aria-hidden": "true" }),
    h("h1", null, "Sign in"),
    h("label", { for: "key" }, "Key"),
    key,
    h("p", { id: "key-hint", class: "hint" }, "The server's operator can create a key with ", h("code", null, "hotdesk key new --name you")),
    wrong,
    h("button", { class: "primary" }, "Sign in"),
  ]);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.textContent = "";
    try {
      begin(await call("POST", "/session", { key: key.value.trim() }));
    } catch (error) {
      wrong.textContent = clean(error.message);
      key.select();
    }
  });
  fill(part("main"), form);
  key.focus();
}

part("leave").addEventListener("click", async () => {
  await remove("/session").catch((error) => say(error.message, true));
  ended();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  part("main").focus();
});
window.addEventListener("hashchange", () => session.csrf && show());
onLeft(ended);
get("/session").then(begin, ended);
