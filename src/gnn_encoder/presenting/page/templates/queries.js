// Choosing systems in the section Query by query. Texts of passages and queries are only ever set as textContent.
"use strict";
(function () {
  const embedded = document.getElementById("embedded");
  if (!embedded) return;
  const view = JSON.parse(embedded.textContent);
  const at = (id) => document.getElementById(id);

  function element(name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function passage(place, right) {
    const { pid, title, text } = view.texts[place];
    const item = element("li", undefined, right ? "relevant" : "");
    if (right) item.append(element("strong", "relevant", "mark"), " ");
    if (title) item.append(element("b", title), " ");
    item.append(text, " ", element("small", pid));
    return item;
  }

  function side(query, system) {
    const made = element("div");
    const heading = element("h4", view.names[system]);
    heading.append(element("span", `${view.measure} ${query.values[system].toFixed(2)}`, "value"));
    const list = element("ol");
    for (const place of query.passages[system]) list.append(passage(place, query.relevant.includes(place)));
    made.append(heading, list);
    return made;
  }

  function asked(query, first, second) {
    const made = element("details", undefined, "query");
    const summary = element("summary", `${query.text} `);
    const values = [first, second].map((system) => query.values[system].toFixed(2));
    summary.append(element("span", values.join(" → "), "value"));
    const sides = element("div", undefined, "sides");
    sides.append(side(query, first), side(query, second));
    made.append(summary, sides);
    return made;
  }

  // The stored pair of the two systems, with first and second swapped if it is stored the other way round.
  function pairOf(split, first, second) {
    const [a, b] = [view.systems[first], view.systems[second]];
    for (const pair of split.pairs) {
      if (pair.first === a && pair.second === b) return pair;
      if (pair.first === b && pair.second === a) {
        return { won: pair.lost, lost: pair.won, better: pair.worse, worse: pair.better, same: pair.same };
      }
    }
    return { won: [], lost: [], better: 0, worse: 0, same: 0 };
  }

  function show() {
    const split = view.splits[at("split").value];
    const [first, second] = [Number(at("first").value), Number(at("second").value)];
    const pair = pairOf(split, first, second);
    const count = (number) => number.toLocaleString("en");
    at("summary").textContent =
      first === second
        ? "Choose two different systems."
        : `${split.name[0].toUpperCase()}${split.name.slice(1)} queries, ${view.names[second]} against ` +
          `${view.names[first]}: ${count(pair.better)} better, ${count(pair.worse)} worse, ${count(pair.same)} the same.`;
    for (const outcome of ["won", "lost"]) {
      const made = pair[outcome].map((place) => asked(split.queries[place], first, second));
      at(outcome).replaceChildren(...(made.length ? made : [element("p", "None.")]));
    }
    at("open").textContent = "Open all";
  }

  function options(select, names, chosen) {
    names.forEach((name, place) => select.add(new Option(name, place, place === chosen, place === chosen)));
    select.addEventListener("change", show);
  }

  const start = view.start;
  options(at("split"), view.splits.map((split) => split.name), start.split);
  options(at("first"), view.names, view.systems.indexOf(start.first));
  options(at("second"), view.names, view.systems.indexOf(start.second));
  at("swap").addEventListener("click", () => {
    [at("first").value, at("second").value] = [at("second").value, at("first").value];
    show();
  });
  at("open").addEventListener("click", () => {
    const queries = [...document.querySelectorAll("#comparison details")];
    const open = !queries.every((query) => query.open);
    queries.forEach((query) => (query.open = open));
    at("open").textContent = open ? "Close all" : "Open all";
  });
  at("choice").hidden = false;
})();

// Print everything that is folded on the screen.
(function () {
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((part) => (part.open = true));
  });
  window.addEventListener("afterprint", () => closed.forEach((part) => (part.open = false)));
})();
