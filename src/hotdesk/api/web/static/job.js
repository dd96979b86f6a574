// One job: what waits, its plan, what happened, its desk, what left through the door, what it delivered.
import { busy, button, chip, clean, confirm, count, empty, facts, field, fill, h, keep, moment, money, say, size, span, tabs, date } from "./dom.js";
import { find, get, list, may, newest, path, post, remove, to } from "./api.js";
import { show as showCards } from "./approvals.js";
import { last, preview, save } from "./preview.js";
import { timeline } from "./timeline.js";
import { desktop } from "./desktop.js";
import { terminal } from "./terminal.js";
import { files } from "./files.js";
import { modelField, offered } from "./new.js";
import { swarm } from "./swarm.js";

const CHECKING = "checking";
const OVER = new Set(["done", "failed", "broken", "interrupted"]);

export default async function view(here) {
  const [id, wanted] = here.rest;
  const head = h("div");
  const waits = h("div", { class: "cards own" });
  const body = h("div");
  fill(here.main, head, waits, body);
  let job = null;
  let changed = null;
  let shown = null;
  const read = () => Promise.all([find(`/jobs/${to(id)}`, `job ${id}`), may("approve") ? list("/approvals") : []]);
  const load = newest(read, ([told, open]) => {
    if (here.gone()) {
      return;
    }
    job = told;
    here.title(job.task);
    keep(head, brief(job), () => header(job, load));
    showCards(waits, open.filter((each) => each.job === id), load, () => null);
    if (shown && shown.items !== Boolean(job.items)) {
      build(); // its items were listed meanwhile
    }
    changed?.(job);
  });
  here.live(load);
  here.poll(() => job?.live, load);
  await load();
  if (here.gone()) {
    return;
  }
  const follow = (show, end) => {
    changed = show;
    show(job);
    return () => {
      changed = null;
      end?.();
    };
  };
  // The desk that is worked at; while results are checked it has nothing to watch, unless somebody drives it.
  const atDesk = (open, watched = false) => (panel) => {
    let shown, end;
    return follow((now) => {
      const there = OVER.has(now.state) ? [] : now.desks.filter((each) => !each.gone);
      if (end?.driving?.() && there.some((each) => each.id === shown)) {
        return;
      }
      const checked = watched && there.some((each) => each.checking);
      const desk = checked ? CHECKING : there.findLast((each) => !each.checking)?.id;
      if (desk ? desk !== shown : !shown || shown === CHECKING || OVER.has(now.state)) {
        end?.();
        end = desk && !checked ? open(panel, desk) : void fill(panel, checked ? beingChecked() : noDesk(now));
        shown = desk;
      }
    }, () => end?.());
  };
  const items = (panel) => {
    const made = swarm(panel, id, load);
    return follow(made.change, made.end);
  };
  const build = () => {
    const ofSwarm = Boolean(job.items);
    const before = shown;
    before?.end();
    const made = tabs("Job", [
      ...(ofSwarm ? [["items", "Items", items]] : []),
      ["overview", "Overview", (panel) => follow((now) => keep(panel, now, summary))],
      ["timeline", "Timeline", (panel) => timeline(panel, id)],
      ...(ofSwarm ? [] : [
        ["desktop", "Desktop", atDesk(desktop, true)],
        ["terminal", "Terminal", atDesk(terminal)],
        ["files", "Files", atDesk(files)],
      ]),
      ["door", "Door", (panel) => door(panel, id, here)],
    ], before ? "items" : wanted || (ofSwarm ? "items" : "overview"), (name) => history.replaceState(null, "", `#/jobs/${to(id)}${name === "overview" && !ofSwarm ? "" : `/${name}`}`));
    shown = { items: ofSwarm, end: made.end };
    fill(body, made.node);
  };
  here.onEnd(() => shown?.end());
  build();
}

const brief = (job) => [job.state, job.live, job.task, job.by, job.begun, job.ended, job.why];

