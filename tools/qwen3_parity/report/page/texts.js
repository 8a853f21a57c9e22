// Tokenizations as texts, the first difference marked; what was not compared; where both sides come from.
function oneText(text) {
  const made = element("div");
  const side = (items) => {
    const row = element("div", {class: "items"});
    if (text.from) row.append(element("span", {class: "dim"}, "…"));
    items.forEach((item, number) => row.append(element(number === text.at ? "mark" : "span", {}, item)));
    if (text.at >= items.length) row.append(element("mark", {}, "nothing more"));
    return row;
  };
  made.append(element("h3", {}, `${text.name}: ${text.what}`));
  if (text.text) made.append(element("p", {class: "mono"}, text.text));
  made.append(element("p", {class: "dim"}, "candidate"), side(text.actual), element("p", {class: "dim"}, "golden"), side(text.expected));
  return made;
}

function drawTexts() {
  const one = current(), place = at("texts");
  place.hidden = !one.texts.length;
  place.replaceChildren();
  if (!one.texts.length) return;
  place.append(element("h2", {}, "Texts, each at its first stage that differs"));
  for (const text of one.texts) place.append(oneText(text));
}

function listing(title, rows) {
  if (!rows.length) return [];
  const list = element("ul", {}, ...rows.slice(0, 60).map((row) => element("li", {class: "mono"}, row)));
  if (rows.length > 60) list.append(element("li", {}, `and ${rows.length - 60} more`));
  return [element("h3", {}, title), list];
}

function drawCoverage() {
  const one = current(), cover = one.coverage, body = at("coverage-body");
  body.replaceChildren(element("p", {}, one.summary));
  for (const line of one.remarks) body.append(element("p", {class: "dim"}, line));
  for (const text of one.structural) body.append(element("pre", {}, text));
  const counted = ([name, count]) => `${name} (${count})`;
  body.append(
    ...listing("Never made by this backend, so not compared", cover.not_materialised.map(counted)),
    ...listing("Results of the case that were not compared", cover.no_results),
    ...listing("Ops that could not be judged alone", cover.not_alone.map(([why, place, count]) => `${place} (${count}): ${why}`)),
  );
  if (cover.missing) body.append(element("p", {class: "bad"}, `${cover.missing} taps are declared and were not delivered.`));
  const strange = one.rows.filter((row) => row[COLUMN.nonfinite]);
  body.append(element("h3", {}, "NaN and infinities"));
  if (!strange.length) { body.append(element("p", {}, "None, on either side, padding included.")); return; }
  const total = (side) => strange.reduce((sum, row) => sum + row[COLUMN.nonfinite][side], 0);
  body.append(element("p", {class: "bad"}, `In ${strange.length} taps: ${total(0)} elements of the candidate alone, ${total(1)} of the golden alone, ${total(2)} of both. `, element("a", {href: link({show: "nan"})}, "Show them")));
}

function drawProvenance() {
  const one = current(), body = at("provenance-body");
  if (!one.provenance.length) { body.replaceChildren(element("p", {}, `${one.golden} against ${one.candidate}`)); return; }
  const rows = one.provenance.map(([what, golden, candidate]) => element("tr", {}, element("th", {scope: "row"}, what), element("td", {class: "wrap mono"}, golden || "–"), element("td", {class: "wrap mono"}, candidate || "–")));
  const head = element("tr", {}, ...["", "golden", "candidate"].map((text) => text ? element("th", {scope: "col"}, text) : element("td", {})));
  body.replaceChildren(element("div", {class: "scroll", role: "region", "aria-label": "Provenance", tabindex: "0"}, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))));
}
