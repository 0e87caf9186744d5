"""The script of the home page: copies examples, corrects addresses behind a proxy, and lists models for a key."""

from typing import Final

HOME_SCRIPT: Final = """
"use strict";
const base = new URL(".", location.href).href.replace(/\\/$/, "");

function correctAddresses() {
  for (const element of document.querySelectorAll("[data-origin]")) element.textContent = base;
}

function copyText(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  // navigator.clipboard exists only on HTTPS and on the own machine.
  if (navigator.clipboard) return navigator.clipboard.writeText(element.textContent).then(() => true, () => false);
  return Promise.resolve(document.execCommand("copy"));
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const copied = await copyText(document.getElementById(button.dataset.copy));
  button.textContent = copied ? "Copied" : "Selected";
});

document.addEventListener("submit", async (event) => {
  event.preventDefault();
  const note = document.getElementById("key-status");
  const key = document.getElementById("key").value.trim();
  try {
    const headers = {accept: "text/html", authorization: `Bearer ${key}`};
    const reply = await fetch(base + "/", {headers, cache: "no-store"});
    if (!reply.ok) {
      note.textContent =
        reply.status === 401 ? "This server does not know the key." : `The reply has status ${reply.status}.`;
      return;
    }
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    document.querySelector("main").replaceWith(page.querySelector("main"));
    correctAddresses();
    document.querySelector("summary")?.focus();
  } catch (error) {
    note.textContent = `The request failed: ${error.message}`;
  }
});

correctAddresses();
"""
