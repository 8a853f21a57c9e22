// What the reader does.
at("filters").addEventListener("submit", (event) => event.preventDefault());
at("search").addEventListener("input", () => update({q: at("search").value}));
at("op").addEventListener("change", () => update({op: at("op").value}));
at("show").addEventListener("change", () => update({show: at("show").value}));
at("more").addEventListener("click", () => { state.shown += PAGE; drawRows(); });
if (at("case")) at("case").addEventListener("change", () => open(link({case: Number(at("case").value), tap: null, q: "", op: "", show: "", sort: ""}), false));
addEventListener("hashchange", () => show());
if (matchMedia("(max-width: 40rem)").matches) for (const one of document.querySelectorAll(".mistake details")) one.open = false;
for (const box of document.querySelectorAll("section > .scroll")) {
  const place = document.createComment("");
  box.replaceWith(place);
  place.replaceWith(edged(box));
}
drawHistory();
show(location.hash.includes("tap="));
