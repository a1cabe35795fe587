// The search page. Texts come into the document as text nodes only, so that nothing of the data can run.

let k = 10; // passages a column, fewer where the server allows no more
const NO_SYSTEM = "";
const BEFORE = "dual_encoder"; // M_de, what GNN-encoder is compared with

const byId = (id) => document.getElementById(id);
const [form, query, left, right] = ["search", "query", "left", "right"].map(byId);
const [status, problem, welcome, columns, tabs] = ["status", "problem", "welcome", "columns", "tabs"].map(byId);
let titles = new Map(); // name of a system -> its title
let latest = 0; // number of the search whose answer is waited for

/** An element with attributes and children; strings become text nodes. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "share") made.style.setProperty("--share", String(value));
    else if (name === "onclick") made.addEventListener("click", value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** The answer of an endpoint; throws an Error whose message is for people. */
async function ask(path, values) {
  let response;
  try {
    response = await fetch(`${path}?${new URLSearchParams(values)}`, { headers: { Accept: "application/json" } });
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.detail || `The server answered ${response.status}.`);
  return body;
}

// ---- searching

async function search() {
  const number = ++latest;
  const asked = query.value.trim();
  const sides = chosenSides();
  problem.replaceChildren();
  welcome.hidden = asked !== "";
  document.title = asked ? `${asked} · gnn-encoder` : "Search · gnn-encoder";
  if (!asked) return clear();
  show(sides.map(([side, system]) => ghosts(side, system)));
  status.textContent = "Searching…";
  try {
    const found = await Promise.all(sides.map(([, system]) => ask("search", { query: asked, k, system, marks: true })));
    if (number !== latest) return;
    show(sides.map(([side], place) => column(side, found[place], found[1 - place], asked)));
    status.textContent = summary(found);
  } catch (error) {
    if (number === latest) fail(error, search);
  }
}

/** The chosen systems by side; one alone where both are the same or there is no left one. */
function chosenSides() {
  if (left.value === NO_SYSTEM || left.value === right.value) return [["right", right.value]];
  return [["left", left.value], ["right", right.value]];
}

function summary(found) {
  const times = found.map((one) => `${titles.get(one.system)} in ${one.milliseconds.toFixed(0)} ms`).join(", ");
  if (found.length === 1) return `${found[0].hits.length} passages: ${times}.`;
  const before = ranks(found[0]);
  const fresh = found[1].hits.filter((hit) => !before.has(hit.pid)).length;
  const moved = found[1].hits.filter((hit) => before.has(hit.pid) && before.get(hit.pid) !== hit.rank).length;
  return `${times}. Of the first ${found[1].hits.length}: ${fresh} new, ${moved} moved.`;
}

function clear() {
  columns.replaceChildren();
  tabs.hidden = true;
  status.textContent = "";
}

function fail(error, again) {
  clear();
  const retry = element("button", { type: "button", class: "quiet", onclick: again }, "Try again");
  problem.replaceChildren(error.message, retry);
}

// ---- columns of results

function show(made) {
  columns.replaceChildren(...made);
  columns.className = made.length === 1 ? "one" : "two";
  tabs.hidden = made.length === 1;
  if (made.length === 1) columns.dataset.shown = "right";
  tabs.replaceChildren(...(made.length === 1 ? [] : chosenSides().map(([side, system]) => tab(side, system))));
}

function tab(side, system) {
  const pressed = String(columns.dataset.shown === side);
  const choose = () => {
    columns.dataset.shown = side;
    for (const other of tabs.children) other.setAttribute("aria-pressed", String(other.dataset.side === side));
  };
  const made = element("button", { type: "button", class: "quiet", "aria-pressed": pressed, onclick: choose });
  made.dataset.side = side;
  made.append(titles.get(system));
  return made;
}

function ghosts(side, system) {
  const rows = Array.from({ length: 4 }, () => element("li", { class: "ghost" }));
  return element("section", { class: `column ${side}`, "aria-busy": "true", "aria-label": titles.get(system) },
    element("h2", {}, titles.get(system)), element("ol", {}, ...rows));
}

const ranks = (found) => new Map(found.hits.map((hit) => [hit.pid, hit.rank]));

function column(side, found, other, asked) {
  const places = other ? ranks(other) : null;
  const hits = found.hits.map((hit) => result(side, hit, places, found.system, asked));
  const title = element("h2", {}, titles.get(found.system), element("small", {}, side === "left" ? "before" : other ? "after" : ""));
  return element("section", { class: `column ${side}`, "aria-label": titles.get(found.system) }, title, element("ol", {}, ...hits));
}

