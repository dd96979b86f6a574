// The screen of one of the server's desks.
import { get, may, post, socket, to } from "./api.js";
import { screen } from "./screen.js";

export function desktop(panel, desk) {
  const viewer = [...crypto.getRandomValues(new Uint8Array(12))].map((each) => each.toString(16).padStart(2, "0")).join("");
  const path = `/desks/${to(desk)}`;
  return screen(panel, {
    control: may("desks"),
    quality: 8,
    open: () => socket(`${path}/screen?viewer=${viewer}`),
    look: () => get(`${path}/wheel?viewer=${viewer}`),
    turn: (act) => post(`${path}/wheel`, { act, viewer }),
    isGone: (error) => [404, 410].includes(error.status),
    hasScreen: () => get(path).then((found) => found.screen !== false, () => true),
  });
}
