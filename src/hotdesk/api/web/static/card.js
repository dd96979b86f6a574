// What waits for a person: facts worked out by the server first, the worker's words last and marked as such.
import { block, button, date, facts, field, form, h, say, span } from "./dom.js";
import { may, post, to } from "./api.js";

const KINDS = {
  plan: "Plan", step: "Step", amendment: "Change of plan", repeat: "Repeat", question: "Question", door: "Network access",
  pilot: "Pilot", cohort: "Request from many items", review: "Review",
};

const SECOND = 1000;
const AGAIN = 5000;

export function card(asked, settled = () => {}) {
  const told = asked.card || {};
  const decide = async (answer, more = {}) => {
    await post(`/approvals/${to(asked.id)}`, { answer, digest: asked.digest, ...more });
    say({ approve: "Approved.", edit: "Approved as edited.", refuse: "Refused.", answer: "Answered." }[answer]);
    await settled();
  };
  const title = h("h3", { id: `card-${asked.id}` }, told.title || KINDS[asked.kind] || "Request");
  const words = told.words || told.reason;
  const acts = h("div", { class: "acts" });
  const made = h("article", { class: "card", "aria-labelledby": title.id, "data-kind": asked.kind, "data-id": asked.id }, [
    h("header", null, h("span", { class: "kind" }, KINDS[asked.kind] || asked.kind), title, left(asked, settled)),
    asked.job && h("p", { class: "quiet job" }, "Job ", h("a", { href: `#/jobs/${to(asked.job)}` }, asked.task || asked.job),
      asked.by && `, requested by ${asked.by}`),
    !asked.job && asked.desk && h("p", { class: "quiet" }, "Desk ", h("a", { href: `#/desks/${to(asked.desk)}` }, asked.desk)),
    told.steps?.length ? plan(asked.kind, told) : [shownFacts(told), told.lines?.length > 0 && listed(told.lines)],
    words && h("figure", { class: "words" },
      h("figcaption", null, asked.kind === "door" ? "The desk says" : "The worker says"), h("blockquote", null, words)),
    acts,
    asked.digest && h("p", { class: "quiet digest" }, "Digest of the text you decide on: ", h("code", null, asked.digest.slice(0, 16))),
  ]);
  acts.append(...(may("approve") ? choices(asked, decide, acts) : [h("p", { class: "quiet" }, "Your key lacks the permission 'approve'. Ask a person who has it to decide.")]));
  return made;
}

const listed = (lines) => h("ul", { class: "plainlist", "aria-label": "Details" }, lines.map((line) => h("li", null, line)));

const shownFacts = (told, leave = []) => facts(Object.entries(told.facts || {})
  .filter(([name]) => !name.startsWith("digest") && name !== "brief" && !leave.includes(name))
  .map(([name, value]) => [name === "preflight" ? "requirements" : name, value]));

// A plan: what is at stake first, then its steps in sentences; the exact plan on request.
const plan = (kind, told) => [
  h("section", { class: "stakes", "aria-label": "What is at stake", "data-is": told.stakes.length ? "some" : "none" },
    h("h4", null, "What is at stake"), told.stakes.length
      ? h("ul", null, told.stakes.map((each) => h("li", null, each)))
      : h("p", null, kind === "amendment" ? "Nothing beyond the current plan." : "Nothing: the plan only reads, and uses no secret.")),
  kind === "amendment" && listed(told.lines),
  h("section", { "aria-label": "Steps" }, h("h4", null, kind === "plan" ? `What the plan does, in ${told.steps.length === 1 ? "one step" : `${told.steps.length} steps`}` : "The step"),
    h("ol", { class: "planned" }, told.steps.map((step) => h("li", null, h("strong", null, step.name),
      h("ul", null, step.points.map((each) => h("li", null, each))))))),
  shownFacts(told, ["steps", "at stake"]),
  h("details", null, h("summary", null, "The exact plan"), block(told.lines.join("\n"), { class: "lines", "aria-label": "The exact plan" })),
];

// How long there is to decide; afterwards what waits is read again.
function left(asked, settled) {
  const until = date(asked.until);
  if (!until) {
    return null;
  }
  const shown = h("span", { class: "quiet" });
  let placed = false;
  let next = until.getTime();
  const tick = () => {
    const now = Date.now();
    shown.textContent = now < until ? `${span(until - now)} left` : "expired";
    placed ||= shown.isConnected;
    if (placed && !shown.isConnected) {
      clearInterval(timer);
    } else if (now >= next) {
      next = now + AGAIN;
      Promise.resolve(settled()).catch(() => {});
    }
  };
  const timer = setInterval(tick, SECOND);
  tick();
  return shown;
}

function choices(asked, decide, acts) {
  if (asked.kind === "question") {
    const words = h("textarea", { rows: "3", required: true });
    return [
      form("wide", () => decide("answer", { words: words.value }), field("Your answer", words), h("div", { class: "row" }, h("button", { class: "primary" }, "Send answer"), refusal(decide, acts))),
    ];
  }
  return [
    button("Approve", () => decide("approve"), { class: "primary" }),
    asked.plan_text && button("Edit", () => edit(asked, decide, acts)),
    refusal(decide, acts),
  ].filter(Boolean);
}

const before = new WeakMap();

// Shows a form in the place of the buttons, until `back` shows these again, with what was typed.
function instead(acts, form) {
  before.set(form, [...acts.children]);
  acts.replaceChildren(form);
}

const back = (acts) => button("Back", () => {
  acts.replaceChildren(...before.get(acts.firstElementChild));
  acts.querySelector("textarea, input, button").focus();
}, { class: "plain" });

const refusal = (decide, acts) =>
  button("Refuse", () => {
    const words = h("input", { type: "text", maxlength: "1000" });
    instead(acts, form("wide", () => decide("refuse", words.value ? { words: words.value } : {}), field("Reason (passed on to the worker)", words),
      h("div", { class: "row" }, h("button", { class: "danger" }, "Refuse"), back(acts))));
    words.focus();
  });

function edit(asked, decide, acts) {
  const text = h("textarea", { rows: "18", spellcheck: "false", class: "code" });
  text.value = asked.plan_text;
  instead(acts, form("wide", () => decide("edit", { plan: text.value }), field("The plan", text, "A step may use only the hosts and secrets that it lists."),
  h("div", { class: "row" }, h("button", { class: "primary" }, "Approve as edited"), refusal(decide, acts), back(acts))));
  text.focus();
}
