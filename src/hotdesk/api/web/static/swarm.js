// A swarm: how far it is, a map of all its items, failures by cause, and the evidence of each item.
import { block, busy, button, chip, count, dialog, empty, facts, field, fill, h, keep, money, say, size, span } from "./dom.js";
import { BASE, get, may, path, post, to, upload } from "./api.js";
import { preview, save } from "./preview.js";

const PAGE = 1000;
const WORDS = { done: "passed", quarantined: "in quarantine", wrong: "found wrong by a person", "": "not finished" };

// The panel of a swarm; returns what ends it. It is redrawn when the job changes.
export function swarm(panel, id, load) {
  const top = h("div");
  const groups = h("div");
  const drawn = map(id);
  const more = adding(id, load);
  fill(panel, top, h("section", { "aria-label": "Items" }, h("h2", null, "Items"), drawn.node), groups, more);
  let now = null, busy = false, again = false, over = false;
  const read = async (job) => {
    const progress = await get(`/jobs/${to(id)}/swarm`).catch((error) => {
      if (error.status !== 404) {
        throw error;
      }
      return null;
    });
    if (over) {
      return;
    }
    if (!progress) {
      return void fill(top, empty("The items are being listed", "The map of all items appears here when the swarm starts."));
    }
    keep(top, [progress, job.state, job.live], () => head(progress, job, load));
    more.hidden = !may("jobs") || !(job.live || ["done", "paused"].includes(job.state));
    keep(groups, progress.failures, (found) => failures(id, found));
    await drawn.read(progress.items, () => over);
  };
  // One reading at a time: events of a large swarm come faster than it is read.
  const change = async (job) => {
    now = job;
    again = true;
    if (busy) {
      return;
    }
    busy = true;
    while (again && !over) {
      again = false;
      await read(now).catch((error) => over || say(error.message, true));
    }
    busy = false;
  };
  const end = () => {
    over = true;
  };
  return { change, end };
}

function head(progress, job, load) {
  const ended = progress.done + progress.quarantined;
  const tiles = [
    ["Passed", `${count(progress.done)} of ${count(progress.items)}`],
    ["In quarantine", count(progress.quarantined)],
    ["Items per second", progress.rate ? progress.rate.toFixed(1) : "–"],
    ["Time left", progress.seconds_to_go == null ? "–" : span(progress.seconds_to_go * 1000)],
    ["Cost", progress.dollars ? `${money(progress.dollars)} of about ${money(progress.dollars_expected)}` : "$0"],
  ];
  const again = (quarantine, words) => async () => {
    await post(`/jobs/${to(job.id)}/resume`, { quarantine });
    say(words);
    await load();
  };
  const stands = !job.live && ["done", "paused"].includes(job.state) && progress.quarantined > 0 && may("jobs");
  return [
    h("dl", { class: "tiles" }, tiles.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    h("progress", { max: String(progress.items), value: String(ended), "aria-label": `${ended} of ${progress.items} items ended` }),
    progress.pilot && h("p", { class: "hint" }, `Forecast from the pilot, for all items: ${span(progress.pilot.seconds * 1000)}, ${money(progress.pilot.dollars)}, ${count(progress.pilot.tokens)} tokens.`),
    progress.reviewed > 0 && h("p", { class: "hint" }, `Results reviewed by people: ${count(progress.reviewed)}, found wrong: ${count(progress.wrong)}.`),
    stands && h("p", { class: "row" },
      button("Retry items in quarantine", again("retry", "The swarm retries these items.")),
      job.state === "paused" && button("Build the report without these items", again("accept", "The swarm builds the report."))),
    report(progress, job),
  ];
}

// More items for a swarm: they are taken by the same plan, and the report is rebuilt.
function adding(id, load) {
  const input = h("input", { type: "file", multiple: true });
  const add = h("button", { class: "primary" }, "Add");
  const made = h("form", { class: "new" }, field("Files", input, "Files for new items; their names must match the brief's pattern for items (`over` in [each]). If the items are rows or lines of one file, upload that file again with the new ones added."), add);
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(add, async () => {
      await post(`/jobs/${to(id)}/items`, { files: await upload(input.files) });
      say("The items were added.");
      made.reset();
      await load();
    });
  });
  return h("details", null, h("summary", null, "Add items"), made);
}

function report(progress, job) {
  if (!progress.report.length) {
    return progress.report_job ? h("p", { class: "hint" }, "The report is being built by ", h("a", { href: `#/jobs/${to(progress.report_job)}` }, "a separate job"), ".") : null;
  }
  const proofs = job.deliverables.filter((each) => each.name);
  const row = (name, address, verified) => h("li", null, h("div", { class: "item" }, chip(verified ? "verified" : "signed"), h("span", { class: "name" }, name),
    h("span", { class: "row" }, save(`/drive/${path(address)}`, name), button("Preview", () => preview({ kind: "drive", path: address }, name), { class: "plain" }))));
  return h("section", { "aria-label": "Report" }, h("h2", null, "Report"),
    h("ul", { class: "rows files" }, progress.report.map((each) => row(each.path, each.name, true))),
    proofs.length > 0 && h("details", null, h("summary", null, "Records, results and the certificate of all items"),
      h("ul", { class: "rows files" }, proofs.map((each) => row(each.path, each.name, false)))));
}

