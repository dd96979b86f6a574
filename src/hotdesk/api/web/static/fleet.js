// Everything that runs, what it costs, what stands out, and one button that ends it all.
import { button, chip, confirm, count, cut, fill, h, keep, money, say } from "./dom.js";
import { get, list, may, newest, post, to } from "./api.js";
import { rows as jobRows } from "./jobs.js";
import { rows as deskRows } from "./desks.js";

export default async function view(here) {
  const place = h("div");
  const stop = async () => {
    if (await confirm("Stop everything?", "Every running job stops after its current act and can be resumed later. Every desk without a job is burnt, with all files in it.", "Stop everything")) {
      const stopped = await post("/fleet/stop");
      say(`Jobs stopping: ${stopped.jobs.length}. Desks burnt: ${stopped.desks.length}.`);
      await load();
    }
  };
  fill(here.main, h("div", { class: "top" }, h("h1", null, "Fleet"), may("admin") && button("Stop everything", stop, { class: "danger" })), place);
  const read = () => Promise.all([get("/fleet"), list("/jobs"), may("desks") ? list("/desks") : []]);
  const load = newest(read, ([fleet, jobs, desks]) =>
    keep(place, { fleet, jobs: jobs.filter((each) => ["running", "waiting"].includes(each.state)), desks, cut: jobs.cut || desks.cut }, draw));
  here.live(load);
  const timer = setInterval(() => load().catch(() => {}), 5000);
  here.onEnd(() => clearInterval(timer));
  await load();
}

function draw({ fleet, jobs, desks, ...more }) {
  const part = (title, found, rows, none) => h("section", { "aria-label": title }, h("h2", null, title), found.length ? rows(found) : h("p", { class: "quiet" }, none));
  const tiles = [
    ["Running jobs", jobs.filter((each) => each.state === "running").length],
    ["Waiting for people", jobs.filter((each) => each.state === "waiting").length],
    ["Open desks", fleet.desks],
    ["Spent on models", money(fleet.spend.dollars)],
    ["Tokens", count(fleet.spend.tokens)],
  ];
  return [
    h("dl", { class: "tiles" }, tiles.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    fleet.outliers.length > 0 && h("section", { "aria-label": "Outliers" }, h("h2", null, "Outliers"),
      h("ul", { class: "rows" }, fleet.outliers.map((each) => h("li", null, h("a", { href: each.job ? `#/jobs/${to(each.job)}` : `#/desks/${to(each.desk || "")}` },
        h("span", { class: "chip", "data-is": "look" }, "unusual"), h("span", { class: "name" }, each.why), h("span", { class: "quiet" }, jobs.find((one) => one.id === each.job)?.task ?? (each.job || each.desk))))))),
    part("Jobs now", jobs, jobRows, ["No job is running or waiting. ", h("a", { href: "#/new" }, "Start one"), "."]),
    part("Desks now", desks, (found) => deskRows(found, jobs), ["No desk is open. ", h("a", { href: "#/desks" }, "Open one"), "."]),
    cut(more),
  ];
}