function result(side, hit, places, system, asked) {
  const why = element("button", { type: "button", class: "quiet", "aria-expanded": "false" }, "Why",
    element("span", { class: "hidden" }, ` rank ${hit.rank}`));
  const card = element("article", { class: "hit" },
    element("span", { class: "rank" }, String(hit.rank), move(side, hit, places)),
    hit.title ? element("h3", {}, ...marked(hit.title, hit.marks.title)) : null,
    element("p", { class: "text" }, ...marked(hit.text, hit.marks.text)),
    element("div", { class: "foot" }, element("span", { class: "number" }, `score ${hit.score.toFixed(3)}`),
      element("span", { class: "pid" }, `passage ${hit.pid}`), why));
  card.dataset.pid = hit.pid;
  why.addEventListener("click", () => toggle(card, why, hit.pid, system, asked));
  for (const event of ["mouseenter", "focusin"]) card.addEventListener(event, () => pair(hit.pid));
  for (const event of ["mouseleave", "focusout"]) card.addEventListener(event, () => pair(null));
  return element("li", {}, card);
}

/** How the passage's rank differs from the other column's. */
function move(side, hit, places) {
  if (!places) return null;
  const other = places.get(hit.pid);
  if (side === "left") return other === undefined ? change("gone", "gone", "not among the others") : null;
  if (other === undefined) return change("new", "new", "not among the others");
  const by = other - hit.rank;
  if (by === 0) return null;
  return by > 0 ? change("up", `▲ ${by}`, `up ${by}`) : change("down", `▼ ${-by}`, `down ${-by}`);
}

const change = (kind, sign, words) => element("span", { class: `move ${kind}` },
  element("span", { "aria-hidden": "true" }, sign), element("span", { class: "hidden" }, ` ${words}`));

/** The text with spans of code points marked. */
function marked(text, spans) {
  const points = Array.from(text);
  const parts = [];
  let at = 0;
  for (const [first, last] of spans) {
    parts.push(points.slice(at, first).join(""), element("mark", {}, points.slice(first, last).join("")));
    at = last;
  }
  return [...parts, points.slice(at).join("")];
}

/** Show where the same passage stands in the other column. */
function pair(pid) {
  for (const card of columns.querySelectorAll(".hit")) card.classList.toggle("twin", card.dataset.pid === pid);
}

// ---- why

async function toggle(card, button, pid, system, asked) {
  const open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  card.classList.toggle("open", !open);
  card.querySelector(".why")?.remove();
  if (open) return;
  const panel = element("div", { class: "why", role: "region", "aria-label": `Why passage ${pid}`, "aria-live": "polite" });
  const slow = element("p", { class: "wait" }, "Looking at the graph. The first look takes some seconds.");
  panel.append(slow);
  card.append(panel);
  try {
    panel.replaceChildren(...explanation(await ask("explain", { query: asked, pid, system })));
  } catch (error) {
    panel.replaceChildren(element("p", { class: "note" }, `No explanation: ${error.message}`));
  }
}

function explanation(found) {
  const words = found.matched.map((word) => element("span", { class: "word" }, word));
  return [
    element("div", { class: "scores" }, found.before ? placed(found.before, "before") : null, placed(found.after, "after")),
    found.before ? element("p", { class: "note" }, "Each system has its own scale of scores: compare the ranks.") : null,
    element("p", {}, ...(words.length ? ["Words in common: ", ...words] : ["No telling word of the query is in this passage."])),
    ...(found.graph ? graph(found.graph) : []),
    found.note ? element("p", { class: "note" }, found.note) : null,
  ].filter((part) => part !== null);
}

function placed(one, when) {
  const rank = one.rank === null ? `not in the first ${one.depth}` : `rank ${one.rank}`;
  return element("div", { class: when }, element("span", {}, one.title),
    element("b", {}, one.score === null ? "–" : one.score.toFixed(3)), element("span", {}, rank));
}

/** The tags of a query of the graph, and what they mean. */
const TAGS = {
  labelled: "this passage is a known answer to it",
  unlabelled: "no answer to it is known",
  generated: "made from a passage",
};
const tagsOf = (one) => [one.labelled ? "labelled" : null, one.kind].filter((tag) => tag in TAGS);

function graph(found) {
  if (!found.n_queries) {
    return [element("p", { class: "note" }, "No query of the graph retrieves this passage: its vector is shaped by itself alone.")];
  }
  const most = Math.max(found.attention_to_itself, ...found.queries.map((one) => one.attention));
  const heads = Math.max(...found.attention_to_itself_by_head, ...found.queries.flatMap((one) => one.by_head));
  const itself = { text: "the passage itself", attention: found.attention_to_itself, by_head: found.attention_to_itself_by_head };
  const hidden = found.n_queries - found.queries.length;
  const small = itself.by_head.length ? " Small bars are the attention of each head." : "";
  const shown = new Set(found.queries.flatMap(tagsOf));
  const legend = Object.keys(TAGS).filter((tag) => shown.has(tag)).map((tag) => `${tag}: ${TAGS[tag]}`).join("; ");
  return [
    element("h4", {}, found.n_queries === 1 ? "The query that shaped it" : `The ${found.n_queries} queries that shaped it`),
    element("ol", { class: "bars" }, ...found.queries.map((one) => bar(one, most, heads)), bar(itself, most, heads)),
    legend ? element("p", { class: "note legend" }, `${legend}.`) : null,
    hidden ? element("p", { class: "note" }, `${hidden} more share ${percent(found.attention_of_the_others)} of the attention.`) : null,
    element("h4", {}, "How much of that came in"),
    element("div", { class: "gate" },
      element("span", { class: "bar", "aria-hidden": "true" }, element("i", { share: found.gate })),
      element("span", { class: "number" }, `gate ${percent(found.gate)} open`)),
    element("p", { class: "note" }, `The vector moved by ${found.shift.toFixed(3)}.${small}`),
  ].filter((part) => part !== null);
}

