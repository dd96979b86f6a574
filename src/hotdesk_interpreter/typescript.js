// A kernel of TypeScript: JavaScript's, with the types taken out of the code before it runs. Types are not checked.
"use strict";
const ts = require("/usr/share/nodejs/typescript");

const OPTIONS = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, preserveValueImports: true };

process.compileCell = (code) => {
  const done = ts.transpileModule(code, { compilerOptions: OPTIONS, reportDiagnostics: true });
  const wrong = (done.diagnostics ?? []).filter((each) => each.category === ts.DiagnosticCategory.Error);
  if (wrong.length) throw new SyntaxError(ts.flattenDiagnosticMessageText(wrong[0].messageText, "\n"));
  return done.outputText.replace(/^export \{\};?\s*$/m, "");
};
require("./node.js");
