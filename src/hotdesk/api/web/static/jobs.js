// Every job, and how it stands; one job is in job.js.
import { chip, cut, empty, fill, h, keep, moment, money } from "./dom.js";
import { list, may, newest } from "./api.js";
import job from "./job.js";

const OPEN = new Set(["running", "waiting", "paused", "killed", "starting"]);

export default async function view(here) {
  if (here.rest.length) {
    return job(here);
  }
  const lists = h("div");
  fill(here.main, h("div", { class: "top" }, h("h1", null, "Jobs"),
    may("jobs") && h("a", { class: "button primary", href: "#/new" }, "New job")), lists);
  let found = [];
  const load = newest(() => list("/jobs"), (told) => {
    found = told.sort((a, b) => (b.begun || 0) - (a.begun || 0));
    keep(lists, found, draw);
  });
  here.live(load);
  here.poll(() => found.some((each) => each.live), load);
  await load();
  return null;
}

function draw(found) {
  if (!found.length) {
    return empty("No jobs yet", "A job is a task that is planned, approved, carried out on its own computer, and checked. ",
      h("a", { href: "#/new" }, "Start one"), ".");
  }
  const now = found.filter((each) => OPEN.has(each.state));
  const past = found.filter((each) => !OPEN.has(each.state));
  return [now.length && section("Active", now), past.length && section("Finished", past), cut(found)];
}

const section = (title, found) => h("section", { "aria-label": title }, h("h2", null, title), rows(found));

export const rows = (found) =>
  h("ul", { class: "rows" }, found.map((each) =>
    h("li", null, h("a", { href: `#/jobs/${encodeURIComponent(each.id)}` }, [
      chip(each.state),
      h("span", { class: "name" }, each.task),
      h("span", { class: "quiet" }, place(each)),
      h("span", { class: "quiet number" }, each.cost ? money(each.cost) : ""),
      moment(each.begun),
      each.state === "paused" && each.why && h("span", { class: "why quiet" }, each.why),
    ]))));

const place = (each) => (each.items ? `${each.items.done + each.items.quarantined} of ${each.items.total} items` : each.step ? `step ${each.step} of ${each.of}` : "");
