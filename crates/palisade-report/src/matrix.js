// Only filters; everything is on the page without it.
const box = document.getElementById("filter");
const input = box.querySelector("input");
box.hidden = false;
input.addEventListener("input", () => {
  const wanted = input.value.trim().toLowerCase();
  const has = (it) => it.textContent.toLowerCase().includes(wanted);
  let shown = 0;
  for (const details of document.querySelectorAll("details")) {
    let any = false;
    for (const row of details.querySelectorAll("tr:has(li)")) {
      const whole = has(row.querySelector("th"));
      let some = false;
      for (const line of row.querySelectorAll("li")) {
        line.hidden = !(whole || has(line));
        some ||= !line.hidden;
      }
      row.hidden = !some;
      any ||= some;
      shown += some;
    }
    details.hidden = !any;
    details.open = any && wanted !== "";
  }
  box.querySelector("output").textContent = wanted === "" ? "" : `${shown} sources`;
});
