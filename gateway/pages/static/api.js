// The page /docs: shows pages/api.json.

import { appendProse, fetchModel, fillTemplate, find, showCode, showPage } from "./page.js";

function renderLinks(group) {
  const section = fillTemplate("links-template", group);
  section.querySelector("ul").append(...group.operations.map(renderLink));
  return section;
}

function renderLink(operation) {
  const link = fillTemplate("link-template", operation);
  link.querySelector("a").href = `#${operation.id}`;
  showCode(link.querySelector("code"), operation.path);
  return link;
}

function renderGroup(group) {
  const section = fillTemplate("group-template", group);
  section.append(...group.operations.map(renderOperation));
  return section;
}

function renderOperation(operation) {
  const article = fillTemplate("operation-template", operation);
  article.id = operation.id;
  showCode(article.querySelector("code"), operation.path);
  for (const text of operation.paragraphs) {
    const paragraph = document.createElement("p");
    appendProse(paragraph, text);
    article.append(paragraph);
  }
  if (operation.fields !== null) {
    const details = fillTemplate("fields-template");
    details.querySelector("tbody").append(...operation.fields.map(renderField));
    details.querySelector(".scroll").setAttribute("aria-label", `Fields of ${operation.method} ${operation.path}`);
    article.append(details);
  }
  return article;
}

function renderField(field) {
  const row = fillTemplate("field-template");
  showCode(row.querySelector("th code"), field.name);
  row.querySelector(".kind").append(field.type, field.required ? ", required" : "");
  appendProse(row.querySelector(".meaning"), field.meaning);
  row.querySelector(".example code").textContent = field.example;
  appendProse(row.querySelector(".reply"), field.reply);
  for (const [name, text] of [["meaning", field.meaning], ["example", field.example], ["reply", field.reply]]) {
    row.querySelector(`.${name}`).hidden = !text;
  }
  return row;
}

showPage(async () => {
  const page = await fetchModel("pages/api.json");
  find("index").append(...page.groups.map(renderLinks));
  find("groups").append(...page.groups.map(renderGroup));
});
