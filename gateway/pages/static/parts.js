// Parts of the page / that several of its sections show.

import { buildElement, fillTemplate } from "./page.js";

/** Returns a piece of code with a button that copies it. */
export function buildSnippet(id, title, code) {
  const snippet = fillTemplate("snippet-template", { title, code });
  snippet.querySelector("code").id = id;
  const button = snippet.querySelector("button");
  button.dataset.copy = id;
  button.dataset.title = title;
  button.setAttribute("aria-label", `Copy ${title}`);
  return snippet;
}

/** Returns the name and the description of a fact. */
export function renderFact(name, value) {
  const description = document.createElement("dd");
  description.append(value);
  return [buildElement("dt", name), description];
}
