// A new job: from a template with a form, from plain words, or from a brief as it is written for the command line.
import { busy, button, clean, empty, field, fill, h, size, tabs } from "./dom.js";
import { call, get, list, to, upload } from "./api.js";

export default async function view(here) {
  const [templates, models] = await Promise.all([list("/templates").catch(() => []), offered()]);
  const made = tabs("How to start", [
    ["template", "From a template", (panel) => fill(panel, choose(templates, models, here))],
    ["words", "In your words", (panel) => fill(panel, words(models))],
    ["brief", "A written brief", (panel) => fill(panel, written(models))],
  ], here.query.get("as") || (templates.length ? "template" : "words"));
  fill(here.main, h("p", { class: "crumb" }, h("a", { href: "#/jobs" }, "Jobs")), h("div", { class: "top" }, h("h1", null, "New job")), made.node);
  here.onEnd(made.end);
}

function choose(templates, models, here) {
  if (!templates.length) {
    return empty("No templates", "The server's operator can install templates. Until then, describe the task in your words.");
  }
  const place = h("div");
  const open = (each) => fill(place, fillIn(each, models, () => fill(place, cards)));
  const cards = h("ul", { class: "choices" }, templates.map((each) => h("li", null, h("button", {
    type: "button", class: "choice", onclick: () => open(each),
  }, h("strong", null, each.title), h("span", null, each.text)))));
  const asked = templates.find((each) => each.name === here.query.get("template"));
  asked ? open(asked) : fill(place, cards);
  return place;
}

function fillIn(template, models, back) {
  const controls = template.values.map((each) => [each, control(each)]);
  const sent = uploads(template.files.length > 0 || template.uploads);
  const options = choices(modelField(models, template.scripted ? "None: the template has its own script" : "Default of the template or server"), true);
  return job([
    h("h2", null, template.title), h("p", { class: "hint" }, template.text),
    controls.map(([each, made]) => field(each.title || each.name, made, each.text)),
    template.files.length > 0 && h("p", { class: "hint" }, `Required files: ${template.files.map((each) => each.name).join(", ")}`),
    sent.node, options.node,
  ], async () => ({
    template: template.name,
    ...(controls.length ? { values: Object.fromEntries(controls.map(([each, made]) => [each.name, valueOf(each, made)])) } : {}),
    ...(await sent.take()), ...options.take(),
  }), button("Other templates", back, { class: "plain" }));
}

function control(each) {
  const common = { required: each.required !== false && each.default == null };
  if (each.choices) {
    return h("select", null, each.choices.map((one) => h("option", { selected: one === each.default }, one)));
  }
  if (each.kind === "boolean") {
    return h("input", { type: "checkbox", checked: each.default === true });
  }
  if (each.kind === "long") {
    const made = h("textarea", { rows: "4", ...common });
    made.value = each.default ?? "";
    return made;
  }
  const number = each.kind === "number";
  return h("input", { type: number ? "number" : "text", step: number ? "any" : null, value: each.default ?? "", ...common });
}

// What the job is given; nothing for a number that was left empty, so that its default holds.
function valueOf(each, made) {
  return each.kind === "boolean" ? made.checked : made.type !== "number" ? made.value : made.value === "" ? undefined : Number(made.value);
}

function words(models) {
  const goal = h("textarea", { rows: "5", required: true });
  const out = h("input", { type: "text", required: true, placeholder: "Report.xlsx" });
  const hosts = h("textarea", { rows: "3", class: "code", spellcheck: "false", placeholder: "GET https://example.com/*" });
  const sent = uploads(true);
  const model = modelField(models);
  const options = choices();
  return job([
    field("What should be done?", goal, "Describe it as you would to a colleague: what to look at, what to find out, what the result should look like."),
    field("Which file do you want back?", out, "The file is opened and checked before you get it."),
    sent.node,
    field("Which hosts may the job reach?", hosts, "One egress rule per line. Without rules, the job has no network access."),
    model.node, options.node,
  ], async () => {
    const files = await sent.take();
    const toml = asBrief(goal.value, out.value, hosts.value, files.files || []);
    return { brief: toml, ...files, ...model.take(), ...options.take() };
  });
}

const OFFICE = /\.(xlsx?|xlsm|ods|csv|docx?|odt|rtf|pptx?|odp|pdf)$/i;
const SCREEN = /\b(browser|browse|website|web ?page|web ?site|log ?in|sign in|click|screen|screenshot|desktop|window)s?\b/i;

// Which computer the work is done at: one with a screen and a browser, one with an office, or a small one.
export function imageFor(goal, names) {
  return SCREEN.test(goal) ? "desktop" : names.some((each) => OFFICE.test(each)) ? "office" : "base";
}

