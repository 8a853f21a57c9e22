// The table of taps, a page of rows at a time, and one tap from near.
const HEADS = [["tap", "name"], ["step", "step"], ["op", "op"], ["run, of budget", "share"], ["alone, of headroom", "own"], ["RMS error", "rms"], ["floor", "floor"], ["largest", "max"], ["ULPs", "ulp"]];

function heads(one) {
  const more = one.other ? [["other: run", "other"], ["other: alone", "otherOwn"]] : [];
  return one.kind === "texts" ? [["stage", "name"], ["text", "step"], ["differs", "share"]] : [...HEADS, ...more];
}

function drawOps() {
  const one = current();
  at("op").replaceChildren(element("option", {value: ""}, "all"), ...one.ops.map((op) => element("option", {value: op}, op)));
  at("op").value = state.op;
}

function chosen() {
  const one = current(), words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = one.rows.filter((row) => {
    const name = nameOf(one, row).toLowerCase();
    if (!words.every((word) => name.includes(word))) return false;
    if (state.op && one.ops[row[COLUMN.op]] !== state.op) return false;
    if (state.show === "red") return !row[COLUMN.passed];
    if (state.show === "own") return !passedAlone(row);
    return state.show !== "nan" || row[COLUMN.nonfinite] !== null;
  });
  if (!state.sort) return kept;
  const down = state.sort.startsWith("-"), key = state.sort.replace("-", "");
  if (!(key in COLUMN)) return kept;
  const value = (row) => key === "name" ? nameOf(one, row) : key === "op" ? one.ops[row[COLUMN.op]] : isNumber(row[COLUMN[key]]) ? number(row[COLUMN[key]]) : -1;
  return kept.map((row) => [value(row), row]).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1)).map(([, row]) => row);
}

function drawRows() {
  const one = current(), rows = chosen(), columns = heads(one), head = element("tr"), victims = accused(one, COLUMN.own);
  for (const [title, key] of columns) {
    const sorted = state.sort.replace("-", "") === key;
    const button = element("button", {type: "button"}, title);
    button.addEventListener("click", () => update({sort: state.sort === `-${key}` ? key : `-${key}`}));
    head.append(element("th", {scope: "col", class: ["name", "op"].includes(key) ? null : "n", "aria-sort": sorted ? (state.sort.startsWith("-") ? "descending" : "ascending") : null}, button));
  }
  const body = element("tbody");
  for (const row of rows.slice(0, state.shown)) {
    const line = element("tr", {class: !passedAlone(row) ? "culprit" : row[COLUMN.passed] ? null : victims ? "victim" : "bad"});
    for (const [, key] of columns) line.append(entry(one, row, key));
    body.append(line);
  }
  at("rows").replaceChildren(element("thead", {}, head), body);
  at("count").textContent = `${rows.length} of ${one.rows.length}`;
  at("more").hidden = rows.length <= state.shown;
}

function entry(one, row, key) {
  const value = row[COLUMN[key]];
  if (key === "name") return element("td", {class: "mono"}, element("a", {href: link({tap: nameOf(one, row), step: row[COLUMN.step]})}, nameOf(one, row)), passedAlone(row) ? null : element("span", {class: "tag"}, "wrong here"));
  if (key === "op") return element("td", {}, one.ops[value]);
  if (key === "step") return element("td", {class: "n"}, String(value));
  if (one.kind === "texts") return element("td", {class: "n"}, row[COLUMN.passed] ? "" : "yes");
  if (["share", "own", "other", "otherOwn"].includes(key)) {
    if (key === "share" && row[COLUMN.exact]) return element("td", {class: "n"}, row[COLUMN.passed] ? "equal" : "differs");
    return element("td", {class: isNumber(value) ? "n" : "dim"}, value === null ? "–" : share(value));
  }
  return element("td", {class: "n"}, value === null ? "–" : digits(value));
}

function update(changes) {
  Object.assign(state, changes);
  state.shown = PAGE;
  history.replaceState(null, "", link({}));
  drawRows();
}

function drawTap(focus) {
  const one = current(), place = at("tap");
  const index = one.rows.findIndex((row) => nameOf(one, row) === state.tap && row[COLUMN.step] === state.step);
  const begins = state.tap === null ? beginning(one) : -1;
  place.hidden = state.tap === null && begins < 0;
  place.replaceChildren();
  if (place.hidden) return;
  if (begins >= 0) {
    aTap(one, begins, place, "Where it begins: ");
  } else if (index < 0) {
    place.append(element("h2", {tabindex: "-1"}, `${state.tap} (step ${state.step})`), element("p", {}, "There is no such tap in this case."));
  } else if (one.kind === "texts") {
    aText(one, index, place);
  } else {
    aTap(one, index, place);
  }
  if (focus) { place.scrollIntoView({block: "start"}); place.querySelector("h2").focus({preventScroll: true}); }
}

