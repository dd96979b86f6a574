// What outlives desks: files under names, with their certificates.
import { busy, button, chip, confirm, cut, empty, field, fill, h, keep, moment, say, size } from "./dom.js";
import { list, newest, path, put, remove, to } from "./api.js";
import { certificate, named } from "./job.js";
import { preview, save } from "./preview.js";

export default async function view(here) {
  const place = h("div");
  const upload = h("input", { type: "file", multiple: true });
  const load = newest(() => list("/drive"), (told) => keep(place, told, (found) => draw(found, load)));
  upload.addEventListener("change", () => busy(upload, async () => {
    try {
      for (const each of upload.files) {
        await put(`/drive/${path(each.name)}`, each);
      }
      say("Stored.");
    } finally {
      upload.value = "";
      await load();
    }
  }));
  fill(here.main, h("div", { class: "top" }, h("h1", null, "Drive"), field("Upload a file", upload)), place);
  here.live(load);
  await load();
}

function draw(found, load) {
  if (!found.length) {
    return empty("The drive is empty", "Files that jobs deliver are stored here after their checks. You can also upload a file.");
  }
  return [cut(found), h("ul", { class: "rows files" }, found.map((each) => {
    const { name } = each;
    return h("li", null, h("div", { class: "item" }, [
      chip(each.certificate ? "verified" : each.checks.length ? "checked" : "unchecked"),
      named(each.job && name.startsWith(`${each.job}/`) ? name.slice(each.job.length + 1) : name,
        each.job && ["from job ", h("a", { href: `#/jobs/${to(each.job)}` }, each.job)],
        name.startsWith("memory/") && "stored by a worker for later jobs; not checked",
        !each.certificate && each.checks.length > 0 && `checked by ${each.checks.join(", ")}`),
      h("span", { class: "quiet number" }, size(each.size)),
      moment(each.at),
      h("span", { class: "row" }, [
        save(`/drive/${path(name)}`, name),
        each.certificate && button("Certificate", () => certificate({ verdict: "passed", ...each, path: name })),
        button("Preview", () => preview({ kind: "drive", path: name }, name), { class: "plain" }),
        button("Remove", async () => {
          if (await confirm("Remove this from the drive?", `${name} will be deleted. The journal records the deletion.`, "Remove")) {
            await remove(`/drive/${path(name)}`);
            await load();
          }
        }, { class: "plain" }),
      ]),
    ]));
  }))];
}
