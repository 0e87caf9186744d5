// What the scripts of all pages share. Nothing is ever parsed as HTML: every value becomes a text node, and the policy of
// the pages (require-trusted-types-for) forbids the rest.

/** The address of the server as the browser knows it, also behind a proxy with a path of its own. It has no last slash. */
export const BASE_URL = new URL(".", location.href).href.replace(/\/$/, "");

export const find = (id) => document.getElementById(id);

/** Returns a copy of the element in a template. `texts` are the texts of the elements that name them in `data-text`. */
export function fillTemplate(id, texts = {}) {
  const copy = document.importNode(find(id).content, true);
  fillTexts(copy, texts);
  return copy.firstElementChild;
}

export function fillTexts(parent, texts) {
  for (const place of parent.querySelectorAll("[data-text]")) place.textContent = texts[place.dataset.text];
}

export function buildElement(name, text, className = "") {
  const element = document.createElement(name);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

/** Shows a name or path so that a narrow screen breaks it between its parts, and not inside a word. */
export function showCode(element, text) {
  const parts = text.split(/(?=[/:.])|(?<=[_=,(])|(?<=[a-z])(?=[A-Z])/);
  element.replaceChildren(...parts.flatMap((part) => [document.createElement("wbr"), part]));
}

/** Appends a text in which code stands between backquotes. */
export function appendProse(parent, text) {
  text.split(/`([^`]+)`/).forEach((part, index) => {
    const code = index % 2 ? document.createElement("code") : null;
    if (code) showCode(code, part);
    parent.append(code ?? part);
  });
}

/** Returns the JSON of a read model of the server. Throws an error with a message for the reader. */
export async function fetchModel(path, headers = {}) {
  let reply;
  try {
    reply = await fetch(`${BASE_URL}/${path}`, { headers, cache: "no-store" });
  } catch (error) {
    throw new Error(`The request failed: ${error.message}`);
  }
  if (reply.status === 401) throw new Error("This server does not know the key.");
  if (!reply.ok) throw new Error(`The reply has status ${reply.status}.`);
  return reply.json();
}

/** Shows a page by `render`, or the reason why it cannot be shown. */
export async function showPage(render) {
  try {
    await render();
  } catch (error) {
    find("problem").textContent = error.message;
  }
  document.querySelector("main").removeAttribute("aria-busy");
  // The browser looked for the place of the address before it existed.
  if (location.hash) find(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}
