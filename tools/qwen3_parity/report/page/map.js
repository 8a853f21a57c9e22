// The map: a row an op, a column a layer; of each cell the left half is the op alone, the right half the run so far.
const LEVELS = [[0, "no error"], [0.1, "up to 10 %"], [0.5, "up to 50 %"], [1, "within"], [10, "up to 10 ×"], [1000, "up to 1000 ×"], [Infinity, "more, or never right"]];

function level(value) {
  if (!isNumber(value)) return "none";
  const size = number(value), found = LEVELS.findIndex(([most]) => size <= most);
  return "l" + (found < 0 || size === Infinity ? 6 : found);
}

function cellsOf(one, sides) {
  const rows = new Map(), layers = new Set(), texts = one.kind === "texts";
  for (const row of one.rows) {
    const {stack, layer, place} = texts ? {stack: "", layer: row[COLUMN.step], place: nameOf(one, row)} : split(nameOf(one, row));
    const key = `${stack}\n${place}`;
    if (!rows.has(key)) rows.set(key, {stack, place, cells: new Map()});
    layers.add(layer);
    const cells = rows.get(key).cells;
    if (!cells.has(layer)) cells.set(layer, {own: null, run: null, row, wrong: false, exact: true});
    const cell = cells.get(layer), values = [row[sides[0]], row[sides[1]]];
    for (const [name, value] of [["own", values[0]], ["run", values[1]]]) {
      if (isNumber(value) && (cell[name] === null || !(number(value) <= number(cell[name])))) {
        cell[name] = value;
        if (name === (isNumber(values[0]) ? "own" : "run")) cell.row = row;
      }
    }
  }
  return {rows: [...rows.values()], layers: [...layers].sort((a, b) => (a ?? -1) - (b ?? -1))};
}

function drawMap() {
  const one = current(), body = at("map-body");
  body.replaceChildren();
  if (!one.rows.length) { body.append(element("p", {class: "dim"}, "No tap was compared.")); return; }
  at("map-title").textContent = one.kind === "texts" ? "Map of the stages" : "Map of the network";
  body.append(legend(one));
  const mine = table(one, [COLUMN.own, COLUMN.share]);
  if (!one.other) { body.append(mine); return; }
  const side = (title, map) => element("div", {}, element("h3", {}, title), map);
  body.append(element("div", {class: "pair"}, side(one.candidate, mine), side(one.other.candidate, table(one, [COLUMN.otherOwn, COLUMN.other]))));
}

function legend(one) {
  const made = element("div", {class: "legend"}), texts = one.kind === "texts";
  const alone = one.rows.some((row) => isNumber(row[COLUMN.own]));
  made.append(element("span", {}, texts ? "A row a stage, a column a text." : alone ? "Left half: the op alone, on its own inputs. Right half: the run up to there." : "The run up to there; no op was judged alone."));
  const shown = texts ? [[0, "equal"], [6, "differs"]] : LEVELS.map(([, words], number) => [number, words]);
  for (const [number, words] of shown) made.append(element("span", {}, element("i", {class: `l${number}`}), words));
  if (accused(one, COLUMN.own)) made.append(element("span", {}, element("i", {class: "l6 pale"}), "pale: right alone, only passes on what came before"));
  if (alone) made.append(element("span", {}, element("i", {class: "none"}), "not judged"));
  return made;
}