/** What is shown before anything is chosen: the first tap that is wrong alone and kept element by element, or the worst. */
function beginning(one) {
  const kept = Object.keys(one.pictures).map(Number);
  if (one.good || !kept.length) return -1;
  return kept.sort((a, b) => a - b).find((index) => !passedAlone(one.rows[index])) ?? kept.sort((a, b) => number(one.rows[b][COLUMN.share]) - number(one.rows[a][COLUMN.share]))[0];
}

function facts(pairs) {
  const made = element("dl");
  for (const [word, text] of pairs) if (text) made.append(element("dt", {}, word), element("dd", {}, text));
  return made;
}

function aText(one, index, place) {
  const row = one.rows[index], text = one.texts.find((text) => text.index === row[COLUMN.step] && text.stage === one.ops[row[COLUMN.op]]);
  place.append(element("h2", {tabindex: "-1"}, `${nameOf(one, row)}, text ${row[COLUMN.step]}`));
  place.append(problem(one, index) || element("p", {}, row[COLUMN.passed] ? "Equal." : "It differs, and so does an earlier stage of this text."));
  if (text) place.append(oneText(text));
}

function problem(one, index) {
  const found = one.problems[index];
  return found ? element("pre", {}, `${found.rule}\nexpected: ${found.expected}\ngot:      ${found.got}\nfault:    ${found.fault}\nnext:     ${found.next_step}`) : null;
}

function aTap(one, index, place, title = "") {
  const row = one.rows[index], own = row[COLUMN.own], picture = one.pictures[index];
  place.append(element("h2", {tabindex: "-1"}, title, ...`${nameOf(one, row)} (step ${row[COLUMN.step]})`.split(/(?<=\.)/).flatMap((part) => [part, element("wbr")])));
  const beyond = !row[COLUMN.passed], alone = isNumber(own);
  const verdict = !beyond ? "Within budget." : !passedAlone(row) ? "Wrong on its own inputs: a mistake is here." : alone ? "Right on its own inputs: it only passes on what came before." : "Beyond its budget; the op was not judged alone.";
  place.append(element("p", {class: beyond && !passedAlone(row) ? "bad" : null}, verdict));
  const nonfinite = row[COLUMN.nonfinite];
  place.append(facts([
    ["op", one.ops[row[COLUMN.op]]],
    ["run", row[COLUMN.exact] ? "compared exactly" : `${share(row[COLUMN.share])} of its budget`],
    ["alone", alone ? `${share(own)} of its headroom` : own],
    ["errors", row[COLUMN.rms] === null ? "" : `RMS ${digits(row[COLUMN.rms])}, largest ${digits(row[COLUMN.max])}, floor ${digits(row[COLUMN.floor])}`],
    ["ULPs", row[COLUMN.ulp] === null ? "" : digits(row[COLUMN.ulp])],
    ["NaN, infinity", nonfinite ? `${nonfinite[0]} in the candidate alone, ${nonfinite[1]} in the golden alone, ${nonfinite[2]} in both` : ""],
  ]));
  const said = problem(one, index);
  if (said) place.append(said);
  if (picture) place.append(worstElements(picture));
  const figures = element("div", {class: "figures"});
  depthAndSteps(one, row, figures);
  if (picture) pictures(picture, figures);
  if (!picture) place.append(elsewhere(one, row));
  place.append(figures);
}

/** Only the worst taps are kept element by element: the one of the same place, where there is one. */
function elsewhere(one, row) {
  const here = split(nameOf(one, row));
  const alike = Object.keys(one.pictures).map((index) => one.rows[index]).find((other) => (({stack, place}) => stack === here.stack && place === here.place)(split(nameOf(one, other))));
  if (!alike) return element("p", {class: "dim"}, "Element by element only the worst taps are kept, and this is none of them.");
  const name = nameOf(one, alike);
  return element("p", {class: "dim"}, "Element by element the worst tap of this place is kept: ", element("a", {href: link({tap: name, step: alike[COLUMN.step]})}, `${name} (step ${alike[COLUMN.step]})`));
}

function worstElements(picture) {
  const body = element("tbody");
  for (const [index, actual, expected, ulps] of picture.worst) {
    const difference = isNumber(actual) && isNumber(expected) ? digits(number(actual) - number(expected)) : "–";
    body.append(element("tr", {}, element("td", {class: "mono"}, `[${index.join(", ")}]`), ...[digits(actual, 9), digits(expected, 9), difference, ulps === null ? "–" : digits(ulps)].map((text) => element("td", {class: "n"}, text))));
  }
  if (!picture.worst.length) return element("p", {class: "dim"}, "Every judged element is equal.");
  const head = ["element", "candidate", "golden", "difference", "ULPs"].map((text, at) => element("th", {scope: "col", class: at ? "n" : null}, text));
  return element("div", {class: "scroll", role: "region", "aria-label": "Worst elements", tabindex: "0"}, element("table", {}, element("thead", {}, element("tr", {}, ...head)), body));
}