// A brief as TOML; what JSON writes as a text TOML reads as the same text.
function asBrief(goal, out, hosts, files) {
  const text = (value) => JSON.stringify(value).replace(/\x7f/g, "\\u007f");
  const many = (values) => `[${values.map(text).join(", ")}]`;
  const rules = hosts.split("\n").map((each) => each.trim()).filter(Boolean);
  const lines = [`goal = ${text(goal)}`, `image = ${text(imageFor(goal, [out, ...files.map((each) => each.name)]))}`];
  if (files.length) {
    lines.push(`inputs = ${many(files.map((each) => each.name))}`);
  }
  if (rules.length) {
    lines.push(`egress = ${many(rules)}`);
  }
  return `${lines.join("\n")}\n\n[[deliverables]]\npath = ${text(out)}\n`;
}

function written(models) {
  const text = h("textarea", { rows: "16", class: "code", required: true, spellcheck: "false" });
  const sent = uploads(true);
  const options = choices(modelField(models, "Default of the brief or server"), true);
  return job([field("The brief, in TOML", text, "The same format as for `hotdesk work`. If the brief names files, upload them below."), sent.node, options.node],
    async () => ({ brief: text.value, ...(await sent.take()), ...options.take() }));
}

function job(inside, take, more = null) {
  const begin = h("button", { class: "primary" }, "Start");
  const wrong = h("p", { class: "wrong", role: "alert" });
  const made = h("form", { class: "new" }, inside, wrong, h("div", { class: "row" }, begin, more));
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.textContent = "";
    await busy(begin, async () => {
      const { id } = await call("POST", "/jobs", await take());
      location.hash = `#/jobs/${to(id)}`;
    }, (text) => (wrong.textContent = clean(text)));
  });
  return made;
}

// Files to bring; they are sent when the job is started.
function uploads(shown) {
  const input = h("input", { type: "file", multiple: true });
  const chosen = h("ul", { class: "plainlist", "aria-live": "polite" });
  input.addEventListener("change", () => fill(chosen, [...input.files].map((each) => h("li", null, `${each.name}, ${size(each.size)}`))));
  const take = async () => {
    const files = await upload(input.files);
    return files.length ? { files } : {};
  };
  return { node: shown ? h("div", { class: "drop" }, field("Input files", input), chosen) : null, take };
}

// The models this server lists; none where any of a provider's may be named.
export const offered = () => get("/jobs/models").catch(() => ({ items: [], default: null, providers: [] }));

// A model to choose, or to name; `other` says what an empty choice means, none: one must be chosen.
export function modelField(models, other = "") {
  const listed = models.items.length > 0;
  const input = listed
    ? h("select", null, other && h("option", { value: "" }, other), models.items.map((each) => h("option", { value: each }, each)))
    : h("input", { type: "text", spellcheck: "false", required: !other, placeholder: other || "anthropic:claude-sonnet-5" });
  const hint = listed ? "The models this server offers." : "Such as anthropic:MODEL or openai:MODEL. The operator can offer a list here: `models` under [serve] in the server's settings.";
  return { node: field("Model", input, hint), take: () => (input.value.trim() ? { models: [input.value.trim()] } : {}) };
}

function choices(model = null, many = false) {
  const approve = h("select", null, [
    ["plan", "Ask me before it starts"], ["risky", "Ask me when something is at stake"],
    ["every", "Ask me before every step"], ["auto", "Do not ask"],
  ].map(([value, title]) => h("option", { value }, title)));
  const dollars = h("input", { type: "number", min: "0", step: "any", placeholder: "the server's limit" });
  const minutes = h("input", { type: "number", min: "1", step: "1", placeholder: "the brief's limit" });
  const pilot = h("input", { type: "number", min: "1", max: "1000", step: "1", placeholder: "none" });
  const review = h("input", { type: "number", min: "1", max: "1000", step: "1", placeholder: "none" });
  const node = h("details", null, h("summary", null, "Limits and approval"),
    field("Approval", approve), field("Cost limit in dollars", dollars), field("Time limit in minutes", minutes), model?.node,
    many && [field("Items to finish first", pilot, "Only for a brief with [each]: the swarm finishes this many items, then shows you their results, their cost and a forecast, and asks before it does the rest."),
      field("Results to review", review, "Only for a brief with [each]: this many results, chosen at random, are shown to you beside their sources.")]);
  const take = () => {
    const limits = { ...(dollars.value && { dollars: Number(dollars.value) }), ...(minutes.value && { seconds: Number(minutes.value) * 60 }) };
    const swarm = { ...(pilot.value && { pilot: Number(pilot.value) }), ...(review.value && { review: Number(review.value) }) };
    return { approve: approve.value, ...(Object.keys(swarm).length && { swarm }), ...(Object.keys(limits).length && { limits }), ...model?.take() };
  };
  return { node, take };
}

