// What happened in a job, as it happens. Events are facts of ours; words of workers and desks are set apart.
import { button, empty, fill, h, moment, money } from "./dom.js";
import { BASE, follow, to } from "./api.js";
import { preview } from "./preview.js";

const MOST = 2000;
const QUIET = new Set(["Checkpointed", "Observed", "Summed", "Thought"]);

const TELL = {
  JobBegun: (e) => ["Job begun", e.goal],
  Planned: (e) => ["Planned", e.steps.join(" → "), e.findings.length ? "bad" : ""],
  Preflight: (e) => [`Tried beforehand: ${e.held.length} held, ${e.failed.length} failed`, e.failed.join("\n"), e.failed.length ? "bad" : ""],
  Pending: (e) => [`Waits for a person: ${e.kind}`, e.step, "ask"],
  Decided: (e) => [`${e.answer}${e.by ? ` by ${e.by}` : ""}`, "", e.answer === "refused" ? "bad" : "good"],
  StepBegun: (e) => [`Step ${e.step}${e.attempt > 1 ? `, attempt ${e.attempt}` : ""}`, e.what, "step"],
  Thought: (e) => [`${e.model} thought`, `${e.input + (e.cached || 0)} tokens in, ${e.output} out${e.dollars >= 0 ? `, ${money(e.dollars)}` : ""}`],
  Acted: (e) => [`Act ${e.act}: ${e.tool}`, e.detail || ""],
  Observed: (e) => [`Act ${e.act}: ${e.outcome}`, e.detail || "", e.outcome === "failed" ? "bad" : ""],
  RolledBack: (e) => [`Rolled back ${e.step}`, e.why, "bad"],
  Summed: (e) => [`Step ${e.step} summed up`, ""],
  Amended: (e) => ["The plan changed", e.steps.join(" → "), "ask"],
  JobPaused: (e) => ["Paused", e.why, "ask"],
  Resumed: (e) => [`Resumed by ${e.by}`, ""],
  StepEnded: (e) => [`Step ${e.step} ${e.outcome}`, e.note, e.outcome === "failed" ? "bad" : "good"],
  Verified: (e) => [`Checked ${e.path}: ${e.outcome}`, e.findings.join("\n"), e.outcome === "failed" ? "bad" : "good"],
  SentBack: (e) => [`${e.path} was sent back`, "", "bad"],
  Certified: (e) => [`Certificate signed for ${e.path}`, "", "good"],
  Kept: (e) => [`Kept ${e.path}`, "", "good"],
  JobEnded: (e) => [`Job ${e.outcome}`, e.why, e.outcome === "done" ? "good" : "bad"],
  JobBurnt: (e) => [`Burnt: ${e.destroyed.length} destroyed, ${e.left.length} left`, e.left.join("\n")],
};

export function timeline(panel, job) {
  const items = h("ol", { class: "timeline", "aria-label": "What happened", "aria-live": "off" });
  const all = h("input", { type: "checkbox", id: "all" });
  const none = empty("Nothing happened yet", "It will stand here as it does.");
  all.addEventListener("change", () => items.classList.toggle("all", all.checked));
  fill(panel, h("p", { class: "row" }, all, h("label", { for: "all" }, "Show everything")), none, items);
  const drawn = new Map();
  return follow(`/jobs/${to(job)}/events`, (row) => {
    none.remove();
    const made = entry(row);
    items.append(made);
    if (row.frame) {
      drawn.set(row.frame, made);
    } else if (row.name === "Observed" && drawn.has(row.data.act)) {
      drawn.get(row.data.act).lastChild.append(picture(job, row.data.act));
    }
    if (items.children.length > MOST) {
      items.firstChild.remove();
    }
  });
}

function entry(row) {
  const { name, data } = row;
  const [title, words, tone = ""] = (TELL[name] || ((e) => [name, e.note || e.why || ""]))(data);
  return h("li", { "data-is": tone, class: !TELL[name] || (QUIET.has(name) && tone !== "bad") ? "minor" : "" }, moment(row.at),
    h("div", null, h("span", { class: "what" }, title), (words || "").split("\n").map((line) => line && h("p", { class: "detail" }, line))));
}

// What an act saw of the screen, as a picture the server drew; larger in a frame of the other origin.
function picture(job, act) {
  const image = h("img", { src: `${BASE}/jobs/${to(job)}/frames/${act}`, loading: "lazy", alt: `The screen after act ${act}`, width: "240" });
  const made = button(image, () => preview({ kind: "frame", job, frame: act }, `The screen after act ${act}`), { class: "shot" });
  image.addEventListener("error", () => made.remove());
  return made;
}
