// The plots, drawn when they come into sight, in the colours of the page, and again when the theme changes.
const LEAST = 1e-4;
const waiting = new Map();
const dark = matchMedia("(prefers-color-scheme: dark)");
const watcher = new IntersectionObserver((entries) => {
  for (const one of entries) if (one.isIntersecting) { watcher.unobserve(one.target); draw(one.target); }
}, {rootMargin: "200px"});

function colours() {
  const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue(`--${name}`).trim();
  const named = {bad: read("bad"), soft: read("soft"), accent: read("accent")};
  const text = {labelColor: read("soft"), titleColor: read("soft"), labelFontSize: 11, titleFontSize: 11, titleFontWeight: 400};
  const categories = dark.matches ? ["#ffb86b", "#79b8ff", "#7ee0a8", "#ff9aa2", "#c9a6ff", "#9fe3e8"] : ["#b4501f", "#0a5aa8", "#136c3c", "#9b2335", "#5b3fa0", "#0f6e77"];
  const ramp = dark.matches ? ["#1a2027", "#2b6cb0", "#ffd08a", "#ff8a80"] : ["#eef1f4", "#84b3e0", "#f08a5d", "#8a1009"];
  const config = {
    background: "transparent", font: "system-ui, sans-serif", view: {stroke: null}, aria: false,
    axis: {...text, gridColor: read("line"), domainColor: read("line"), tickColor: read("line"), labelLimit: 120},
    legend: {...text, orient: "top"}, range: {category: categories, heatmap: ramp, ramp, ordinal: categories},
  };
  return {named, config, ramp};
}

function themed(spec) {
  const {named, config, ramp} = colours();
  const coloured = JSON.parse(JSON.stringify(spec), (key, value) => key === "value" && value in named ? named[value] : value);
  const heat = coloured.encoding && coloured.encoding.color && coloured.encoding.color.scale;
  if (heat && heat.type === "symlog") heat.range = ramp;
  return {...coloured, config};
}

function draw(place) {
  const {spec, values} = waiting.get(place);
  vegaEmbed(place, themed({...spec, data: {values}}), {actions: false, renderer: "canvas", ast: true}).then((made) => {
    const drawing = place.querySelector("canvas");
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", spec.description || "plot");
    place.finish = made.finalize;
  });
}

function plot(place, name, values, changes = {}) {
  waiting.set(place, {spec: {...DATA.plots[name], ...changes}, values});
  watcher.observe(place);
}

dark.addEventListener("change", () => {
  for (const place of waiting.keys()) if (place.isConnected && place.finish) draw(place);
});

function figure(caption, name, values, changes = {}) {
  const place = element("div", {class: "plot"});
  plot(place, name, values, {description: caption, ...changes});
  return element("figure", {}, element("figcaption", {}, caption), place);
}

function drawDrift() {
  const one = current();
  at("drift").hidden = one.kind === "texts" || one.rows.length < 2;
  if (at("drift").hidden) return;
  const order = new Map(), values = [];
  for (const row of one.rows) {
    const name = nameOf(one, row);
    if (!order.has(name)) order.set(name, {at: order.size, own: null, share: null});
    const best = order.get(name);
    for (const key of ["own", "share"]) if (isNumber(row[COLUMN[key]])) best[key] = Math.max(best[key] ?? 0, number(row[COLUMN[key]]));
  }
  at("drift").querySelector(".plot").textContent = "";
  for (const [tap, best] of order) for (const [key, error] of [["own", "alone"], ["share", "run"]]) {
    if (best[key]) values.push({at: best.at, tap, error, share: Math.max(Math.min(best[key], 1e12), LEAST)});
  }
  const place = at("drift").querySelector(".plot");
  if (!values.length) { place.append(element("p", {class: "dim"}, "No tap has an error.")); return; }
  const {layer} = JSON.parse(JSON.stringify(DATA.plots.order)), ticks = layerTicks([...order.keys()]);
  layer[0].encoding.x.axis = {...layer[0].encoding.x.axis, values: ticks.map(([at]) => at), labelExpr: `${JSON.stringify(ticks.map(([, label]) => label))}[indexof(${JSON.stringify(ticks.map(([at]) => at))}, datum.value)]`};
  plot(place, "order", values, {layer, description: "Share of what is allowed at each tap, the run and the op alone, the worst of all steps"});
  watcher.unobserve(place);
  draw(place);  // at once: whoever prints the page has it
}

