// What is selected, kept in the fragment of the page's address. Everything that is shown follows from it.

const DEFAULTS = {
  view: "flame",
  measure: "peak",
  from: "",
  to: "",
  process: "",
  thread: "",
  operator: "",
  query: "",
  zoom: "",
  unfolded: "",
  inverted: "",
  law: "",
  shape: "",
};

/** The selection: `get` one part, `set` some, `follow` changes. */
export function selection() {
  const followers = [];
  let parts = read();
  const tell = (changed) => followers.forEach((follower) => follower(changed));
  window.addEventListener("hashchange", () => {
    const before = parts;
    parts = read();
    const changed = Object.keys(DEFAULTS).filter((name) => before[name] !== parts[name]);
    if (changed.length) tell(changed);
  });
  return {
    get: (name) => parts[name],
    set(more) {
      const changed = Object.keys(more).filter((name) => parts[name] !== String(more[name]));
      if (!changed.length) return;
      for (const name of changed) parts[name] = String(more[name]);
      keep(written(parts));
      tell(changed);
    },
    follow: (follower) => followers.push(follower),
  };
}

function read() {
  const written = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(
    Object.entries(DEFAULTS).map(([name, value]) => [name, written.get(name) ?? value]),
  );
}

/** Puts a selection into the address, which a page in a notebook's frame does not have. */
function keep(fragment) {
  if (location.protocol !== "about:") history.replaceState(null, "", fragment);
}

function written(parts) {
  const kept = Object.entries(parts).filter(([name, value]) => value !== DEFAULTS[name]);
  return `#${new URLSearchParams(kept)}`;
}