function header(job, load) {
  const act = (name, words) => async () => {
    await post(`/jobs/${to(job.id)}/${name}`);
    say(words);
    await load();
  };
  const forget = async () => {
    if (await confirm("Delete this job?", "Its stored model replies, tool results and workspace are deleted. Deliverables stay in the drive, and events in the journal.", "Delete")) {
      await remove(`/jobs/${to(job.id)}`);
      location.hash = "#/jobs";
    }
  };
  const acts = !may("jobs") ? [] : OVER.has(job.state)
    ? [button("Report", () => preview({ kind: "report", job: job.id }, "Report")), button("Delete", forget, { class: "plain" })]
    : job.live ? button("Stop", act("stop", "Stopping."), { class: "danger" })
      : button("Resume", act("resume", "Resumed."), { class: "primary" });
  return [
    h("p", { class: "crumb" }, h("a", { href: "#/jobs" }, "Jobs")),
    h("div", { class: "top" }, h("h1", null, job.task), h("div", { class: "row" }, acts)),
    h("p", { class: "row quiet" }, chip(job.state), h("code", null, job.id), job.by && h("span", null, `by ${job.by}`),
      job.begun && h("span", null, "started ", moment(job.begun)),
      job.ended && job.begun && h("span", null, `took ${span(date(job.ended) - date(job.begun))}`)),
    job.state === "paused" && !job.live ? paused(job, load) : job.why && h("p", { class: OVER.has(job.state) && job.state !== "done" ? "wrong" : "quiet" }, job.why),
  ];
}

// Why a job stands still, and what helps: another model or a key for it, other limits, or simply going on.
function paused(job, load) {
  const place = h("div");
  const key = h("input", { type: "password", autocomplete: "off", spellcheck: "false" });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const go = h("button", { class: "primary" }, "Resume with this model");
  const more = h("details", { open: job.needs_model }, h("summary", null, "Use another model, or enter a key"), place);
  const form = async () => {
    const model = modelField(await offered(), "The same model as before");
    const made = h("form", { class: "new" }, model.node,
      field("Key of the model's provider", key, "Only needed if this server has no key of this provider. The key is used until the job stops, and never stored."), wrong, h("div", { class: "row" }, go));
    made.addEventListener("submit", (event) => {
      event.preventDefault();
      wrong.textContent = "";
      busy(go, async () => {
        await post(`/jobs/${to(job.id)}/resume`, { ...model.take(), ...(key.value.trim() && { key: key.value.trim() }) });
        say("Resumed.");
        await load();
      }, (text) => (wrong.textContent = clean(text)));
    });
    fill(place, made);
  };
  may("jobs") && form();
  return h("section", { class: "banner", "aria-label": "Paused" },
    h("p", null, h("strong", null, "Paused. "), job.why || "The job was stopped."),
    h("p", null, job.needs_model ? "Choose another model, or enter a key for this one. Or ask the server's operator to set the key, then resume." : "Resume continues where the job stopped."),
    may("jobs") && more);
}

function summary(job) {
  return [
    h("section", { "aria-label": "Deliverables" }, h("h2", null, "Deliverables"), deliverables(job)),
    h("section", { "aria-label": "Plan" }, h("h2", null, "Plan"), plan(job)),
    h("section", { "aria-label": "Cost" }, h("h2", null, "Cost"), facts([
      ["models", money(job.cost) || "unknown price"],
      ["tokens", count(job.tokens)],
      ["acts", count(job.acts)],
    ])),
    job.receipt && receipt(job.receipt),
  ];
}

function deliverables(job) {
  const found = job.deliverables;
  if (!found.length) {
    return h("p", { class: "quiet" }, OVER.has(job.state) ? "The job delivered no file. The timeline shows why." : "No results yet. A file appears here after it was checked in a second, clean desk.");
  }
  return h("ul", { class: "rows files" }, found.map((each) => h("li", null, h("div", { class: "item" }, [
    chip(each.verdict === "passed" ? "verified" : each.verdict || "unchecked"),
    named(each.path),
    h("span", { class: "quiet number" }, each.size != null && size(each.size)),
    h("span", { class: "row" }, [
      each.name && save(`/drive/${path(each.name)}`, each.path),
      each.name && each.certificate && button("Certificate", () => certificate(each)),
      each.name && button("Preview", () => preview({ kind: "drive", path: each.name }, each.path), { class: "plain" }),
    ]),
    each.findings.length > 0 && h("ul", { class: "findings", "data-is": each.verdict }, each.findings.map((one) => h("li", null, one))),
  ]))));
}

