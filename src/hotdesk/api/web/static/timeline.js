// What happened in a job, as its report tells it and while it happens. Words of workers and desks are set apart.
import { block, button, chip, clean, count, empty, facts, fill, h, moment, span } from "./dom.js";
import { BASE, get, to } from "./api.js";
import { preview } from "./preview.js";
import { follow } from "./stream.js";

const MOST_EVENTS = 2000;
const MOST_ACTS = 30;
const MOST_DRAWN = 500;
const QUIET = 500;
const TONES = { good: "good", bad: "bad", wait: "ask" };

export function timeline(panel, job) {
  const story = h("ol", { class: "timeline", "aria-label": "What happened", "aria-live": "off" });
  const events = h("ol", { class: "timeline events", "aria-label": "Events" });
  const raw = h("section", { hidden: true, "aria-label": "Every event" }, h("h2", null, "All events in the journal"), events);
  const none = empty("Nothing happened yet", "Steps and acts appear here as they happen.");
  const why = h("span");
  const unread = h("div", { class: "banner row", role: "alert", hidden: true },
    h("p", null, h("strong", null, "The timeline could not be read. "), why), button("Try again", () => load()));
  const all = h("input", { type: "checkbox", id: "all" });
  const rows = [];
  const known = new Map();
  let last = 0, busy = false, again = false, over = false;

  all.addEventListener("change", () => {
    raw.hidden = !all.checked;
    story.classList.toggle("all", all.checked);
    fill(events, all.checked ? rows.map(event) : []);
  });
  fill(panel, h("p", { class: "row" }, all, h("label", { for: "all" }, "Show everything")), unread, none, story, raw);
  none.hidden = true;

  function place(number, made) {
    let after = story.lastElementChild;
    while (after && Number(after.dataset.number) > number) {
      after = after.previousElementSibling;
    }
    made.dataset.number = number;
    after ? after.after(made) : story.prepend(made);
  }

  function take(told) {
    none.hidden = Boolean(known.size || told.moments.length || told.steps.length);
    for (const each of told.moments) {
      if (!known.has(each.number)) {
        known.set(each.number, true);
        place(each.number, happened(each));
      }
    }
    for (const each of told.steps) {
      const made = known.get(each.number) || attempt();
      made.show(each);
      if (!known.has(each.number)) {
        known.set(each.number, made);
        place(each.number, made.node);
      }
    }
    for (const each of told.acts) {
      known.get(each.attempt)?.act(each, job);
    }
  }

  // Reads on: once for as many events as come within a moment.
  async function load() {
    again = true;
    if (busy) {
      return;
    }
    busy = true;
    while (again && !over) {
      again = false;
      try {
        let told;
        do {
          told = await get(`/jobs/${to(job)}/story?after=${last}`);
          ({ last } = told);
          over || take(told);
        } while (told.more && !over);
        unread.hidden = true;
      } catch (error) {
        why.textContent = clean(error.message); // it is read again when something happens, or on request
        unread.hidden = false;
      }
      await new Promise((done) => setTimeout(done, QUIET));
    }
    busy = false;
  }

  load();
  const unfollow = follow(`/jobs/${to(job)}/events`, (row) => {
    rows.push(row);
    if (all.checked) {
      events.append(event(row));
    }
    if (rows.length > MOST_EVENTS) {
      rows.shift();
      events.firstChild?.remove();
    }
    load();
  }, load);
  return () => {
    over = true;
    unfollow();
  };
}

const entry = (at, tone, ...inside) => h("li", { "data-is": tone }, moment(at), h("div", null, inside));
const lines = (text, name = "detail") => (text || "").split("\n").map((line) => line && h("p", { class: name }, line));

const happened = (each) => entry(each.at, TONES[each.tone] || "", h("span", { class: "what" }, each.title), lines(each.text),
  each.findings.length > 0 && h("ul", { class: "findings", "data-is": "failed" }, each.findings.map((one) => h("li", null, one))));

const event = (row) => h("li", null, moment(row.at), h("div", null, h("span", { class: "what" }, row.name),
  h("p", { class: "detail" }, h("code", null, JSON.stringify(row.data).slice(0, 2000)))));

