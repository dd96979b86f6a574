// Desks that are open now, and one of them.
import { button, chip, confirm, cut, empty, facts, fill, form, h, keep, moment, say, size, tabs } from "./dom.js";
import { find, get, list, may, newest, post, remove, to } from "./api.js";
import { desktop } from "./desktop.js";
import { terminal } from "./terminal.js";
import { files } from "./files.js";

export default async function view(here) {
  return here.rest.length ? one(here) : all(here);
}

async function all(here) {
  const place = h("div");
  const image = h("select", { id: "image" }, ["base", "desktop", "office"].map((each) => h("option", null, each)));
  const open = async () => {
    const desk = await post("/desks", { image: image.value });
    location.hash = `#/desks/${to(desk.id)}`;
  };
  const order = form("row", open, h("label", { for: "image" }, "Image"), image, h("button", { class: "primary" }, "Open a desk"));
  fill(here.main, h("div", { class: "top" }, h("h1", null, "Desks"), may("desks") && order), place);
  const read = () => Promise.all([list("/desks"), may("jobs") ? list("/jobs") : []]);
  const load = newest(read, (told) => keep(place, told, ([found, jobs]) => (found.length ? [rows(found, jobs), cut(found)]
    : empty("No desks are open", "A desk is a disposable computer. Open one above, or start a job, which opens its own."))));
  here.live(load);
  const timer = setInterval(() => load().catch(() => {}), 5000);
  here.onEnd(() => clearInterval(timer));
  await load();
}

export const rows = (found, jobs = []) => h("ul", { class: "rows" }, found.map((each) =>
  h("li", null, h("a", { href: `#/desks/${to(each.id)}` }, [
    chip(each.state),
    h("code", { class: "name" }, each.id),
    h("span", { class: "quiet" }, `${each.image}, ${each.wall}`),
    h("span", { class: "quiet" }, each.job ? `job: ${jobs.find((one) => one.id === each.job)?.task ?? each.job}` : ""),
    moment(each.opened),
  ]))));

// The wall the desk's keeper proved, with the program that put it up and whose kernel answers.
const KERNELS = { host: "the host's kernel", sentry: "its own kernel in user space", own: "its own kernel" };
const wall = (desk) => `${desk.wall} (${[desk.wall_version, desk.platform, KERNELS[desk.kernel]].filter(Boolean).join(", ")})`;

async function one(here) {
  const [id, chosen = "screen"] = here.rest;
  const desk = await find(`/desks/${to(id)}`, `desk ${id}`);
  if (here.gone()) {
    return;
  }
  here.title(`Desk ${id}`);
  const usage = h("div");
  const body = h("div");
  const burn = async () => {
    if (await confirm("Burn this desk?", "The desk and everything in it are destroyed now.", "Burn")) {
      await remove(`/desks/${to(id)}`);
      location.hash = "#/desks";
    }
  };
  let paused = desk.state === "paused";
  const act = () => (paused ? "Resume" : "Pause");
  const pause = async () => {
    await post(`/desks/${to(id)}/${act().toLowerCase()}`);
    paused = !paused;
    hold.textContent = act();
    say(paused ? "Paused." : "Resumed.");
  };
  const hold = button(act(), pause, { class: "plain" });
  fill(here.main, h("p", { class: "crumb" }, h("a", { href: "#/desks" }, "Desks")),
    h("div", { class: "top" }, h("h1", null, "Desk ", h("code", null, id)),
      may("desks") && h("div", { class: "row" }, hold, button("Burn", burn, { class: "danger" }))),
    usage, body);
  const look = async () => {
    const told = await get(`/desks/${to(id)}/usage`).catch(() => null);
    keep(usage, told, () => facts([
      ["image", desk.image],
      ["wall", wall(desk)],
      ["node", desk.node],
      ["CPU time", told ? `${Number(told.cpu).toFixed(1)} s` : ""],
      ["memory", told ? size(told.memory) : ""],
      ["disk", told ? size(told.disk) : ""],
    ]));
  };
  const parts = [
    ["screen", "Desktop", (panel) => desktop(panel, id)],
    ["terminal", "Terminal", (panel) => terminal(panel, id)],
    ["files", "Files", (panel) => files(panel, id)],
  ].filter(([name]) => name !== "screen" || desk.screen !== false);
  const made = tabs("Desk", parts, chosen, (name) => history.replaceState(null, "", `#/desks/${to(id)}/${name}`));
  fill(body, made.node);
  const timer = setInterval(look, 5000);
  here.onEnd(() => {
    clearInterval(timer);
    made.end();
  });
  await look();
}