// A file: its own name first, then where it is.
export const named = (name, ...more) => {
  const folder = name.slice(0, -last(name).length);
  return h("span", { class: "name" }, last(name), folder || more.some(Boolean)
    ? h("span", { class: "quiet where" }, folder && h("span", null, `in ${folder}`), more.map((each) => each && h("span", null, each))) : null);
};

export async function certificate(each) {
  const told = await get(`/drive/${path(each.name)}?certificate=1`);
  const { showCertificate } = await import("./certificate.js");
  showCertificate(told, each);
}

function plan(job) {
  const { steps } = job;
  if (!steps.length) {
    return h("p", { class: "quiet" }, job.live ? "The plan is being written." : "The job has no plan yet.");
  }
  return h("ol", { class: "steps" }, steps.map((step) => {
    const words = { begun: "running", "": "pending" }[step.outcome] ?? step.outcome;
    return h("li", { "data-is": step.outcome }, h("div", null, h("strong", null, step.name), " ",
      h("span", { class: "quiet" }, words, step.attempts > 1 && `, attempt ${step.attempts}`)),
    h("p", null, step.intent), step.note && h("p", { class: step.outcome === "failed" ? "wrong" : "quiet" }, step.note));
  }));
}

const receipt = (told) => h("section", { "aria-label": "Receipt" }, h("h2", null, "Receipt"),
  [["destroyed", told.destroyed], ["kept on purpose", told.kept], ["left behind", told.left]].map(([name, lines]) =>
    h("details", { open: name === "left behind" && lines.length > 0 }, h("summary", null, `${lines.length} ${name}`),
      h("ul", { class: "plainlist" }, lines.map((line) => h("li", null, line))))));

const beingChecked = () => empty("The result is being checked", "A second, clean desk opens every file. That desk cannot be watched or used. The result appears under Overview.");

const noDesk = (job) => empty(OVER.has(job.state) ? "The desk is burnt" : "No desk is open", OVER.has(job.state) ? "A desk exists only while its job runs. The timeline shows what happened in it." : "The job opens a desk when it starts working. The timeline shows what the job does now.");

const REQUESTS = 200;

function door(panel, id, here) {
  const place = h("div");
  let most = REQUESTS;
  const older = button("Show older requests", () => {
    most += REQUESTS;
    return load();
  }, { class: "plain", hidden: true });
  fill(panel, h("p", { class: "hint" }, "Every network request of the job's desks, the newest first. The door, a proxy, is a desk's only way to the network."), place, older);
  const load = newest(() => list(`/jobs/${to(id)}/door?newest=true`, most), (found) => {
    keep(place, found, (rows) => doorTable(rows, id, load));
    older.hidden = !found.cut;
  });
  load().catch((error) => say(error.message, true));
  return here.live(load);
}

function doorTable(rows, id, load) {
  if (!rows.length) {
    return empty("No network requests", "Requests of the job's desks appear here, admitted or refused.");
  }
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Door log" }, h("table", null,
    h("thead", null, h("tr", null, ["When", "Verdict", "Request", "Status", "Sent", "Received", ""].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, rows.map((each) => h("tr", null, [
      h("td", null, moment(each.at)),
      h("td", null, chip({ allow: "admitted", deny: "refused", ask: "asked" }[each.verdict] || each.verdict)),
      h("td", { class: "long" }, each.host.length > 40 && h("strong", null, each.domain, " "), h("code", null, `${each.method} ${each.host}${each.path}`), each.reason && h("div", { class: "quiet" }, each.reason)),
      h("td", null, each.status || ""),
      h("td", { class: "number" }, each.up ? size(each.up) : ""),
      h("td", { class: "number" }, each.down ? size(each.down) : ""),
      h("td", null, each.rule_to_allow && may("approve") && allow(each, id, load)),
    ])))));
}

function allow(each, id, load) {
  return button("Allow for this job", async () => {
    await post(`/jobs/${to(id)}/allow`, { rule: each.rule_to_allow });
    say("Allowed for this job only.");
    await load();
  }, { "aria-label": `Allow ${each.host} for this job` });
}