// The map: a square for each item, coloured by how it ended. One button at a time can be tabbed to; arrow keys move.
function map(id) {
  const squares = [];
  const names = [];
  let last = 0;
  const place = h("div", { class: "itemmap", role: "group", "aria-label": "Map of all items" });
  const chosen = h("p", { class: "hint", "aria-live": "polite" }, "Choose an item to see its evidence.");
  const label = (at, state, cause) => `${names[at] || `item ${at + 1}`}: ${WORDS[state] ?? state}${cause ? `, ${cause}` : ""}`;
  const grow = (total) => {
    const more = document.createDocumentFragment();
    while (squares.length < total) {
      const at = squares.length;
      const made = h("button", { type: "button", "data-is": "", "data-at": String(at), tabindex: at ? "-1" : "0", "aria-label": label(at, "", "") });
      squares.push(made);
      more.append(made);
    }
    place.append(more);
  };
  const focus = (at) => {
    const next = squares[Math.max(0, Math.min(squares.length - 1, at))];
    squares.forEach((each) => each.tabIndex === 0 && (each.tabIndex = -1));
    next.tabIndex = 0;
    next.focus();
  };
  const tell = (event) => event.target.dataset.at !== undefined && (chosen.textContent = event.target.getAttribute("aria-label"));
  place.addEventListener("mouseover", tell);
  place.addEventListener("focusin", tell);
  place.addEventListener("click", (event) => {
    const at = event.target.dataset.at;
    if (at !== undefined && names[at]) {
      evidence(id, names[at]);
    }
  });
  place.addEventListener("keydown", (event) => {
    const line = Math.max(1, Math.floor(place.clientWidth / 15));
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: line, ArrowUp: -line }[event.key];
    if (step && event.target.dataset.at !== undefined) {
      event.preventDefault();
      focus(Number(event.target.dataset.at) + step);
    }
  });
  const take = (each) => {
    const made = squares[each.index];
    if (made) {
      names[each.index] = each.item;
      made.dataset.is = each.state;
      made.setAttribute("aria-label", label(each.index, each.state, each.cause));
    }
  };
  const read = async (total, over) => {
    grow(total);
    let page;
    do {
      page = await get(`/jobs/${to(id)}/items?after=${last}&limit=${PAGE}`);
      page.items.forEach(take);
      last = page.last;
    } while (page.more && !over());
  };
  const legend = h("p", { class: "legend quiet" }, Object.entries(WORDS).map(([state, words]) =>
    h("span", null, h("i", { "data-is": state, "aria-hidden": "true" }), words)));
  return { node: [legend, place, chosen], read };
}

function failures(id, found) {
  if (!found.length) {
    return null;
  }
  return h("section", { "aria-label": "In quarantine, by cause" }, h("h2", null, "In quarantine, by cause"), h("ul", { class: "rows" }, found.map((each) =>
    h("li", null, h("div", { class: "item" }, chip(each.cause || "unknown"), h("span", { class: "name" }, each.why), h("span", { class: "quiet number" }, `${count(each.count)} ${each.count === 1 ? "item" : "items"}`),
      h("span", { class: "row examples" }, each.examples.map((name) => button(name, () => evidence(id, name), { class: "link" }))))))));
}

// All that is known of an item: how it ended, what its checks found, what it made, what was done at its desk.
async function evidence(id, name) {
  const record = await get(`/jobs/${to(id)}/items/${to(name)}`).catch((error) => say(error.message, true));
  if (!record) {
    return;
  }
  dialog(`Item ${record.item}`, [
    h("p", { class: "row" }, chip(record.outcome === "done" ? "verified" : "failed"), h("strong", null, record.why || "Every check passed.")),
    facts([
      ["source", h("code", null, `sha256 ${record.input}`)],
      ["processed at", record.desk ? `desk ${record.desk}, ${record.seconds.toFixed(1)} s, ${record.acts} acts` : "no desk"],
      ["checked in", record.clean_desk && `clean desk ${record.clean_desk}`],
      ["checks passed", record.checks.join(", ")],
      ["models", record.tokens ? `${count(record.tokens)} tokens, ${money(record.dollars)}` : ""],
      ["review", record.review],
    ]),
    record.files.map((each, at) => h("section", { "aria-label": each.path }, h("h3", null, each.path), h("p", { class: "row" },
      h("span", { class: "quiet" }, size(each.size)), h("code", null, `sha256 ${each.sha256.slice(0, 16)}…`), h("a", {
        class: "button", href: `${BASE}/jobs/${to(id)}/items/${to(record.item)}/files/${at}`, download: each.path.split("/").pop(), rel: "noopener",
      }, "Download")), each.text && block(each.text, { class: "lines", "aria-label": `Text of ${each.path}` }))),
    record.verdicts.length > 0 && h("section", { "aria-label": "Checks" }, h("h3", null, "Checks"), h("ul", { class: "plainlist" }, record.verdicts.map((each) =>
      h("li", null, chip(each.passed ? "done" : "failed"), ` ${each.check} on ${each.path}`, each.findings.length > 0 && h("ul", null, each.findings.map((one) => h("li", null, one))))))),
    record.attempts.map((each) => h("details", { open: record.outcome !== "done" }, h("summary", null, `Attempt ${each.attempt}, ${each.desk ? `desk ${each.desk}` : "no desk was opened"}`),
      each.failure && h("p", { class: "wrong" }, each.failure),
      h("ol", { class: "entries" }, each.entries.map((one) => h("li", { "data-is": one.ok ? "done" : "failed" }, one.tool ? [h("strong", null, one.tool), " ", h("code", null, one.call)] : h("span", { class: "quiet" }, "The worker says: "), one.text && block(one.text, { class: "lines" })))),
      each.omitted > 0 && h("p", { class: "hint" }, `Entries not shown: ${count(each.omitted)}.`))),
    h("p", { class: "hint" }, "What the worker says and what its tools returned is shown as it was recorded; hotdesk did not check it."),
  ], true);
}