// One attempt at a step: its head is drawn again as it goes on, its acts stay as they are opened.
function attempt() {
  const head = h("div");
  const foot = h("div");
  const acts = h("ol", { class: "acts", "aria-label": "Acts" });
  const more = button("", () => acts.classList.add("every"), { class: "link", hidden: true });
  const node = entry(0, "step", head, more, acts, foot);
  const known = new Map();
  const drawn = []; // acts in the page; the first `folded` of them are shown on request, but failed ones always
  let folded = 0, minor = 0, gone = 0;
  const show = (each) => {
    const outcome = each.outcome || (each.ended ? "interrupted" : "running");
    node.dataset.is = each.outcome === "failed" ? "bad" : each.outcome === "done" ? "good" : "step";
    node.replaceChild(moment(each.at), node.firstChild);
    fill(head, h("p", { class: "row" }, h("strong", { class: "what" }, `Step ${each.step}${each.attempt > 1 ? `, attempt ${each.attempt}` : ""}`),
      chip(outcome), each.rolled_back && h("span", { class: "quiet" }, "rolled back"),
      each.ended && h("span", { class: "quiet" }, span((each.ended - each.at) * 1000))), lines(each.what));
    fill(foot, each.note && [h("p", { class: "wrong" }, "Why it failed"), block(each.note, { class: "lines" })],
      each.leaves && quoted("The worker's summary", each.leaves));
  };
  const fold = (made) => {
    made.folded = true;
    made.line.classList.toggle("minor", !made.failed);
    minor += made.failed ? 0 : 1;
  };
  const drop = () => {
    const { number, line, failed } = drawn.shift();
    known.delete(number);
    line.remove();
    minor -= failed ? 0 : 1;
    gone = number;
    folded -= 1;
  };
  const act = (each, job) => {
    if (each.act <= gone) {
      return;
    }
    const line = actLine(each, job);
    const made = known.get(each.act) || { number: each.act };
    const again = made.line;
    again ? again.replaceWith(line) : acts.append(line);
    minor -= made.folded && !made.failed ? 1 : 0;
    Object.assign(made, { line, failed: each.outcome === "failed" });
    if (again) {
      made.folded && fold(made);
    } else {
      known.set(each.act, made);
      drawn.push(made);
    }
    drawn.length > MOST_DRAWN && drop();
    while (folded < drawn.length - MOST_ACTS) {
      fold(drawn[folded]);
      folded += 1;
    }
    more.hidden = !minor;
    more.textContent = `Show earlier acts (${count(minor)})${gone ? `; those up to act ${count(gone)} are only in the journal` : ""}`;
  };
  return { node, show, act };
}

const quoted = (who, words) => h("figure", { class: "words" }, h("figcaption", null, who), h("blockquote", null, lines(words, "")));

// One act in a line: what was used, with what, and what came of it; opened, all of it.
function actLine(each, job) {
  const failed = each.outcome === "failed";
  const inside = h("div");
  const details = h("details", null, h("summary", null,
    h("code", null, each.tool), " ", h("span", { class: "call" }, each.call), " ",
    h("span", { class: failed ? "wrong" : "quiet" }, failed ? "failed" : !each.outcome ? "now" : each.seconds >= 1 && span(each.seconds * 1000))), inside);
  let asked = false;
  details.addEventListener("toggle", async () => {
    if (details.open && !asked) {
      asked = true;
      fill(inside, await get(`/jobs/${to(job)}/acts/${each.act}`).then(whole, (error) => h("p", { class: "wrong" }, error.message)));
    }
  });
  return h("li", { "data-is": each.outcome, id: `act-${each.act}` },
    each.why && h("p", { class: "detail why" }, `“${each.why}”`), details,
    each.result && (failed ? block(each.result, { class: "lines wrong" }) : h("p", { class: "detail result" }, each.result)),
    each.picture && picture(job, each.act));
}

const whole = (act) => [
  facts([["act", act.act], ...act.arguments.map((one) => [one.name, long(one.value)]), ["exit code", act.exit_code]]),
  act.output && [h("p", { class: "hint" }, "Output"), block(act.output, { class: "lines" })],
];
const long = (text) => (text.length > 80 || text.includes("\n") ? block(text, { class: "lines" }) : h("code", null, text));

// What an act saw of the screen, as a picture the server drew; larger in a frame of the other origin.
function picture(job, act) {
  const image = h("img", { src: `${BASE}/jobs/${to(job)}/frames/${act}`, loading: "lazy", alt: `The screen after act ${act}`, width: "240" });
  const made = button(image, () => preview({ kind: "frame", job, frame: act }, `The screen after act ${act}`), { class: "shot" });
  image.addEventListener("error", () => made.remove());
  return made;
}
