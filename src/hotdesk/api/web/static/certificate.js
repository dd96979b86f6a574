// What was seen of a file when it was verified, signed and bound to its bytes.
import { block, chip, date, dialog, facts, h, size } from "./dom.js";

export function showCertificate(told, each) {
  dialog("Certificate", [
    h("p", { class: "row" }, chip(each.verdict === "passed" ? "verified" : each.verdict || "signed"), h("strong", null, told.file.name)),
    facts([
      ["SHA-256", h("code", null, told.file.sha256)],
      ["size", size(told.file.size)],
      ["signed", date(told.at)?.toLocaleString()],
      ["signing key", h("code", null, told.public_key)],
      ["worker", [told.brain.name, ...told.brain.models].filter(Boolean).join(", ")],
      ["approved by", told.plan.approvals.map((one) => `${one.by} (${one.kind}: ${one.answer})`).join(", ")],
    ]),
    told.checks.map((check) => h("section", null, h("h3", null, `Check: ${check.check}`), h("ul", { class: "plainlist" }, [
      check.held.map((line) => h("li", null, line)),
      h("li", { class: "quiet" }, `checked behind the wall ${check.desk.wall}`,
        check.desk.version ? ` (${[check.desk.version, check.desk.platform, `kernel: ${check.desk.kernel}`].filter(Boolean).join(", ")})` : ""),
      Object.entries(check.beside || {}).map(([name, hash]) => h("li", null, `${name}: sha256 ${hash}`)),
      check.not_checked.map((line) => h("li", { class: "quiet" }, `not checked: ${line}`)),
    ]))),
    h("p", { class: "hint" }, "A certificate proves what was checked and that this is the checked file. Verify it offline with ",
      h("code", null, "hotdesk verify"), "."),
    h("details", null, h("summary", null, "Full certificate"), block(JSON.stringify(told, null, 2), { class: "lines" })),
  ], true);
}
