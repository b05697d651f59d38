// Marks tables that are wider than the page, so that site.css shows that they scroll.
function markWideTables() {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) {
    wrap.classList.toggle("scrolls", wrap.scrollWidth > wrap.clientWidth + 1);
  }
}
window.addEventListener("load", () => setTimeout(markWideTables, 100));
window.addEventListener("resize", markWideTables);