function bar(one, most, heads) {
  const kind = one.kind === undefined ? "own" : one.labelled ? "labelled" : "";
  return element("li", { class: kind },
    element("span", {}, one.text, ...tagsOf(one).flatMap((tag) => [" ", element("span", { class: "tag" }, tag)])),
    element("span", { class: "number" }, percent(one.attention)),
    element("span", { class: "bar", "aria-hidden": "true" }, element("i", { share: one.attention / most })),
    element("span", { class: "heads", "aria-hidden": "true" }, ...one.by_head.map((head) => element("i", { share: head / heads }))));
}

const percent = (share) => `${(100 * share).toFixed(1)}%`;

// ---- keyboard

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape") return act(event, () => escape(typing)); // which would empty the search box
  const empty = event.target === query && !query.value; // the box has the focus when the page opens
  if (event.key === "/" && (!typing || empty)) return act(event, () => query.select() ?? query.focus());
  if (event.key === "ArrowDown" && event.target === query) return act(event, () => step(1));
  if (typing) return;
  const steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
  if (event.key in steps && buttons().length) return act(event, () => step(steps[event.key]));
  const across = { h: "left", ArrowLeft: "left", l: "right", ArrowRight: "right" };
  if (event.key in across) return act(event, () => cross(across[event.key]));
});

function act(event, action) {
  event.preventDefault();
  action();
}

/** The Why buttons that can be seen, of one column or of both. */
const buttons = (side = "") => [...columns.querySelectorAll(`${side} .hit .foot button`)].filter((one) => one.offsetParent);

function step(by) {
  const own = document.activeElement.closest?.(".column");
  const all = own ? buttons(own.classList.contains("left") ? ".left" : ".right") : buttons(".right");
  const at = all.indexOf(document.activeElement.closest?.(".hit")?.querySelector(".foot button"));
  if (at === 0 && by < 0) return query.focus();
  focusOn(all[at < 0 ? 0 : Math.min(at + by, all.length - 1)]);
}

function cross(side) {
  const at = Number(document.activeElement.closest?.(".hit")?.querySelector(".rank")?.firstChild.data ?? 1) - 1;
  const all = buttons(`.${side}`);
  focusOn(all[Math.min(at, all.length - 1)]);
}

function focusOn(button) {
  button?.focus({ preventScroll: true });
  button?.closest(".hit").scrollIntoView({ block: "nearest" });
}

function escape(typing) {
  const focused = document.activeElement.closest?.(".hit.open");
  const card = focused ?? columns.querySelector(".hit.open");
  const button = card?.querySelector(".foot button");
  button?.click();
  if (button) focusOn(button);
  else if (typing) document.activeElement.blur();
}

// ---- start and address

const address = () => new URLSearchParams(location.search);

function readAddress() {
  const values = address();
  query.value = values.get("q") ?? "";
  for (const [select, name] of [[left, "left"], [right, "right"]]) {
    if (values.has(name) && [...select.options].some((option) => option.value === values.get(name))) select.value = values.get(name);
  }
}

function go() {
  if (titles.size === 0) return; // start() searches for what was typed meanwhile
  const values = new URLSearchParams({ q: query.value.trim(), left: left.value, right: right.value });
  if (location.search !== `?${values}`) history.pushState(null, "", `?${values}`);
  search();
}

function option(system) {
  return element("option", { value: system.name }, system.title);
}

async function start() {
  try {
    const found = await ask("systems", {});
    titles = new Map(found.systems.map((system) => [system.name, system.title]));
    const before = titles.has(BEFORE) && found.default !== BEFORE ? BEFORE : NO_SYSTEM;
    left.replaceChildren(element("option", { value: NO_SYSTEM }, "nothing"), ...found.systems.map(option));
    right.replaceChildren(...found.systems.map(option));
    [left.value, right.value] = [before, found.default];
    query.maxLength = found.limits.query;
    k = Math.min(k, found.limits.k);
    byId("examples").replaceChildren(...found.examples.map(example));
    byId("welcome-title").hidden = found.examples.length === 0;
    const typed = query.value.trim();
    readAddress();
    if (typed && !query.value) query.value = typed;
    if (typed) go();
    else search();
  } catch (error) {
    fail(error, start);
  }
}

const example = (text) => element("li", {}, element("a", { href: `?${new URLSearchParams({ q: text })}` }, text));

form.addEventListener("submit", (event) => act(event, go));
for (const select of [left, right]) select.addEventListener("change", go);
window.addEventListener("popstate", () => { readAddress(); search(); });
byId("examples").addEventListener("click", (event) => {
  if (!event.target.matches("a") || event.ctrlKey || event.metaKey) return;
  act(event, () => { query.value = event.target.textContent; go(); });
});
start();
