// Inside Airflow's UI the page lies in a frame that may not navigate it. A link to the UI's own
// pages is therefore followed by the frame's parent; outside of a frame it is an ordinary link.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-airflow]");
  if (!link || window.parent === window) return;
  event.preventDefault();
  const above = window.parent.document.createElement("a");
  above.href = link.href;
  window.parent.document.body.append(above);
  above.click();
  above.remove();
});
