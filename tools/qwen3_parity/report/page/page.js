"use strict";
// The state is the address: #case=…&tap=…&step=…&q=…&op=…&show=…&sort=…; what a link points to opens.
const DATA = JSON.parse(document.getElementById("data").textContent);
const COLUMN = {name: 0, step: 1, op: 2, share: 3, own: 4, rms: 5, floor: 6, max: 7, ulp: 8, nonfinite: 9, passed: 10, exact: 11, other: 12, otherOwn: 13};
const PAGE = 40;
const at = (id) => document.getElementById(id);
const number = (value) => value === "inf" ? Infinity : value === "nan" ? NaN : value;
const isNumber = (value) => typeof value === "number" || value === "inf" || value === "nan";

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) made.setAttribute(name, value);
  made.append(...children.filter((one) => one !== null));
  return made;
}

function share(value) {
  if (!isNumber(value)) return value === null ? "–" : String(value);
  const size = number(value);
  if (!Number.isFinite(size)) return "no budget";
  if (size === 0) return "0";
  return size >= 10 ? `${digits(size)} ×` : size >= 0.99 ? `${Math.round(100 * size)} %` : `${Number((100 * size).toPrecision(2))} %`;
}

function digits(value, count = 3) {
  if (!isNumber(value)) return "–";
  const size = number(value);
  if (!Number.isFinite(size)) return String(size);
  const plain = Math.abs(size) < 1e4 && Math.abs(size) >= 1e-3 || size === 0;
  return plain ? String(Number(size.toPrecision(count))) : size.toExponential(count - 1).replace("e+", "e");
}

const state = {case: 0, tap: null, step: 0, q: "", op: "", show: "", sort: "", shown: PAGE};

function link(changes) {
  const next = {...state, ...changes}, words = new URLSearchParams();
  words.set("case", DATA.cases[next.case].name);
  if (next.tap !== null) { words.set("tap", next.tap); words.set("step", next.step); }
  for (const name of ["q", "op", "show", "sort"]) if (next[name]) words.set(name, next[name]);
  return "#" + words;
}

function parse(hash) {
  const words = new URLSearchParams(hash.slice(1));
  const named = DATA.cases.findIndex((one) => one.name === words.get("case"));
  state.case = named >= 0 ? named : Math.max(0, DATA.cases.findIndex((one) => !one.good));
  state.tap = words.get("tap");
  state.step = Number(words.get("step") || 0);
  for (const name of ["q", "op", "show", "sort"]) state[name] = words.get(name) || "";
}

const current = () => DATA.cases[state.case];
const nameOf = (one, row) => one.names[row[COLUMN.name]];
const passedAlone = (row) => !isNumber(row[COLUMN.own]) || number(row[COLUMN.own]) <= 1;

function split(name) {
  const found = /^(.*?)\.layers\.(\d+)\.(.*)$/.exec(name);
  return found ? {stack: found[1], layer: Number(found[2]), place: found[3]} : {stack: "", layer: null, place: name};
}

function open(hash, focus) {
  if (location.hash === hash) show(focus); else location.hash = hash;
}

let drawn = -1;
function show(focus = true) {
  if (!DATA.cases.length) return;
  if (location.hash && !location.hash.includes("=")) { if (drawn >= 0) return; }
  else parse(location.hash);
  if (drawn !== state.case) {
    drawn = state.case;
    state.shown = PAGE;
    if (at("case")) at("case").value = state.case;
    drawMap();
    drawTexts();
    drawCoverage();
    drawProvenance();
    drawOps();
    drawDrift();
  }
  for (const [id, name] of [["search", "q"], ["op", "op"], ["show", "show"]]) if (at(id).value !== state[name]) at(id).value = state[name];
  drawRows();
  drawTap(focus);
}
