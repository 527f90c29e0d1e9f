// What comparing found, above the table: the causes, and what only one run has.

const MOST_CAUSES = 5;

/** Say what the banner does not say. @param {App} app */
function verdict(app) {
  const { diff, answers = [] } = app.data;
  const parts = [];
  if (diff.agreement) parts.push(make("p", "calm", diff.agreement));
  const isFirstTold = answers.some((answer) => answer.kind === "difference");
  diff.causes.slice(0, MOST_CAUSES).forEach((_, place) => {
    if (place > 0 || !isFirstTold) parts.push(causeLine(app, place));
  });
  const left = diff.causes.length - MOST_CAUSES;
  if (left > 0) parts.push(make("p", "dim", `… ${many(left)} causes more: n goes to the next`));
  parts.push(...diff.remarks.map((remark) => make("p", "", `! ${remark}`)));
  at("verdict").replaceChildren(...parts);
  at("verdict").hidden = !parts.length;
}

/** @param {App} app @param {number} place of the cause */
function causeLine(app, place) {
  const [kind, why, followers, certainty, a, b, effect, again, notes] = app.data.diff.causes[place];
  const row = (a || b) - 1;
  const isShown = row >= 0 && app.pairs.causeItems[place] >= 0;
  const name = `${app.calls.path(row)} ${isShown ? app.calls.label(row) : ""}`.trim();
  const facts = [
    effect === "lost" ? "its effect is lost on the way" : "",
    followers ? `${many(followers)} ${followers === 1 ? "call differs" : "calls differ"} because of it` : "",
    `known from ${certainty}`,
  ];
  return make("p", "", ...spaced([
    make("span", "tag red", place ? "cause" : "first cause"),
    isShown ? link(app, row, name) : make("b", "", kind),
    make("b", "", again.length ? `× ${many(again.length + 1)}` : ""),
    make("span", "", why),
    make("span", "dim", [...facts, ...notes].filter(Boolean).join(" · ")),
  ]));
}