function table(one, sides) {
  const {rows, layers} = cellsOf(one, sides), texts = one.kind === "texts";
  const wide = layers.filter((layer) => layer !== null).length <= 5;
  const first = blamed(one, rows, sides), victims = accused(one, sides[0]);
  const head = element("tr", {}, element("td", {}));
  for (const layer of layers) head.append(element("th", {scope: "col"}, layer === null ? "" : texts ? String(layer) : wide ? `layer ${layer}` : String(layer)));
  const body = element("tbody");
  let stack = null, links = [];
  for (const row of rows) {
    if (row.stack !== stack && row.stack) body.append(element("tr", {class: "stack"}, element("th", {scope: "row"}, row.stack)));
    stack = row.stack || stack;
    const line = element("tr", {}, element("th", {scope: "row"}, row.place.replace(/^(merged|self)_attn\./, "attn.")));
    const cells = [];
    for (const layer of layers) {
      const cell = row.cells.get(layer), box = element("td", {class: layer === null ? "outside" : null});
      if (cell) {
        const made = half(one, row, layer, cell, wide, cell === first, victims);
        box.append(made);
        cells.push(made);
      } else cells.push(null);
      line.append(box);
    }
    links.push(cells);
    body.append(line);
  }
  const made = element("table", {class: wide ? "wide" : ""}, element("thead", {}, head), body);
  arrows(made, links);
  return edged(element("div", {class: "scroll", role: "region", "aria-label": `Map: ops by layers, ${sides[1] === COLUMN.other ? "the other candidate" : "the candidate"}`, tabindex: "0"}, made));
}

/** A fade at the edge behind which a box that scrolls has more. */
function edged(box) {
  const around = element("div", {class: "edge"}, box), look = () => around.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  box.addEventListener("scroll", look, {passive: true});
  new ResizeObserver(look).observe(box);
  return around;
}

/** Whether an op of the case is wrong by itself: then what is red behind it, and right alone, is only a victim. */
function accused(one, side) {
  return one.rows.some((row) => isNumber(row[side]) && !(number(row[side]) <= 1));
}

/** The cell of the first tap in execution order that is wrong alone, or else beyond its budget: where it starts. */
function blamed(one, rows, sides) {
  const wrong = (side) => one.rows.find((row) => isNumber(row[side]) && !(number(row[side]) <= 1));
  const first = wrong(sides[0]) || wrong(sides[1]);
  if (!first || one.kind === "texts") return undefined;
  const {stack, layer, place} = split(nameOf(one, first));
  return rows.find((row) => row.stack === stack && row.place === place).cells.get(layer);
}

function half(one, row, layer, cell, wide, first, victims) {
  const alone = isNumber(cell.own), victim = victims && !(alone && !(number(cell.own) <= 1)), name = nameOf(one, cell.row);
  const text = (value) => wide && isNumber(value) && number(value) > 1 ? short(value) : !wide && isNumber(value) && !(number(value) <= 1) ? "!" : "";
  const label = `${row.place}${layer === null ? "" : one.kind === "texts" ? `, text ${layer}` : `, layer ${layer}`}: ${alone ? `alone ${share(cell.own)}, ` : ""}run ${share(cell.run)} of its budget${first ? "; it starts here" : ""}`;
  const made = element("a", {class: first ? "cell first" : "cell", href: link({tap: name, step: cell.row[COLUMN.step]}), "aria-label": label, title: label, tabindex: "-1"});
  if (one.kind !== "texts") made.append(element("i", {class: level(cell.own)}, text(cell.own)));
  made.append(element("i", {class: victim ? `${level(cell.run)} pale` : level(cell.run)}, text(cell.run)));
  return made;
}

function short(value) {
  const size = number(value);
  return !Number.isFinite(size) ? "∞" : size < 1000 ? `${Number(size.toPrecision(2))}×` : `${size.toExponential(0).replace("e+", "e")}×`;
}

/** One stop for the Tab key; the arrow keys move among the cells. */
function arrows(made, links) {
  const flat = links.flat().filter(Boolean);
  const start = flat.find((cell) => cell.classList.contains("first")) || flat[0];
  if (start) start.tabIndex = 0;
  made.addEventListener("keydown", (event) => {
    const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
    const row = links.findIndex((cells) => cells.includes(document.activeElement));
    if (!step || row < 0) return;
    event.preventDefault();
    let y = row, x = links[row].indexOf(document.activeElement);
    do { y += step[0]; x += step[1]; } while (links[y] && x >= 0 && x < links[y].length && !links[y][x]);
    const next = links[y] && links[y][x];
    if (!next) return;
    document.activeElement.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
