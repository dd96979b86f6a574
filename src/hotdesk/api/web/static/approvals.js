// Everything that waits for a person, the most urgent first.
import { cut, empty, fill, h } from "./dom.js";
import { list, newest } from "./api.js";
import { card } from "./card.js";

export default async function view(here) {
  const place = h("div", { class: "cards" });
  const rest = h("div");
  fill(here.main, h("div", { class: "top" }, h("h1", null, "Approvals")), place, rest);
  const load = newest(() => list("/approvals"), (found) => {
    show(place, found, load);
    fill(rest, cut(found));
  });
  here.live(load);
  await load();
}

// Cards that are still open stay as they are, with what was typed into them.
export function show(place, found, again, none = () => empty("No pending approvals", "When a job needs a decision, it appears here. Meanwhile, see ", h("a", { href: "#/jobs" }, "all jobs"), ".")) {
  const known = new Map([...place.querySelectorAll(":scope > .card")].map((each) => [each.dataset.id, each]));
  const cards = found.map((each) => known.get(each.id) || card(each, again));
  const now = [...place.children];
  if (!cards.length) {
    fill(place, none());
  } else if (now.length !== cards.length || cards.some((each, at) => each !== now[at])) {
    now.filter((each) => !cards.includes(each)).forEach((each) => each.remove());
    cards.forEach((each, at) => place.children[at] !== each && place.insertBefore(each, place.children[at] || null));
  }
}
