// Sorts and filters the table of docs/leaderboard.md. Without scripts, all rows are shown.
document.addEventListener("DOMContentLoaded", () => {
  const table = document.querySelector("table.leaderboard");
  if (!table) return;
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const named = (name) => heads.findIndex((head) => head.textContent.trim() === name);

  const sort = (column, down) => {
    const key = (row) => row.cells[column].dataset.sort;
    const numbers = rows.every((row) => !Number.isNaN(Number(key(row))));
    rows.sort((a, b) => (numbers ? key(a) - key(b) : key(a).localeCompare(key(b))) * (down ? -1 : 1));
    body.append(...rows);
    heads.forEach((head, place) => head.setAttribute("aria-sort", place !== column ? "none" : down ? "descending" : "ascending"));
  };
  heads.forEach((head, column) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: head.textContent });
    button.addEventListener("click", () => sort(column, head.getAttribute("aria-sort") !== "descending"));
    head.replaceChildren(button);
  });

  const chosen = new Map();
  const filter = () => rows.forEach((row) => {
    row.hidden = [...chosen].some(([column, text]) => text !== "" && row.cells[column].textContent !== text);
  });
  const controls = document.createElement("p");
  controls.className = "leaderboard-controls";
  for (const [name, first] of [["model", ""], ["budget", "30%"], ["kind", ""]]) {
    const column = named(name), label = document.createElement("label"), select = document.createElement("select");
    const values = [...new Set(rows.map((row) => row.cells[column].textContent))].filter((text) => text).sort();
    select.append(new Option("all", ""), ...values.map((text) => new Option(text, text)));
    select.value = values.includes(first) ? first : "";
    chosen.set(column, select.value);
    select.addEventListener("change", () => { chosen.set(column, select.value); filter(); });
    label.append(`${name} `, select);
    controls.append(label, " ");
  }
  table.before(controls);
  filter();
  sort(named("accuracy"), true);
});
