// Sorting and search, by DataTables. Without scripts the tables are whole and readable all the same.
"use strict";
for (const table of document.querySelectorAll("table.grid")) {
  const rows = table.tBodies[0].rows.length;
  if (rows < 2) continue;
  const column = table.dataset.orderBy;
  const region = table.parentElement;
  new DataTable(table, {
    autoWidth: false,
    order: column === undefined ? [] : [[Number(column), table.dataset.orderUp === "1" ? "asc" : "desc"]],
    orderDescReverse: false,
    paging: rows > 25,
    pageLength: matchMedia("(max-width: 40rem)").matches ? 10 : 25,
    info: rows > 25,
    searching: rows > 8, // fewer are seen at a glance
    layout: { topStart: null, topEnd: "search", bottomStart: "info", bottomEnd: "paging" },
    language: { search: "Search", emptyTable: "Nothing", zeroRecords: "Nothing found" },
  });
  // The table alone scrolls sideways, not its search field; whoever uses a keyboard can reach the scrolling part.
  const scroller = region.querySelector(".dt-layout-table");
  if (!scroller) continue;
  for (const name of ["role", "aria-labelledby", "tabindex"]) {
    scroller.setAttribute(name, region.getAttribute(name));
    region.removeAttribute(name);
  }
  region.classList.remove("scroll");
}
