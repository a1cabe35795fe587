// The search page. Texts come into the document as text nodes only, so that nothing of the data can run.

const K = 10; // passages a column
const NO_SYSTEM = "";
const BEFORE = "dual_encoder"; // M_de, what GNN-encoder is compared with

const byId = (id) => document.getElementById(id);
const [form, query, left, right] = ["search", "query", "left", "right"].map(byId);
const [status, welcome, columns] = ["status", "welcome", "columns"].map(byId);
let systems = new Map(); // by name
let latest = 0; // number of the search whose answer is waited for

/** An element with attributes and children; strings become text nodes. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** The answer of an endpoint; throws an Error whose message is for people. */
async function ask(path, values) {
  const response = await fetch(`${path}?${new URLSearchParams(values)}`).catch(() => null);
  if (!response) throw new Error("The server does not answer. Is it still running?");
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.detail || `The server answered ${response.status}.`);
  return body;
}

// ---- searching

async function search() {
  const number = ++latest;
  const asked = query.value.trim();
  welcome.hidden = asked !== "";
  document.title = asked ? `${asked} · gnn-encoder` : "Search · gnn-encoder";
  columns.replaceChildren();
  status.textContent = asked ? "Searching…" : "";
  if (!asked) return;
  try {
    const found = await Promise.all(chosen().map((system) => ask("search", { query: asked, k: K, system })));
    if (number !== latest) return;
    columns.replaceChildren(...found.map((one, place) => column(one, found[1 - place], place === 0, asked)));
    const times = found.map((one) => `${titleOf(one.system)} in ${one.milliseconds.toFixed(0)} ms`).join(", ");
    status.textContent = found.some((one) => one.truncated) ? `${times}. The encoder does not read the end of the query: it is too long.` : times;
  } catch (error) {
    if (number === latest) status.textContent = error.message;
  }
}

/** The chosen systems; one alone where both are the same or there is no left one. */
function chosen() {
  return left.value === NO_SYSTEM || left.value === right.value ? [right.value] : [left.value, right.value];
}

const titleOf = (name) => systems.get(name).title;

function column(found, other, isFirst, asked) {
  const ranks = other ? new Map(other.hits.map((hit) => [hit.pid, hit.rank])) : null;
  const words = new Set(wordsOf(asked).filter((word) => word.length > 3)); // most shorter ones say nothing
  const hits = found.hits.map((hit) => {
    const move = !ranks ? null : isFirst ? gone(ranks.get(hit.pid)) : moved(ranks.get(hit.pid), hit.rank);
    return element("li", {}, result(hit, move, words, found.system));
  });
  return element("section", { class: "column", "data-system": found.system, "aria-label": titleOf(found.system) },
    element("h2", {}, titleOf(found.system)), element("ol", {}, ...hits));
}

function result(hit, move, words, system) {
  const foot = element("div", { class: "foot" }, `score ${hit.score.toFixed(3)}`, element("span", {}, `passage ${hit.pid}`));
  const card = element("article", { class: "hit", "data-pid": hit.pid },
    element("span", { class: "rank" }, String(hit.rank), move),
    hit.title ? element("h3", {}, ...marked(hit.title, words)) : null,
    element("p", { class: "text" }, ...marked(hit.text, words)), foot);
  if (systems.get(system).graph) {
    const why = element("button", { type: "button", "aria-expanded": "false" }, "Why",
      element("span", { class: "hidden" }, ` rank ${hit.rank}`));
    why.addEventListener("click", () => toggle(card, why, hit.pid, system));
    foot.append(why);
  }
  return card;
}

/** How a passage's rank differs from the one that it has on the left; undefined: it is not there. */
function moved(before, rank) {
  if (before === undefined) return element("span", { class: "move new" }, "new");
  if (before === rank) return null;
  return before > rank
    ? element("span", { class: "move up" }, `▲ ${before - rank}`)
    : element("span", { class: "move down" }, `▼ ${rank - before}`);
}

const gone = (after) => (after === undefined ? element("span", { class: "move gone" }, "gone") : null);

const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

