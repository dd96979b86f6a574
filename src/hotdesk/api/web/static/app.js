// The frame of the page: who is signed in, where one is, and what waits.
import { clean, fill, h, say } from "./dom.js";
import { get, isSame, list, may, newest, onLeft, remove, session } from "./api.js";
import { askAgain, signIn } from "./signin.js";
import { follow, onLive, resume } from "./stream.js";

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
let shown = "";

function navigation(now) {
  fill(part("nav"), PLACES.filter(([, title, power]) => title && may(power)).map(([name, title]) =>
    h("a", { href: `#/${name}`, "aria-current": name === now ? "page" : null }, title,
      name === "approvals" && h("span", { class: "badge", id: "waiting", hidden: true }))));
  count();
}

const count = newest(() => (may("approve") ? list("/approvals").catch(() => null) : null), (found) => {
  const badge = part("waiting");
  if (badge && found) {
    badge.hidden = !found.length;
    badge.textContent = found.cut ? `${found.length}+` : found.length;
    badge.setAttribute("aria-label", `${badge.textContent} waiting`);
    document.title = `${found.length ? `(${badge.textContent}) ` : ""}${document.title.replace(/^\(\d+\+?\) /, "")}`;
  }
});

// Views load once for all events within QUIET ms; a steady stream of events must not keep them from loading.
function heard(event) {
  timer ||= setTimeout(() => {
    timer = 0;
    count();
    listeners.forEach((each) => Promise.resolve(each(event)).catch(() => {})); // it loads again at the next event
  }, QUIET);
}

async function show() {
  const mine = ++turn;
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const home = PLACES.find(([, title, power]) => title && may(power)) || PLACES[0];
  const [name = home[0], ...rest] = path.split("/").filter(Boolean).map(decodeURIComponent);
  const found = PLACES.find((each) => each[0] === name) || home;
  stop();
  document.querySelectorAll("dialog").forEach((each) => each.close());
  listeners = new Set();
  const ends = [];
  stop = () => ends.splice(0).forEach((end) => end());
  shown = location.hash;
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
    // Calls `act` for events, until the place is left or what this returns is called.
    live: (act) => {
      mine === turn && listeners.add(act);
      return () => listeners.delete(act);
    },
    // No event tells that a job's process ended: while one is shown as live, load again.
    poll: (alive, load) => {
      const every = setInterval(() => !document.hidden && alive() && load().catch(() => {}), POLL);
      here.onEnd(() => clearInterval(every));
    },
    onEnd: (act) => (mine === turn ? ends.push(act) : act()),
    title: (text) => (document.title = `${clean(text)} · hotdesk`),
    gone: () => mine !== turn,
  };
  try {
    await view(here);
  } catch (error) {
    if (mine === turn) {
      const gone = error.status === 404;
      shown = error.status === 401 ? null : shown; // it is loaded after signing in again
      fill(main, h("div", { class: "empty", role: "alert" }, h("h1", null, gone ? error.message : "This page could not be loaded"),
        h("p", null, !gone ? error.message : found[1] && h("a", { href: `#/${found[0]}` }, `All ${found[1].toLowerCase()}`))));
    }
  }
  if (mine === turn && document.activeElement === document.body) {
    part("main").focus({ preventScroll: true });
  }
}

// For a person whose key lacks the permission to read events.
function regularly(act) {
  const every = setInterval(() => document.hidden || act(), POLL);
  return () => clearInterval(every);
}

function begin(told) {
  Object.assign(session, told);
  part("bar").hidden = false;
  part("who").textContent = clean(told.name);
  part("leave").textContent = "Sign out";
  unfollow();
  unfollow = may("jobs") ? follow("/events?after=now", heard, heard) : regularly(heard);
  show();
}

function ended() {
  unfollow();
  stop();
  turn += 1;
  Object.assign(session, { csrf: "", name: "", powers: [] });
  part("bar").hidden = true;
  document.title = "Sign in · hotdesk";
  const form = signIn(begin);
  fill(part("main"), form);
  form.querySelector("input").focus();
}

// The session ended while somebody works: what they typed stays, and they sign in above it.
function lapsed(method) {
  if (part("bar").hidden) {
    return;
  }
  const first = Boolean(session.csrf);
  session.csrf = "";
  part("leave").textContent = "Sign in";
  if (first || method !== "GET") {
    askAgain(goOn);
  }
}

function goOn(told) {
  if (!isSame(told)) {
    return void location.reload();
  }
  Object.assign(session, told);
  part("leave").textContent = "Sign out";
  resume();
  shown === location.hash || show();
}

part("leave").addEventListener("click", async () => {
  if (!session.csrf) {
    return void askAgain(goOn);
  }
  try {
    await remove("/session");
    ended();
  } catch (error) {
    error.status === 401 ? ended() : say(error.message, true);
  }
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  part("main").focus();
});
window.addEventListener("hashchange", () => session.csrf && show());
onLive((live) => (part("live").hidden = live));
onLeft(lapsed);
get("/session").then(begin, ended);