/** Where each layer begins among the taps, and its number; the first of a stack has the stack's name where there are several. */
function layerTicks(names) {
  const parts = names.map(split), stacks = new Set(parts.filter(({layer}) => layer !== null).map(({stack}) => stack)), ticks = [];
  parts.forEach(({stack, layer}, at) => {
    const last = parts[at - 1] || {stack: "", layer: null};
    if (last.layer === layer && (layer === null || last.stack === stack)) return;
    ticks.push([at, layer === null ? "end" : stacks.size > 1 && last.stack !== stack ? `${stack} ${layer}` : String(layer)]);
  });
  return ticks;
}

function depthAndSteps(one, row, figures) {
  const here = split(nameOf(one, row)), room = one.rooms[one.ops[row[COLUMN.op]]];
  const value = (other, more) => {
    const floor = number(other[COLUMN.floor]), rms = number(other[COLUMN.rms]);
    return {tap: nameOf(one, other), step: other[COLUMN.step], floor, budget: floor * room, rms: Math.max(Math.min(rms, 1e30), floor * 1e-3), ...more};
  };
  const usable = (other) => number(other[COLUMN.floor]) > 0 && Number.isFinite(number(other[COLUMN.rms]));
  const alike = one.rows.filter((other) => usable(other) && (({stack, place}) => stack === here.stack && place === here.place)(split(nameOf(one, other))));
  const steps = [...new Set(alike.map((other) => other[COLUMN.step]))], kept = new Set([...steps.slice(0, 5), row[COLUMN.step]]);
  const depth = alike.filter((other) => kept.has(other[COLUMN.step])).map((other) => value(other, {layer: split(nameOf(one, other)).layer}));
  if (here.layer !== null && new Set(depth.map((other) => other.layer)).size > 1) figures.append(figure("Error over depth; the band is from the floor to the budget", "depth", depth));
  const over = alike.filter((other) => other[COLUMN.name] === row[COLUMN.name]).map((other) => value(other, {}));
  if (over.length > 1) figures.append(figure("Error over steps; the band is from the floor to the budget", "steps", over));
}

function pictures(picture, figures) {
  const [down, across] = picture.axes, values = [];
  picture.heat.forEach((row, y) => row.forEach((error, x) => values.push({row: picture.starts[0][y], column: picture.starts[1][x], error: Math.min(number(error), 1e30)})));
  if (values.length > 1) {
    const spec = JSON.parse(JSON.stringify(DATA.plots.heat)), rows = picture.starts[0].length;
    spec.encoding.x.title = across;
    spec.encoding.y.title = down || "";
    const least = Math.min(...values.map((one) => one.error).filter((error) => error > 0));
    if (Number.isFinite(least)) spec.encoding.color.scale.constant = least;
    figures.append(figure(`Largest error, ${down ? `${down} × ` : ""}${across}`, "heat", values, {...spec, height: Math.max(60, Math.min(260, rows * 16))}));
  }
  const labels = picture.bins.map(([bound, count], at) => ({upto: bound === 0 ? "0" : number(bound) === Infinity ? `> ${digits(picture.bins[at - 1][0], 2)}` : `≤ ${digits(bound, 2)}`, count}));
  while (labels.length > 2 && labels[1].count === 0) labels.splice(1, 1);  // 0, and from the smallest error on
  const spec = JSON.parse(JSON.stringify(DATA.plots.bins));
  spec.encoding.x.title = picture.unit;
  figures.append(figure(`Errors in ${picture.unit}, element by element`, "bins", labels, spec));
}

function drawHistory() {
  const place = document.querySelector("[data-plot=history]");
  if (!place) return;
  const values = [], single = new Set(DATA.history.flatMap((run) => Object.keys(run.cases))).size === 1;
  for (const run of DATA.history) for (const [name, one] of Object.entries(run.cases)) {
    const groups = single ? one.ops : {[name]: one.worst};
    for (const [group, worst] of Object.entries(groups)) if (isNumber(worst) && number(worst) > 0) values.push({label: run.label, group, share: Math.max(Math.min(number(worst), 1e12), LEAST)});
  }
  const worst = new Map();
  for (const one of values) worst.set(one.group, Math.max(worst.get(one.group) ?? 0, one.share));
  const kept = new Set([...worst].sort(([, a], [, b]) => b - a).slice(0, 8).map(([group]) => group));
  plot(place, "history", values.filter((one) => kept.has(one.group)), {description: "Worst share of a budget over versions"});
}