/** The text with some words marked. */
function marked(text, words) {
  return text.split(/([\p{L}\p{N}]+)/u).map((part) => (words.has(part.toLowerCase()) ? element("mark", {}, part) : part));
}

// ---- why

async function toggle(card, button, pid, system) {
  const open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  card.querySelector(".why")?.remove();
  if (open) return;
  const panel = element("div", { class: "why", role: "region", "aria-label": `Why passage ${pid}`, "aria-live": "polite" },
    "Looking at the graph. The first look takes some seconds.");
  card.append(panel);
  try {
    panel.replaceChildren(...explanation(await ask("explain", { pid, system })));
  } catch (error) {
    panel.replaceChildren(`No explanation: ${error.message}`);
  }
}

/** What the tags of a query of the graph mean. */
const TAGS = { labelled: "this passage is a known answer to it", unlabelled: "no answer to it is known" };
const tagsOf = (one) => [one.labelled ? "labelled" : null, one.kind].filter((tag) => tag in TAGS);

function explanation(found) {
  const itself = { text: "the passage itself", attention: found.attention_to_itself };
  const most = Math.max(...[itself, ...found.queries].map((one) => one.attention));
  const hidden = found.n_queries - found.queries.length;
  const shown = new Set(found.queries.flatMap(tagsOf));
  const legend = Object.keys(TAGS).filter((tag) => shown.has(tag)).map((tag) => `${tag}: ${TAGS[tag]}`).join("; ");
  return [
    element("h4", {}, `Queries of the graph that shaped its vector: ${found.n_queries}`),
    element("ol", { class: "bars" }, ...[...found.queries, itself].map((one) => bar(one, most))),
    hidden ? element("p", {}, `${hidden} more are not shown.`) : "",
    legend ? element("p", { class: "legend" }, `${legend}.`) : "",
    element("p", {}, `The gate is ${percent(found.gate)} open; the vector moved by ${found.shift.toFixed(3)}.`),
  ];
}

function bar(one, most) {
  const share = element("i");
  share.style.setProperty("--share", one.attention / most);
  const tags = tagsOf(one).flatMap((tag) => [" ", element("span", { class: "tag" }, tag)]);
  return element("li", { class: one.kind === undefined ? "own" : one.labelled ? "labelled" : "" },
    element("span", {}, one.text, ...tags), element("span", {}, percent(one.attention)),
    element("span", { class: "bar", "aria-hidden": "true" }, share));
}

const percent = (share) => `${(100 * share).toFixed(1)}%`;

// ---- start and address

function readAddress() {
  const values = new URLSearchParams(location.search);
  query.value = values.get("q") ?? "";
  if (values.has("left")) left.value = systems.has(values.get("left")) ? values.get("left") : NO_SYSTEM;
  if (systems.has(values.get("right"))) right.value = values.get("right");
}

function go() {
  if (systems.size === 0) return; // start() searches for what was typed meanwhile
  const values = new URLSearchParams({ q: query.value.trim(), left: left.value, right: right.value });
  if (location.search !== `?${values}`) history.pushState(null, "", `?${values}`);
  search();
}

async function start() {
  try {
    const found = await ask("systems", {});
    systems = new Map(found.systems.map((system) => [system.name, system]));
    const names = [...systems.keys()];
    const options = () => names.map((name) => element("option", { value: name }, titleOf(name)));
    left.replaceChildren(element("option", { value: NO_SYSTEM }, "nothing"), ...options());
    right.replaceChildren(...options());
    left.value = names.includes(BEFORE) && names[0] !== BEFORE ? BEFORE : NO_SYSTEM;
    right.value = names[0];
    byId("examples").replaceChildren(...found.examples.map((text) =>
      element("li", {}, element("a", { href: `?${new URLSearchParams({ q: text })}` }, text))));
    const typed = query.value.trim();
    readAddress();
    if (typed && !query.value) query.value = typed;
    if (typed) go();
    else search();
  } catch (error) {
    status.textContent = error.message;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  go();
});
for (const select of [left, right]) select.addEventListener("change", go);
window.addEventListener("popstate", () => {
  readAddress();
  search();
});
start();
